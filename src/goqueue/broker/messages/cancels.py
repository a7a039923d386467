"""Who waits to hear whether a delayed message was cancelled in time.

Never cancels anything: a cancellation or a delivery that is committed says how it ended.
"""

from goqueue.broker.outbox import Outbox
from goqueue.model import Code, LogId, Offset, Refused, RequestId
from goqueue.model.requests import Done

__all__ = ["Cancels"]


class Cancels:
    """Requests by the message that they are about."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._requests: dict[tuple[LogId, Offset], list[RequestId]] = {}

    def wait(self, log: LogId, message: Offset, request: RequestId) -> None:
        self._requests.setdefault((log, message), []).append(request)

    def succeed(self, log: LogId, message: Offset) -> None:
        """The message is cancelled."""
        for request in self._requests.pop((log, message), ()):
            self._outbox.answer(request, Done())

    def come_late(self, log: LogId, message: Offset, delivered: Offset) -> None:
        """The message was delivered before."""
        for request in self._requests.pop((log, message), ()):
            refused = Refused(Code.ALREADY_DELIVERED, delivered_offset=delivered)
            self._outbox.answer(request, refused)

    def refuse(self, log: LogId, message: Offset, code: Code) -> None:
        """Neither is possible."""
        for request in self._requests.pop((log, message), ()):
            self._outbox.answer(request, Refused(code))

    def forget(self, log: LogId) -> None:
        """The topic is gone, and its messages with it."""
        for key in [key for key in self._requests if key[0] == log]:
            for request in self._requests.pop(key):
                gone = Refused(Code.TOPIC_NOT_FOUND, topic=log.topic)
                self._outbox.answer(request, gone)
