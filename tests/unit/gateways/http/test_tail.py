"""What a tail says of messages that it cannot show, and when it says that it lives."""

import asyncio
import itertools

import msgspec
import pytest

from goqueue.gateways import AnsweredRequest, NodeFacts
from goqueue.gateways.http import ApiLimits, HttpApi
from goqueue.gateways.http.server.application import HttpRequest, HttpResponse
from goqueue.model import SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    PartitionDescription,
    PartitionList,
    Read,
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


def _send(api: HttpApi, query: str = "", last_id: str = "", method: str = "GET") -> HttpResponse:
    path = b"/topics/orders/tail"
    found = api.resolve(method, path)
    headers = {**LOCAL, b"last-event-id": last_id.encode()}
    request = HttpRequest(method, path, query.encode(), headers, bytearray(), "127.0.0.1", found)
    return asyncio.run(api.answer(request))


def _tail(
    *replies: Reply | Refused, query: str = "", last_id: str = ""
) -> tuple[str, AnsweringBroker]:
    """What a tail sends until a broker refuses."""
    broker = AnsweringBroker(*replies, _GONE)
    api = HttpApi(broker, NodeFacts(version="1.2.3", started_at=NOW))
    response = _send(api, query, last_id)
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


@pytest.mark.parametrize("last_id", ["10", "9223372036854775807", "4,4"])
def test_an_id_beyond_the_end_begins_anew_and_says_so(last_id: str) -> None:
    text, broker = _tail(_partitions(9), _records(0), query="from=latest", last_id=last_id)

    (reset,) = _events(text.replace("id: 0\n", ""), "reset")
    assert reset["to_offset"] == 0
    assert reset["code"] == "offset_out_of_range"
    # A browser that reconnects continues from here.
    assert "id: 0\nevent: reset\n" in text
    read = broker.asked[1]
    assert isinstance(read, Read)
    assert read.offset == 0


def test_an_id_at_the_end_is_no_reset() -> None:
    text, _ = _tail(_partitions(9), _records(9), last_id="9")
    assert "reset" not in text


def test_an_offset_beyond_the_end_is_refused() -> None:
    broker = AnsweringBroker(_partitions(9))
    api = HttpApi(broker, NodeFacts(version="1.2.3", started_at=NOW))
    response = _send(api, "partition=0&offset=10")

    assert response.status == 400
    assert isinstance(response.body, bytes)
    body = msgspec.json.decode(response.body)
    assert body["code"] == "offset_out_of_range"
    assert (body["details"]["earliest"], body["details"]["end"]) == (0, 9)


def test_an_offset_of_the_query_does_not_count_beside_an_id() -> None:
    text, _ = _tail(_partitions(9), _records(3), query="partition=0&offset=99", last_id="3")
    assert _events(text, "end")


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


class Observer:
    """Keeps what it hears of requests, in order."""

    logs_access = True

    def __init__(self) -> None:
        self.heard: list[tuple[str, AnsweredRequest]] = []

    def answered(self, answered: AnsweredRequest) -> None:
        self.heard.append(("answered", answered))

    def opened(self, opened: AnsweredRequest) -> None:
        self.heard.append(("opened", opened))


def test_the_access_log_has_a_tail_when_it_ends_with_its_bytes_and_its_time() -> None:
    observer = Observer()
    broker = AnsweringBroker(_partitions(0), _GONE)
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    response = _send(HttpApi(broker, facts, requests=observer))
    assert observer.heard == []
    sink = Sink()
    assert response.stream is not None
    asyncio.run(response.stream.run(sink))

    (first, opened), (second, ended) = observer.heard
    assert (first, second) == ("opened", "answered")
    assert (opened.path, opened.size, opened.duration_ns) == (b"/topics/orders/tail", 0, 0)
    assert ended.size == len(sink.sent) > 0
    assert ended.duration_ns > 0
    assert ended.request_id == opened.request_id


def test_a_tail_whose_client_has_gone_is_in_the_access_log() -> None:
    observer = Observer()
    broker = AnsweringBroker(_partitions(0), _GONE)
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    response = _send(HttpApi(broker, facts, requests=observer))
    assert response.stream is not None
    running = response.stream.run(_Blocked())
    running.send(None)
    with pytest.raises(asyncio.CancelledError):
        running.throw(asyncio.CancelledError())

    assert [what for what, _ in observer.heard] == ["opened", "answered"]


class _Blocked:
    """A client that does not read."""

    async def send(self, data: bytes | bytearray) -> None:  # noqa: ARG002 - never sent
        await asyncio.sleep(0)


def test_a_head_of_a_tail_is_in_the_access_log_at_once() -> None:
    observer = Observer()
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    _send(HttpApi(AnsweringBroker(_partitions(0)), facts, requests=observer), method="HEAD")
    [(what, head)] = observer.heard
    assert (what, head.method, head.size) == ("answered", "HEAD", 0)


def test_no_more_streams_are_begun_than_there_may_be() -> None:
    broker = AnsweringBroker(_partitions(0))
    facts = NodeFacts(version="1.2.3", started_at=NOW)
    api = HttpApi(broker, facts, limits=ApiLimits(streams_max=0))

    response = _send(api)
    assert (response.status, response.stream) == (503, None)
