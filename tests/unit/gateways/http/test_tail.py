"""What a tail says of messages that it cannot show, and when it says that it lives."""

import asyncio
import itertools

import msgspec

from goqueue.gateways import NodeFacts
from goqueue.gateways.http import ApiLimits, HttpApi
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.model import SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    PartitionDescription,
    PartitionList,
    Records,
    Reply,
    Watch,
    Watched,
)
from tests.unit.gateways.http.answering_broker import AnsweringBroker
from tests.unit.gateways.http.refusing_broker import LOCAL, NOW

_GONE = Refused(Code.TOPIC_NOT_FOUND, topic="orders")


class Sink:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""

    async def send(self, data: bytes | bytearray) -> None:
        self.sent += data


def _partitions(end: int) -> PartitionList:
    described = PartitionDescription(
        partition=0,
        leader="",
        replicas=(),
        isr=(),
        version=0,
        earliest_offset=Offset(0),
        end_offset=Offset(end),
        high_watermark=Offset(end),
        size_bytes=0,
    )
    return PartitionList(topic="orders", partitions=(described,))


def _records(offset: int, upto: int | None = None) -> Records:
    """A read of a partition that has no message from an offset on."""
    end = Offset(offset if upto is None else upto)
    return Records(
        log=LogId("orders", 0),
        offset=Offset(offset),
        high_watermark=end,
        stable=end,
        start=Offset(offset),
        upto=end,
    )


def _send(api: HttpApi, query: str = "") -> HttpResponse:
    path = b"/topics/orders/tail"
    found = api.resolve("GET", path)
    request = HttpRequest("GET", path, query.encode(), LOCAL, bytearray(), "127.0.0.1", found)
    return asyncio.run(api.answer(request))


def _tail(*replies: Reply | Refused, query: str = "") -> tuple[str, AnsweringBroker]:
    """What a tail sends until a broker refuses."""
    broker = AnsweringBroker(*replies, _GONE)
    response = _send(HttpApi(broker, NodeFacts(version="1.2.3", started_at=NOW)), query)
    sink = Sink()
    assert response.stream is not None
    asyncio.run(response.stream.run(sink))
    return sink.sent.decode(), broker


def _events(text: str, kind: str) -> list[dict[str, object]]:
    events = [each for each in text.split("\n\n") if each.startswith(f"event: {kind}\n")]
    return [msgspec.json.decode(each.partition("data: ")[2]) for each in events]


def test_offsets_that_retention_removed_are_told_as_a_gap() -> None:
    text, _ = _tail(_partitions(9), _records(5), query="partition=0&offset=2")

    assert _events(text, "gap") == [
        {"partition": 0, "from_offset": 2, "to_offset": 5, "code": "offset_out_of_range"}
    ]
    assert [each["code"] for each in _events(text, "end")] == ["topic_not_found"]


def test_damaged_offsets_are_told_as_a_gap_and_passed_over() -> None:
    damage = Refused(Code.RECORDS_DAMAGED, offset=2, next_offset=7)
    text, broker = _tail(
        _partitions(9), damage, Watched((0,)), _records(7), query="partition=0&offset=2"
    )

    assert [each["to_offset"] for each in _events(text, "gap")] == [7]
    watch = broker.asked[2]
    assert isinstance(watch, Watch)
    assert watch.offsets == {0: 7}


def test_a_tail_that_shows_nothing_for_long_sends_the_id_to_resume_from() -> None:
    minutes = itertools.count(step=60 * SECOND)
    broker = AnsweringBroker(_partitions(3), _records(0, upto=2), _GONE)
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    api = HttpApi(broker, facts, ticks=lambda: next(minutes))
    response = _send(api, "from=earliest&key=none")
    assert response.stream is not None
    sink = Sink()
    asyncio.run(response.stream.run(sink))

    assert b"\n\n:\nid: 2\n\n" in sink.sent


def test_no_more_streams_are_begun_than_there_may_be() -> None:
    broker = AnsweringBroker(_partitions(0))
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    api = HttpApi(broker, facts, limits=ApiLimits(streams_max=0))

    response = _send(api)
    assert (response.status, response.stream) == (503, None)
