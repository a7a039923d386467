"""What the log says of requests: refusals sampled by code, and every request only if wanted."""

import msgspec
import pytest

from goqueue.gateways import AnsweredRequest
from goqueue.runtime.request_log import RequestLog
from tests.unit.runtime.event_lines import EventLines


def request(status: int, code: str = "") -> AnsweredRequest:
    return AnsweredRequest(
        client="10.0.0.7",
        method="GET",
        path=b"/topics/\xff",
        status=status,
        size=12,
        request_id=b"id-1",
        duration_ns=1_234_567,
        code=code,
        reason="because",
    )


@pytest.mark.parametrize("path", [b"/readyz", b"/readyz?verbose=true", b"/livez", b"/healthz"])
def test_a_probe_that_is_told_not_ready_is_no_failure(path: bytes) -> None:
    lines = EventLines()
    log = RequestLog(lines.log, logs_access=False)
    log.answered(msgspec.structs.replace(request(503), path=path))
    assert lines.take() == []
    log.answered(msgspec.structs.replace(request(500), path=path))
    assert [each["event"] for each in lines.take()] == ["request_failed"]


@pytest.mark.parametrize(
    ("status", "event", "level"),
    [
        (400, "request_refused", "info"),
        (404, "request_refused", "info"),
        (413, "request_refused", "info"),
        (500, "request_failed", "warning"),
        (503, "request_failed", "warning"),
        (507, "request_failed", "warning"),
    ],
)
def test_a_refusal_is_told_with_its_caller_and_its_reason(
    status: int, event: str, level: str
) -> None:
    lines = EventLines()
    RequestLog(lines.log, logs_access=False).answered(request(status, "code"))
    assert lines.take() == [
        {
            "level": level,
            "event": event,
            "client": "10.0.0.7",
            "method": "GET",
            "path": "/topics/\xff",
            "status": status,
            "code": "code",
            "reason": "because",
            "request_id": "id-1",
        }
    ]


def test_the_access_log_has_every_request_without_a_limit() -> None:
    lines = EventLines()
    log = RequestLog(lines.log, logs_access=True)
    for _ in range(1000):
        log.answered(request(200))
    told = lines.take()
    assert len(told) == 1000
    assert told[0] == {
        "level": "info",
        "event": "access",
        "client": "10.0.0.7",
        "method": "GET",
        "path": "/topics/\xff",
        "status": 200,
        "bytes": 12,
        "duration_ms": 1.235,
        "request_id": "id-1",
    }


def test_a_client_that_left_is_in_the_access_log_and_is_no_refusal() -> None:
    lines = EventLines()
    RequestLog(lines.log, logs_access=True).answered(request(499))
    assert [(line["event"], line["status"]) for line in lines.take()] == [("access", 499)]
