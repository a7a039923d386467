"""What was aborted is left out of what a reader of committed messages is shown."""

import msgspec
import pytest

from goqueue.gateways import AbortedRanges
from goqueue.gateways.http import ROUTES
from goqueue.gateways.http.json_chunks import finished
from goqueue.gateways.http.message_encoder import ReadAnswer, encode_poll
from goqueue.gateways.http.messages import Delivery, ReadOut
from goqueue.gateways.http.read import portion_of
from goqueue.model import LogId, Message, Offset, Timestamp
from goqueue.model.requests import (
    Isolation,
    Leased,
    LeasedRun,
    PartitionLeases,
    Poll,
    Read,
    Records,
)
from goqueue.records import Codec, build, compress, stamp, walk
from tests.unit.gateways.http.answering_broker import AnsweringBroker, send
from tests.unit.gateways.http.refusing_broker import NOW, header, read

MARKER = Message(value=b"", key=b"gq.txn", is_control=True)
MANY = 1 << 30
Ranges = tuple[tuple[int, int], ...]


def stored(*messages: Message, first: int = 0) -> memoryview:
    batch = build(messages)
    stamp(batch, first, NOW)
    return memoryview(batch).toreadonly()


def numbered(count: int) -> list[Message]:
    return [Message(value=b"%d" % number) for number in range(count)]


def records(*data: memoryview, aborted: Ranges = (), offset: int = 0, stable: int = 99) -> Records:
    return Records(
        log=LogId("t", 0),
        offset=Offset(offset),
        high_watermark=Offset(max(99, stable)),
        stable=Offset(stable),
        start=Offset(0),
        upto=Offset(99),
        aborted=aborted,
        data=data,
    )


def shown_of(read: Records, count_max: int, bytes_max: int = MANY) -> ReadOut:
    written = ReadAnswer(count_max, bytes_max)
    body = written.response(finished(written.add(read))).body
    assert isinstance(body, bytearray)
    return msgspec.json.decode(body, type=ReadOut)


def values(shown: ReadOut) -> list[int]:
    return [int(message.value or "") for message in shown.messages]


# As JSON


@pytest.mark.parametrize("codec", [None, Codec.ZSTD])
@pytest.mark.parametrize(
    ("aborted", "limit", "left", "following"),
    [
        (((0, 1),), 100, [*range(1, 10)], 10),
        (((9, 10),), 100, [*range(9)], 10),
        (((2, 4), (6, 9)), 100, [0, 1, 4, 5, 9], 10),
        (((2, 4), (4, 9)), 3, [0, 1, 9], 10),
        (((2, 4), (6, 9)), 2, [0, 1], 2),
        (((2, 4), (6, 9)), 3, [0, 1, 4], 5),
        (((0, 10),), 1, [], 10),
        (((0, 9),), 1, [9], 10),
        (((20, 30),), 100, [*range(10)], 10),
    ],
)
def test_aborted_messages_neither_show_nor_count(
    codec: Codec | None, aborted: Ranges, limit: int, left: list[int], following: int
) -> None:
    messages = [compress(each, codec) if codec else each for each in numbered(10)]
    shown = shown_of(records(stored(*messages), aborted=aborted), limit)
    assert values(shown) == left
    assert shown.next_offset == following


def test_a_message_behind_many_small_aborted_ones_is_found() -> None:
    count = 3000
    messages = [each for number in numbered(count) for each in (number, MARKER)]
    aborted = tuple((2 * number, 2 * number + 1) for number in range(count - 1))
    shown = shown_of(records(stored(*messages), aborted=aborted), 1)
    assert (values(shown), shown.next_offset) == ([count - 1], 2 * count - 1)


def test_ranges_hold_over_several_pieces() -> None:
    pieces = (stored(*numbered(3)), stored(*numbered(3), first=50))
    shown = shown_of(records(*pieces, aborted=((1, 52),)), 100)
    assert [message.offset for message in shown.messages] == [0, 52]
    assert shown.next_offset == 53


def test_a_large_answer_ends_after_a_message_that_was_shown() -> None:
    messages = [Message(value=b"%1000d" % number) for number in range(6)]
    shown = shown_of(records(stored(*messages), aborted=((0, 2), (3, 4))), 100, 1500)
    assert (values(shown), shown.next_offset) == ([2, 4], 5)


def test_ranges_in_any_order_that_overlap_are_one() -> None:
    ranges = AbortedRanges([(7, 9), (1, 3), (2, 5), (5, 6)])
    assert [offset for offset in range(12) if offset in ranges] == [1, 2, 3, 4, 5, 7, 8]
    assert len(ranges) == 2
    assert ranges.within(0, 99) == [(1, 6), (7, 9)]
    assert ranges.within(5, 7) == [(1, 6)]
    assert ranges.within(6, 8) == [(7, 9)]


def test_the_note_about_the_writer_is_not_shown() -> None:
    note = ("gq.batch", b"7,0,0,2,1")
    data = stored(
        Message(value=b"0", headers=(note,)),
        Message(value=b"1", headers=(note, ("a", b"\xff"))),
        Message(value=b"2", headers=(("gq.delayed-from", b"1"),)),
    )
    first, second, third = shown_of(records(data), 10).messages
    assert first.headers is None
    assert (second.headers, second.base64_headers) == ({"a": "/w=="}, ["a"])
    assert third.headers == {"gq.delayed-from": "1"}
    share = PartitionLeases(
        log=LogId("t", 0),
        leases=(LeasedRun("t:0:1:r", 1, [0, 1]),),
        deadline=Timestamp(NOW),
        data=(data,),
    )
    body = finished(encode_poll(Leased(partitions=(share,)))).body
    assert isinstance(body, bytearray)
    leased = msgspec.json.decode(body, type=Delivery).messages
    assert [each.headers for each in leased] == [None, {"a": "/w=="}]


# By the route


def get(broker: AnsweringBroker, target: str) -> dict[str, object]:
    return read(send(broker, "GET", target))


def test_a_reader_that_waits_goes_on_past_what_was_aborted() -> None:
    hidden = records(stored(*numbered(5)), aborted=((0, 5),), stable=5)
    found = records(stored(Message(value=b"5"), first=5), offset=5, stable=6)
    broker = AnsweringBroker(hidden, found)
    answer = get(broker, "/topics/t/partitions/0/messages?wait=30s")
    assert answer["next_offset"] == 6
    first, second = broker.asked
    assert isinstance(first, Read)
    assert isinstance(second, Read)
    assert second.offset == 5
    assert 0 < second.wait_ns <= first.wait_ns


def test_a_reader_that_does_not_wait_is_told_how_far_everything_is_hidden() -> None:
    broker = AnsweringBroker(records(stored(*numbered(5)), aborted=((0, 5),), stable=5))
    answer = get(broker, "/topics/t/partitions/0/messages")
    assert answer == {"messages": [], "next_offset": 5}


def test_a_reader_of_committed_messages_is_done_at_the_last_stable_offset() -> None:
    broker = AnsweringBroker(records(stored(*numbered(5)), stable=5))
    answer = get(broker, "/topics/t/partitions/0/messages?wait=30s")
    assert answer["next_offset"] == 5
    assert len(broker.asked) == 1


def test_a_reader_of_everything_reads_on_to_the_high_watermark() -> None:
    first = records(stored(*numbered(5)), stable=5)
    second = records(stored(*numbered(94), first=5), offset=5, stable=5)
    broker = AnsweringBroker(first, second)
    isolation = Isolation.READ_UNCOMMITTED
    answer = get(broker, f"/topics/t/partitions/0/messages?isolation={isolation}")
    assert answer["next_offset"] == 99
    assert len(broker.asked) == 2


# In stored bytes


def test_ranges_go_along_with_stored_records() -> None:
    data = stored(*numbered(10))
    answered = records(data, aborted=((0, 1), (3, 6), (6, 7), (90, 95)), stable=40)
    broker = AnsweringBroker(answered)
    response = send(broker, "GET", "/topics/t/partitions/0/records")
    assert header(response, b"GoQueue-Aborted") == b"0-0,3-6"
    assert header(response, b"GoQueue-Next-Offset") == b"10"
    assert header(response, b"GoQueue-Last-Stable-Offset") == b"40"
    assert header(response, b"GoQueue-High-Watermark") == b"99"
    assert response.body == (data,)


def test_without_ranges_the_header_is_empty() -> None:
    response = send(
        AnsweringBroker(records(stored(*numbered(1)))), "GET", "/topics/t/partitions/0/records"
    )
    assert header(response, b"GoQueue-Aborted") == b""


def test_more_ranges_than_fit_in_a_header_end_the_answer_before_them() -> None:
    data = stored(*numbered(400)), stored(*numbered(400), first=400)
    aborted = tuple((2 * number, 2 * number + 1) for number in range(400))
    first = portion_of(records(*data, aborted=aborted))
    assert (len(first.aborted), first.next_offset) == (250, 500)
    offsets = [offset for piece in first.pieces for offset in walk(piece).offsets]
    assert offsets == list(range(500))
    second = portion_of(records(*data, aborted=aborted, offset=500))
    assert second.aborted == list(aborted[250:])
    assert second.next_offset == 800


def test_nothing_to_read_goes_on_where_the_broker_says() -> None:
    portion = portion_of(records(aborted=((5, 6),)))
    assert (portion.pieces, portion.next_offset, portion.aborted) == ((), 99, [])


def test_a_poll_takes_an_isolation_and_says_that_it_makes_no_difference() -> None:
    broker = AnsweringBroker(Leased())
    target = "/groups/g/poll?member_id=m&timeout=0&isolation=read_uncommitted"
    assert get(broker, target) == {"messages": []}
    assert broker.asked == [Poll(group="g", member_id="m", wait_ns=0)]
    polls = [route for route in ROUTES if route.path == "/groups/{group}/poll"]
    [poll] = [route for route in polls if route.method == "GET"]
    [told] = [each.summary for each in poll.parameters if each.name == "isolation"]
    assert "only committed messages" in told
