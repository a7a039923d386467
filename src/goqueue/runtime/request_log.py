"""Logs requests: those that were refused, sampled, and with `log.access` every one.

Cost of a request that succeeds, with the access log off: one comparison in the gateway.
"""

from goqueue.gateways import AnsweredRequest
from goqueue.runtime.event_log import EventLog

__all__ = ["RequestLog"]

_CLIENT_ERROR = 400
_CLIENT_GONE = 499
# The node, not the caller, is the reason: it is full, failed, or had no room.
_NODE_STATUSES = frozenset({429, 500, 503, 504, 507})
# A probe that is told "not ready" has succeeded; what is wrong has events of its own.
_PROBES = frozenset({b"/health", b"/healthz", b"/livez", b"/readyz"})
_NOT_READY = 503


class RequestLog:
    """What the gateways report of their requests."""

    def __init__(self, log: EventLog, *, logs_access: bool) -> None:
        self._log = log
        self.logs_access = logs_access

    def answered(self, answered: AnsweredRequest) -> None:
        """A request was answered, or refused unread; a stream has ended."""
        path = answered.path.decode("latin-1")
        if self.logs_access:
            self._log.write(
                "access",
                {
                    "client": answered.client,
                    "method": answered.method,
                    "path": path,
                    "status": answered.status,
                    "bytes": answered.size,
                    "duration_ms": round(answered.duration_ns / 1e6, 3),
                    "request_id": answered.request_id.decode("ascii"),
                },
            )
        if answered.status == _NOT_READY and answered.path.partition(b"?")[0] in _PROBES:
            return
        if answered.status >= _CLIENT_ERROR and answered.status != _CLIENT_GONE:
            self._log(
                "request_failed" if answered.status in _NODE_STATUSES else "request_refused",
                client=answered.client,
                method=answered.method,
                path=path,
                status=answered.status,
                code=answered.code,
                reason=answered.reason,
                request_id=answered.request_id.decode("ascii"),
            )

    def opened(self, opened: AnsweredRequest) -> None:
        """A stream begins, whose line in the access log comes with its end."""
        self._log(
            "stream_opened",
            client=opened.client,
            method=opened.method,
            path=opened.path.decode("latin-1"),
            request_id=opened.request_id.decode("ascii"),
        )
