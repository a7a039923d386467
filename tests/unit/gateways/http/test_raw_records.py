"""Records handed in as bytes: all of them are new and whole, or none is taken."""

import pytest

from goqueue.model import Code, Message, Record
from goqueue.model.requests import Isolation, ProducerStamp, Publish, Read
from goqueue.records import Codec, build, compress, encode, stamp
from tests.unit.gateways.http.refusing_broker import Client, RefusingBroker, read

PATH = "/topics/t/records"
GOOD = build([Message(value=b"a", key=b"k"), Message(value=b"b", headers=(("x", b"y"),))])
FIRST = len(build([Message(value=b"a", key=b"k")]))


def refused(body: bytes, query: str = "", counts: tuple[int, ...] = (1,)) -> dict[str, object]:
    """Why a body is refused; the node counts its records, as many as were known by then."""
    client = Client()
    response = client.send("POST", PATH + query, body)
    assert response.status == 400, response.body
    assert isinstance(client.broker, RefusingBroker)
    expected = [
        [Publish(topic="t", batch=bytearray(), refused={Code.REQUEST_INVALID: count})]
        for count in counts
    ]
    assert client.broker.asked in (expected or [[]])
    told = read(response)
    assert told["code"] == "request_invalid"
    details = told["details"]
    assert isinstance(details, dict)
    return details


def asked(body: bytes, query: str = "") -> Publish:
    client = Client()
    client.send("POST", PATH + query, body)
    command = client.asked()
    assert isinstance(command, Publish)
    return command


def test_whole_records_are_handed_on_as_they_are() -> None:
    command = asked(bytes(GOOD))
    assert command == Publish(topic="t", batch=GOOD, targets=None, is_whole=True)


def test_a_partition_is_for_all_of_them() -> None:
    assert asked(bytes(GOOD), "?partition=2").targets == [2, 2]


def test_a_compressed_record_keeps_its_codec() -> None:
    batch = build([compress(Message(value=b"a" * 100), Codec.ZSTD)])
    assert asked(bytes(batch)).batch == batch


def test_a_value_may_hold_the_reserved_prefix() -> None:
    batch = build([Message(value=b"gq.", key=b"k", headers=(("a", b"gq."),))])
    assert asked(bytes(batch)).batch == batch


@pytest.mark.parametrize(
    ("body", "position"),
    [
        (b"", 0),
        (b"{}", 0),
        (bytes(GOOD[:-1]), FIRST),
        (bytes(GOOD) + b"x", len(GOOD)),
        (bytes(GOOD[:FIRST]) + b"\x00" * 40, FIRST),
        (bytes(GOOD[: FIRST - 1]) + b"\xff" + bytes(GOOD[FIRST:]), 0),
    ],
)
def test_bytes_that_are_not_whole_records_are_refused_with_their_place(
    body: bytes, position: int
) -> None:
    details = refused(body)
    assert details["position"] == position
    assert details["reason"]


def test_a_record_that_has_an_offset_already_is_refused() -> None:
    stamped = bytearray(GOOD)
    stamp(stamped, 5, 7)
    assert refused(bytes(stamped))["position"] == 0


@pytest.mark.parametrize(
    "message",
    [
        Message(value=b"", key=b"gq.epoch", is_control=True),
        Message(value=b"", key=b"gq.txn", is_control=True, is_commit=True),
        Message(value=b"a", headers=(("gq.deliver-at", b"1"),), is_delayed=True),
        Message(value=b"a", headers=(("gq.delayed-from", b"1"),)),
        Message(value=b"a", headers=(("x", b""), ("gq.batch", b""))),
        Message(value=b"a", headers=(("gq.", b""),)),
    ],
)
def test_what_is_the_brokers_to_set_is_refused(message: Message) -> None:
    body = bytes(GOOD) + bytes(build([message]))
    assert refused(body, counts=(1, 3))["position"] == len(GOOD)


def test_a_batch_of_tombstones_is_taken() -> None:
    record = Record(offset=0, timestamp=0, priority=2, flags=0, key=b"k", value=None, headers=())
    assert asked(encode(record) * 3, "?partition=0").targets == [0, 0, 0]


def test_records_without_a_producer_have_no_stamp() -> None:
    assert asked(bytes(GOOD)).producer is None


@pytest.mark.parametrize(
    ("query", "stamp"),
    [
        ("?producer_id=7&epoch=0", ProducerStamp(producer_id=7, epoch=0)),
        ("?producer_id=7&epoch=2&partition=1", ProducerStamp(producer_id=7, epoch=2)),
        (
            "?producer_id=7&epoch=2&partition=1&sequence=0",
            ProducerStamp(producer_id=7, epoch=2, sequence=0),
        ),
        (
            f"?producer_id={2**63 - 1}&epoch=32767&partition=1&sequence={2**31 - 1}",
            ProducerStamp(producer_id=2**63 - 1, epoch=32767, sequence=2**31 - 1),
        ),
    ],
)
def test_whoever_publishes_records_may_say_who_it_is(query: str, stamp: ProducerStamp) -> None:
    assert asked(bytes(GOOD), query).producer == stamp


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?producer_id=7", "epoch"),
        ("?epoch=7", "producer_id"),
        ("?sequence=0&partition=0", "producer_id"),
        ("?sequence=0&partition=0&producer_id=7", "epoch"),
        ("?sequence=0&producer_id=7&epoch=0", "partition"),
        ("?producer_id=0&epoch=0", "producer_id"),
        ("?producer_id=-1&epoch=0", "producer_id"),
        (f"?producer_id={2**63}&epoch=0", "producer_id"),
        ("?producer_id=7&epoch=-1", "epoch"),
        ("?producer_id=7&epoch=40000", "epoch"),
        ("?producer_id=7&epoch=true", "epoch"),
        ("?producer_id=7&epoch=0&partition=0&sequence=-1", "sequence"),
        (f"?producer_id=7&epoch=0&partition=0&sequence={2**31}", "sequence"),
        ("?producer_id=7&epoch=0&partition=0&sequence=", "sequence"),
    ],
)
def test_half_a_producer_and_numbers_out_of_range_are_refused_by_their_field(
    query: str, field: str
) -> None:
    assert refused(bytes(GOOD), query, counts=())["field"] == field


def test_a_raw_read_asks_for_exactly_the_offset_given() -> None:
    client = Client()
    client.get("/topics/t/partitions/1/records?offset=5&max_bytes=100&wait=10s")
    command = client.asked()
    assert isinstance(command, Read)
    assert (command.partition, command.offset, command.bytes_max) == (1, 5, 100)
    assert (command.wait_ns, command.is_exact) == (9 * 10**9, True)


@pytest.mark.parametrize("shown", ["messages", "records"])
@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_read_asks_for_the_isolation_that_it_was_given(shown: str, isolation: Isolation) -> None:
    client = Client()
    client.get(f"/topics/t/partitions/1/{shown}?isolation={isolation}")
    command = client.asked()
    assert isinstance(command, Read)
    assert command.isolation is isolation


@pytest.mark.parametrize("shown", ["messages", "records"])
def test_a_read_shows_what_was_committed_unless_it_is_told_otherwise(shown: str) -> None:
    client = Client()
    client.get(f"/topics/t/partitions/1/{shown}")
    command = client.asked()
    assert isinstance(command, Read)
    assert command.isolation is Isolation.READ_COMMITTED


@pytest.mark.parametrize(
    "target",
    [
        "/topics/t/partitions/1/messages",
        "/topics/t/partitions/1/records",
        "/groups/g/poll?member_id=m",
    ],
)
def test_an_isolation_that_nobody_knows_is_refused(target: str) -> None:
    client = Client()
    response = client.get(f"{target}{'&' if '?' in target else '?'}isolation=serializable")
    assert response.status == 400
    assert isinstance(client.broker, RefusingBroker)
    assert not client.broker.asked
