"""Stored records as JSON: what is shown, what is skipped, and where a reader continues."""

import base64

import msgspec
import pytest

from goqueue.gateways.http.json_chunks import finished
from goqueue.gateways.http.message_encoder import ReadAnswer, encode_poll
from goqueue.gateways.http.messages import DeliveredMessage, Delivery, ReadMessage, ReadOut
from goqueue.model import LogId, Message, Offset, Timestamp, format_time
from goqueue.model.requests import Leased, LeasedRun, PartitionLeases, Records
from goqueue.records import Codec, build, compress, stamp
from tests.unit.gateways.http.refusing_broker import NOW

LOG = LogId("orders", 3)
CONTROL = Message(value=b"", key=b"gq.epoch", is_control=True)
DELAYED = Message(value=b"later", headers=(("gq.deliver-at", b"9"),), is_delayed=True)
MANY = 1 << 30


def stored(*messages: Message, first: int = 10) -> memoryview:
    batch = build(messages)
    stamp(batch, first, NOW)
    return memoryview(batch).toreadonly()


def records(*data: memoryview, offset: int = 10, upto: int = 99) -> Records:
    return Records(
        log=LOG,
        offset=Offset(offset),
        high_watermark=Offset(99),
        stable=Offset(99),
        start=Offset(0),
        upto=Offset(upto),
        data=data,
    )


def answer(read: Records, count_max: int = 10, bytes_max: int = MANY) -> bytearray:
    written = ReadAnswer(count_max, bytes_max)
    body = written.response(finished(written.add(read))).body
    assert isinstance(body, bytearray)
    return body


def shown_of(read: Records, count_max: int = 10, bytes_max: int = MANY) -> ReadOut:
    return msgspec.json.decode(answer(read, count_max, bytes_max), type=ReadOut)


def only(message: Message) -> dict[str, object]:
    [shown] = msgspec.json.decode(answer(records(stored(message))))["messages"]
    assert isinstance(shown, dict)
    return shown


def values(messages: list[ReadMessage]) -> list[str | None]:
    return [message.value for message in messages]


def test_a_message_shows_all_its_parts() -> None:
    message = Message(value="é".encode(), key=b"k", headers=(("a", b"b"),), priority=0)
    assert only(message) == {
        "topic": "orders",
        "partition": 3,
        "offset": 10,
        "timestamp": format_time(NOW),
        "key": "k",
        "value": "é",
        "priority": "critical",
        "headers": {"a": "b"},
    }


def test_optional_parts_are_left_out_and_a_null_value_is_told() -> None:
    shown = only(Message(value=None))
    assert shown["value"] is None
    assert set(shown) == {"topic", "partition", "offset", "timestamp", "value", "priority"}


@pytest.mark.parametrize(("key", "value"), [(b"k", b"\xff"), (b"\xff", b"v"), (b"\xff", None)])
def test_bytes_that_are_no_text_come_out_in_base64_together(
    key: bytes, value: bytes | None
) -> None:
    shown = only(Message(value=value, key=key))
    assert shown["encoding"] == "base64"
    assert base64.b64decode(str(shown["key"])) == key
    if value is None:
        assert shown["value"] is None
    else:
        assert base64.b64decode(str(shown["value"])) == value


def test_a_header_that_is_no_text_is_named_and_comes_out_in_base64() -> None:
    shown = only(Message(value=b"v", headers=(("a", b"\xff"), ("b", b"x"))))
    assert shown["headers"] == {"a": "/w==", "b": "x"}
    assert shown["base64_headers"] == ["a"]
    assert "encoding" not in shown


def test_control_and_delayed_records_are_passed_over_and_count_as_read() -> None:
    data = stored(CONTROL, Message(value=b"a"), DELAYED, Message(value=b"b"), CONTROL, DELAYED)
    shown = shown_of(records(data))
    assert values(shown.messages) == ["a", "b"]
    assert shown.next_offset == 16


def test_records_before_the_offset_wanted_are_passed_over() -> None:
    data = stored(Message(value=b"a"), Message(value=b"b"))
    assert values(shown_of(records(data, offset=11)).messages) == ["b"]


def test_only_hidden_records_still_move_the_reader_on() -> None:
    shown = shown_of(records(stored(CONTROL, DELAYED)))
    assert (shown.messages, shown.next_offset) == ([], 12)


def test_without_records_a_reader_goes_on_where_the_broker_says() -> None:
    shown = shown_of(records(upto=42))
    assert (shown.messages, shown.next_offset) == ([], 42)


@pytest.mark.parametrize("codec", [None, Codec.ZSTD])
def test_a_limit_ends_an_answer_after_the_last_message_shown(codec: Codec | None) -> None:
    messages = [Message(value=b"%d" % number) for number in range(4)]
    data = stored(*[compress(each, codec) if codec else each for each in messages])
    shown = shown_of(records(data), 2)
    assert values(shown.messages) == ["0", "1"]
    assert shown.next_offset == 12


def test_a_limit_holds_over_several_pieces() -> None:
    pieces = (stored(Message(value=b"a")), stored(Message(value=b"b"), first=20))
    shown = shown_of(records(*pieces))
    assert (values(shown.messages), shown.next_offset) == (["a", "b"], 21)
    assert shown_of(records(*pieces), 1).next_offset == 11


def test_an_answer_ends_when_it_is_large_but_holds_one_message() -> None:
    data = stored(*[Message(value=b"x" * 1000)] * 5)
    assert len(shown_of(records(data), 10, 1500).messages) == 2
    shown = shown_of(records(data), 10, 1)
    assert (len(shown.messages), shown.next_offset) == (1, 11)


def test_headers_count_towards_the_size_of_an_answer() -> None:
    data = stored(*[Message(value=b"", headers=(("a", b"x" * 1000),))] * 5)
    assert len(shown_of(records(data), 10, 1500).messages) == 2


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compressed_value_comes_out_as_it_was(codec: Codec) -> None:
    shown = only(compress(Message(value=b"hello" * 100, headers=(("a", b"b"),)), codec))
    assert shown["value"] == "hello" * 100
    assert shown["headers"] == {"a": "b"}


def test_a_value_that_cannot_be_unpacked_comes_out_as_stored_and_stops_nobody() -> None:
    spoilt = Message(value=b"\xff no zstd", headers=(("gq.codec", b"zstd"),), is_compressed=True)
    data = stored(Message(value=b"a"), spoilt, Message(value=b"b"))
    before, broken, after = shown_of(records(data)).messages
    assert (before.value, after.value) == ("a", "b")
    assert broken.encoding == "base64"
    assert broken.headers == {"gq.codec": "zstd"}
    assert base64.b64decode(broken.value or "") == b"\xff no zstd"


def test_unpacking_stops_where_the_answer_is_full() -> None:
    bomb = compress(Message(value=bytes(16 * 1024 * 1024)), Codec.ZSTD)
    shown = shown_of(records(stored(*[bomb] * 50)), 1000, 4 * 1024 * 1024)
    assert (len(shown.messages), shown.next_offset) == (1, 11)


# ---- poll ----------------------------------------------------------------------------------


def share(data: memoryview, offsets: list[int]) -> PartitionLeases:
    return PartitionLeases(
        log=LOG,
        leases=tuple(LeasedRun("t:0:1:receipt", offset - 9, [offset]) for offset in offsets),
        deadline=Timestamp(NOW + 10**9),
        data=(data,),
    )


def delivered(*partitions: PartitionLeases) -> list[DeliveredMessage]:
    body = finished(encode_poll(Leased(partitions=partitions))).body
    assert isinstance(body, bytearray)
    return msgspec.json.decode(body, type=Delivery).messages


def test_a_poll_shows_the_leased_messages_in_the_order_of_their_leases() -> None:
    data = stored(Message(value=b"a"), Message(value=b"b"), CONTROL, Message(value=b"d"))
    first, second = delivered(share(data, [13, 10]))
    assert (first.offset, first.value, first.receipt_handle) == (13, "d", "t:0:13:1:receipt")
    assert (second.offset, second.value, second.delivery_count) == (10, "a", 1)
    assert second.deadline == format_time(NOW + 10**9)


def test_leased_messages_are_unpacked_too() -> None:
    data = stored(compress(Message(value=b"hello"), Codec.LZ4), Message(value=b"plain"))
    messages = delivered(share(data, [10, 11]))
    assert [message.value for message in messages] == ["hello", "plain"]


def test_a_poll_without_messages_has_an_empty_list() -> None:
    assert finished(encode_poll(Leased())).body == b'{"messages":[]}'


def test_a_lease_without_its_bytes_is_a_fault_not_a_missing_message() -> None:
    with pytest.raises(KeyError):
        delivered(share(stored(Message(value=b"a")), [10, 11]))
