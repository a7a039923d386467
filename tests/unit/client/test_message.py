"""What a reader gets: from stored records, and from JSON."""

import datetime as dt

import msgspec
import pytest

from goqueue import records
from goqueue.client.errors import GoQueueError
from goqueue.client.fetcher import decode_chunk
from goqueue.client.message import Message
from goqueue.client.pages import decode_page
from goqueue.client.stored_records import read_ranges
from goqueue.model import LogId
from goqueue.model import Message as Draft

LOG = LogId("orders", 1)


def stored(*drafts: Draft, first: int = 0) -> bytes:
    batch = records.build(drafts)
    records.stamp(batch, first, 1_700_000_000_123_456_789)
    return bytes(batch)


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


def test_records_become_messages() -> None:
    data = stored(Draft(value=b'{"id":1}', key=b"k", priority=0, headers=(("a", b"1"),)), first=5)
    (message,) = decode_chunk(LOG, data, 5)
    assert (message.topic, message.partition, message.offset) == ("orders", 1, 5)
    assert (message.key, message.value, message.priority) == (b"k", b'{"id":1}', 0)
    assert message.headers == {"a": b"1"}
    assert message.text == '{"id":1}'
    assert message.json() == {"id": 1}
    assert message.json(dict[str, int]) == {"id": 1}
    assert message.timestamp == 1_700_000_000_123_456_789
    assert message.time == dt.datetime(2023, 11, 14, 22, 13, 20, 123456, dt.UTC)


def test_records_below_the_wanted_offset_are_dropped() -> None:
    data = stored(*(Draft(value=b"x") for _ in range(5)), first=10)
    assert offsets(decode_chunk(LOG, data, 12)) == [12, 13, 14]


def test_control_and_delayed_records_are_never_shown() -> None:
    data = stored(
        Draft(value=b"a"),
        Draft(value=b"", key=b"gq.epoch", is_control=True),
        Draft(value=b"late", headers=(("gq.deliver-at", b"1"),), is_delayed=True),
        Draft(value=b"b"),
    )
    assert offsets(decode_chunk(LOG, data, 0)) == [0, 3]


def test_aborted_ranges_are_dropped() -> None:
    data = stored(*(Draft(value=b"x") for _ in range(6)))
    ranges = read_ranges(b"1-2,4-4")
    assert offsets(decode_chunk(LOG, data, 0, ranges)) == [0, 3, 5]


def test_ranges_may_lie_outside_of_what_was_read() -> None:
    data = stored(*(Draft(value=b"x") for _ in range(6)), first=100)
    ranges = ((5, 9), (90, 100), (103, 104), (105, 200))
    assert offsets(decode_chunk(LOG, data, 0, ranges)) == [101, 102]
    assert offsets(decode_chunk(LOG, data, 102, ranges)) == [102]


def test_the_note_of_a_batch_is_not_shown() -> None:
    note = ("gq.batch", b"7,0,0,3,1")
    data = stored(
        Draft(value=b"a", headers=(note,)),
        Draft(value=b"b", headers=(note, ("a", b"1"), ("b", b"2"))),
        Draft(value=b"c", headers=(("a", b"1"),)),
    )
    shown = decode_chunk(LOG, data, 0)
    assert [message.headers for message in shown] == [{}, {"a": b"1", "b": b"2"}, {"a": b"1"}]
    assert shown[0].header_block == b""


def test_the_note_of_a_batch_is_not_shown_beside_what_is_unusual() -> None:
    note = ("gq.batch", b"7,0,0,3,1")
    packed = records.compress(
        Draft(value=b"x" * 500, headers=(note, ("a", b"1"))), records.Codec.ZSTD
    )
    data = stored(
        packed,
        Draft(value=None, key=b"k", headers=(note,)),
        Draft(value=b"plain", headers=(note,)),
        Draft(value=b"", key=b"gq.txn", is_control=True),
    )
    shown = decode_chunk(LOG, data, 0)
    assert [message.value for message in shown] == [b"x" * 500, None, b"plain"]
    assert [message.headers for message in shown] == [{"a": b"1"}, {}, {}]


@pytest.mark.parametrize("text", [b"1", b"a-b", b"1-2-3"])
def test_ranges_that_are_none_are_refused(text: bytes) -> None:
    with pytest.raises(GoQueueError) as refused:
        read_ranges(text)
    assert refused.value.code == "response_invalid"


def test_tombstones_have_no_value() -> None:
    (message,) = decode_chunk(LOG, stored(Draft(value=None, key=b"k")), 0)
    assert message.value is None
    assert message.text == ""
    assert message.json() is None


@pytest.mark.parametrize("codec", list(records.Codec))
def test_compressed_values_are_unpacked(codec: records.Codec) -> None:
    packed = records.compress(Draft(value=b"x" * 500, headers=(("a", b"1"),)), codec)
    (message,) = decode_chunk(LOG, stored(packed), 0)
    assert message.value == b"x" * 500
    assert message.headers == {"a": b"1"}


def test_damaged_records_are_refused() -> None:
    data = bytearray(stored(Draft(value=b"x" * 10)))
    data[-1] ^= 1
    with pytest.raises(GoQueueError) as refused:
        decode_chunk(LOG, bytes(data), 0)
    assert refused.value.code == "records_damaged"


def test_an_empty_chunk_holds_nothing() -> None:
    assert decode_chunk(LOG, b"", 0) == []


def test_a_message_of_a_stream_has_no_lease() -> None:
    (message,) = decode_chunk(LOG, stored(Draft(value=b"x")), 0)
    with pytest.raises(GoQueueError) as refused:
        message.ack()
    assert refused.value.code == "receipt_invalid"


# ---- polls ---------------------------------------------------------------------------------

POLLED: dict[str, object] = {
    "topic": "orders",
    "partition": 1,
    "offset": 7,
    "timestamp": "2023-11-14T22:13:20.5Z",
    "value": "é",
    "priority": "high",
    "receipt_handle": "orders:1:7:2:abc",
    "delivery_count": 2,
    "deadline": "2023-11-14T22:13:50Z",
    "a field of tomorrow": [1],
}


def polled(**fields: object) -> Message:
    body = msgspec.json.encode({"messages": [{**POLLED, **fields}]})
    (found,) = decode_page(body).messages
    assert (found.receipt_handle, found.delivery_count) == ("orders:1:7:2:abc", 2)
    return found.message


def test_a_message_is_read_from_json() -> None:
    message = polled()
    assert (message.topic, message.partition, message.offset) == ("orders", 1, 7)
    assert (message.key, message.value, message.lane.name) == (b"", b"\xc3\xa9", "HIGH")


def test_bytes_of_a_poll_may_come_in_base64() -> None:
    message = polled(encoding="base64", key="/w==", value="AP8=")
    assert (message.key, message.value) == (b"\xff", b"\x00\xff")


def test_headers_of_a_poll_may_come_in_base64_one_by_one() -> None:
    message = polled(headers={"a": "x", "b": "/w=="}, base64_headers=["b"])
    assert message.headers == {"a": b"x", "b": b"\xff"}


def test_a_polled_tombstone_has_no_value() -> None:
    assert polled(value=None).value is None


@pytest.mark.parametrize(
    "wrong",
    [{"encoding": "base64", "value": "?"}, {"priority": "urgent"}, {"timestamp": "soon"}],
)
def test_an_answer_that_breaks_the_contract_is_told_so(wrong: dict[str, object]) -> None:
    with pytest.raises(GoQueueError) as refused:
        polled(**wrong)
    assert refused.value.code == "response_invalid"
