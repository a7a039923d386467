"""Requests that wait for a reply: what is asked of the broker, and what a slow disk makes of it."""

import asyncio

import msgspec
import pytest

from goqueue.gateways import NodeFacts
from goqueue.gateways.http import ApiLimits, HttpApi
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.model import Caller, Code, Offset, Refused, Timestamp
from goqueue.model.requests import (
    AwaitReply,
    Command,
    Placed,
    Publish,
    Published,
    Reply,
    ReplyReceived,
)
from goqueue.records import visible
from tests.unit.gateways.http.refusing_broker import LOCAL, NOW, code_of, read


class Broker:
    """Answers by the type of the command; what has no answer waits for ever."""

    def __init__(self, **answers: Reply | Refused) -> None:
        self.asked: list[Command] = []
        self._answers = answers

    async def ask(self, command: Command, _: Caller) -> Reply:
        self.asked.append(command)
        answer = self._answers.get(type(command).__name__)
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Refused):
            raise answer
        assert answer is not None
        return answer


_PLACED = Published(
    placed=(Placed(partition=2, first=Offset(5), count=1, size=10),),
    targets=[2],
    timestamp=Timestamp(NOW),
)
_REPLY = ReplyReceived(value=b"\xff", headers=(("h", b"1"),))


def _send(broker: Broker, body: object, limits: ApiLimits | None = None) -> HttpResponse:
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    api = HttpApi(broker, facts, clock=lambda: NOW, limits=limits)
    path, content = b"/topics/prices/request", bytearray(msgspec.json.encode(body))
    found = api.resolve("POST", path)
    request = HttpRequest("POST", path, b"", LOCAL, content, "127.0.0.1", found)
    return asyncio.run(api.answer(request))


def test_a_request_waits_before_it_publishes_under_an_id_of_its_own() -> None:
    broker = Broker(AwaitReply=_REPLY, Publish=_PLACED)
    first = _send(broker, {"value": "apples", "timeout": "2s"})
    _send(broker, {"value": "apples"})

    assert read(first) == {
        "value": "/w==",
        "encoding": "base64",
        "headers": {"h": "1"},
        "partition": 2,
        "offset": 5,
    }
    waits = [each for each in broker.asked if isinstance(each, AwaitReply)]
    assert [each.wait_ns for each in waits] == [2_000_000_000, 30_000_000_000]
    assert isinstance(broker.asked[0], AwaitReply)
    ids = []
    for each in broker.asked:
        if isinstance(each, Publish):
            (record,) = visible(memoryview(each.batch), 0, 1)
            ids.append(dict(record.headers)["goqueue.reply_to"].decode())
    assert ids == [each.reply_to for each in waits]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"Publish": Refused(Code.TOPIC_NOT_FOUND)}, "topic_not_found"),
        ({"Publish": _PLACED, "AwaitReply": Refused(Code.NO_REPLY)}, "no_reply"),
        ({"AwaitReply": Refused(Code.NO_REPLY)}, "request_timeout"),
    ],
)
def test_what_goes_wrong_is_told_by_its_own_code(
    answers: dict[str, Reply | Refused], code: str
) -> None:
    assert code_of(_send(Broker(**answers), {"value": "x"})) == code


def test_a_request_too_many_publishes_nothing() -> None:
    broker = Broker()
    response = _send(broker, {"value": "x"}, ApiLimits(requests_max=0))
    assert (response.status, broker.asked) == (503, [])


def test_a_request_that_is_refused_is_counted() -> None:
    broker = Broker(Publish=Published(placed=(), targets=[], timestamp=Timestamp(NOW)))
    response = _send(broker, {"value": "v", "headers": {"gq.x": "1"}})

    assert (response.status, code_of(response)) == (400, "message_invalid")
    assert broker.asked == [
        Publish(topic="prices", batch=bytearray(), refused={Code.MESSAGE_INVALID: 1})
    ]
