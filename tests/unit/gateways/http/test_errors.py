"""What failures look like: total, stable, helpful, and without anything from inside."""

import asyncio
import logging

import pytest

from goqueue.gateways import AnsweredRequest
from goqueue.gateways.http import ERRORS, ApiLimits
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.gateways.http.server.request_runner import Outcome, RequestRunner
from goqueue.model import Caller, Code, Refused
from goqueue.model.requests import Command, Published, Reply
from tests.unit.gateways.http.refusing_broker import (
    LOCAL,
    NOW,
    BrokenBroker,
    Client,
    RefusingBroker,
    SilentBroker,
    code_of,
    header,
    read,
)


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_status_and_a_sentence(code: Code) -> None:
    verdict = ERRORS[code]
    assert 400 <= verdict.status <= 599
    assert verdict.what[0].isupper()
    assert not verdict.what.endswith(".")
    assert not verdict.advice.endswith(".")


@pytest.mark.parametrize("code", list(Code))
def test_a_refusal_of_the_broker_becomes_its_status_and_code(code: Code) -> None:
    response = Client(RefusingBroker(code)).get("/topics")
    body = read(response)
    assert response.status == ERRORS[code].status == body["status"]
    assert body["code"] == code.value
    assert set(body) == {"error", "code", "status"}


def test_facts_that_the_contract_names_become_details_and_others_do_not() -> None:
    broker = RefusingBroker(Code.OFFSET_OUT_OF_RANGE, earliest=3, end=9, topic="x")
    body = read(Client(broker).get("/topics"))
    assert body["details"] == {"earliest": 3, "end": 9}


def test_an_unavailable_broker_says_when_to_come_back() -> None:
    response = Client(RefusingBroker(Code.BROKER_UNAVAILABLE)).get("/topics")
    assert response.status == 503
    assert header(response, b"Retry-After") == b"1"
    assert header(Client(RefusingBroker(Code.TOPIC_EXISTS)).get("/topics"), b"Retry-After") is None


def test_a_fault_of_ours_is_logged_under_the_request_and_shows_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        response = Client(BrokenBroker()).send("GET", "/topics", headers={b"x-request-id": b"r-7"})
    assert response.status == 500
    assert code_of(response) == "internal_error"
    assert isinstance(response.body, bytes)
    assert b"secret" not in response.body
    assert header(response, b"X-Request-ID") == b"r-7"
    assert "r-7" in caplog.text


def test_a_broker_that_does_not_answer_in_time_is_a_timeout() -> None:
    api = Client(SilentBroker(), limits=ApiLimits(handling_seconds=7)).api
    target = api.resolve("GET", b"/topics")
    request = HttpRequest("GET", b"/topics", b"", LOCAL, bytearray(), "127.0.0.1", target)

    async def main() -> Outcome | None:
        runner = RequestRunner(asyncio.get_running_loop(), api.answer(request), lambda _: None)
        assert runner.start() is None
        return runner.interrupt(TimeoutError())

    response = asyncio.run(main())
    assert isinstance(response, HttpResponse)
    assert response.status == 504
    assert code_of(response) == "request_timeout"
    assert target.handling_s == 7


def test_only_requests_that_wait_for_something_have_no_time_limit() -> None:
    api = Client(limits=ApiLimits(handling_seconds=7)).api
    assert api.resolve("POST", b"/groups/g/poll").handling_s == float("inf")
    assert api.resolve("POST", b"/topics/t/messages").handling_s == 7
    assert api.resolve("POST", b"/nowhere").handling_s == 7


def test_what_the_transport_refuses_has_the_same_shape() -> None:
    api = Client().api
    response = api.refusal(413, Code.BODY_TOO_LARGE, "Too large.", {"limit": 7}, {}, client="")
    assert read(response) == {
        "error": "Too large.",
        "code": "body_too_large",
        "status": 413,
        "details": {"limit": 7},
    }
    assert header(response, b"X-Request-ID")
    busy = api.refusal(503, Code.BROKER_UNAVAILABLE, "No.", {}, {}, client="")
    assert header(busy, b"Retry-After") == b"1"


def test_a_refusal_tells_the_field_and_the_limits() -> None:
    broker = RefusingBroker(Code.REQUEST_INVALID, field="segment_bytes", minimum=1, maximum=2)
    body = read(Client(broker).get("/topics"))
    assert "`segment_bytes` must be from 1 to 2" in str(body["error"])
    assert body["details"] == {"field": "segment_bytes", "minimum": 1, "maximum": 2}


def test_the_table_has_no_code_twice() -> None:
    assert sorted(ERRORS) == sorted(Code)
    assert str(Refused(Code.TOPIC_EXISTS)) == "topic_exists"


def test_a_body_that_is_no_json_is_told_in_words_that_are_spelled_right() -> None:
    error = str(read(Client().send("POST", "/topics", b"name=orders"))["error"])
    assert "the body is not JSON: JSON is malformed" in error
    assert "jSON" not in error


class Observer:
    """Keeps what it hears of requests."""

    def __init__(self, *, logs_access: bool) -> None:
        self.logs_access = logs_access
        self.heard: list[AnsweredRequest] = []

    def answered(self, answered: AnsweredRequest) -> None:
        self.heard.append(answered)

    def opened(self, opened: AnsweredRequest) -> None:
        raise AssertionError(f"{opened} is no stream")


def test_a_method_that_a_path_does_not_have_is_reported_with_its_code() -> None:
    observer = Observer(logs_access=False)
    answer = Client(requests=observer).send("PATCH", "/topics", b"")
    assert answer.status == 405
    [refused] = observer.heard
    assert (refused.status, refused.code) == (405, "method_not_allowed")
    assert refused.reason == read(answer)["error"]


class AnswersOnce(RefusingBroker):
    """Answers with one reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self._reply = reply

    async def ask(self, command: Command, _: Caller) -> Reply:
        self.asked.append(command)
        return self._reply


def test_a_publish_of_which_nothing_was_stored_is_reported_with_its_code() -> None:
    observer = Observer(logs_access=False)
    body = b'{"messages": [{"value": 5}]}'
    nothing = Published(targets=[], placed=(), timestamp=NOW)
    client = Client(AnswersOnce(nothing), requests=observer)
    answer = client.send("POST", "/topics/orders/messages", body)
    [refused] = observer.heard
    assert (refused.status, refused.code) == (answer.status, "message_invalid")
    assert refused.reason == read(answer)["error"]


def test_only_requests_that_fail_are_reported_unless_all_are_wanted() -> None:
    failures, everything = Observer(logs_access=False), Observer(logs_access=True)
    for observer in (failures, everything):
        Client(requests=observer).get("/docs")
        Client(requests=observer).get("/nowhere?secret=1")
    [failed] = failures.heard
    assert (failed.method, failed.path, failed.status) == ("GET", b"/nowhere", 404)
    assert (failed.code, failed.client) == ("route_not_found", "127.0.0.1")
    assert "GET /docs" in failed.reason
    assert failed.duration_ns == 0
    fine, failed = everything.heard
    assert (fine.path, fine.status, fine.code) == (b"/docs", 200, "")
    assert fine.size > 0
    assert fine.duration_ns > 0
    assert failed.duration_ns > 0


def test_what_the_transport_refuses_is_reported_with_its_client() -> None:
    observer = Observer(logs_access=False)
    api = Client(requests=observer).api
    api.refusal(431, Code.REQUEST_INVALID, "The head is too large.", {}, {}, client="10.0.0.9")
    [refused] = observer.heard
    assert (refused.client, refused.status, refused.path) == ("10.0.0.9", 431, b"")
    assert refused.reason == "The head is too large."
