"""The JSON of reads and polls is, byte for byte, what a struct per message would be."""

import itertools
from random import Random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.gateways.http.json_chunks import finished
from goqueue.gateways.http.message_encoder import ReadAnswer, encode_poll
from goqueue.model import LogId, Message, Offset, Timestamp
from goqueue.model.requests import Leased, LeasedRun, PartitionLeases, Records, TraceSeed
from goqueue.records import (
    Codec,
    Corrupt,
    RecordFinder,
    build,
    compress,
    slice_records,
    stamp,
)
from tests.unit.gateways.http.reference_messages import reference_poll, reference_read
from tests.unit.gateways.http.refusing_broker import NOW
from tests.unit.records.examples import with_headers

LOG = LogId("orders", 3)
MANY = 1 << 30
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

octets = st.binary(max_size=24) | st.text(max_size=24).map(str.encode)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
own_headers = st.tuples(
    names.filter(lambda name: name and not name.startswith("gq.")) | st.sampled_from("ab"), octets
)
known_headers = st.sampled_from(
    [
        ("traceparent", PARENT),
        ("traceparent", b"00-nonsense"),
        ("gq.delayed-from", b"17"),
        ("gq.batch", b"7,0,0,2,1"),
        ("gq.batches", b""),
    ]
)
header_lists = st.lists(own_headers | known_headers, max_size=5)
seeds = st.none() | st.builds(
    TraceSeed,
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([0, 1, 1 << 63, (1 << 64) - 1, 1 << 64]),
)


@st.composite
def plain_messages(draw: st.DrawFn) -> Message:
    """Messages that are not compressed, some of them hidden from readers."""
    is_control = draw(st.sampled_from([False] * 7 + [True]))
    is_delayed = draw(st.sampled_from([False] * 7 + [True]))
    headers = draw(header_lists) + [("gq.deliver-at", b"9")] * is_delayed
    key = draw(octets.filter(lambda key: not key.startswith(b"gq.")))
    return Message(
        value=draw(st.none() | octets),
        key=b"gq." * is_control + key,
        headers=tuple(headers),
        priority=draw(st.integers(0, 4)),
        is_control=is_control,
        is_delayed=is_delayed,
    )


def compressed(message: Message, codec: Codec | None) -> Message:
    return message if codec is None else compress(message, codec)


spoilt = st.builds(
    lambda value, name, headers: Message(
        value=value, headers=(*headers, ("gq.codec", name)), is_compressed=True
    ),
    st.none() | octets,
    st.sampled_from([b"zstd", b"unheard-of", b"\xff"]),
    header_lists,
)
any_messages = st.builds(compressed, plain_messages(), st.none() | st.sampled_from(Codec)) | spoilt
times = st.integers(0, (1 << 63) - 1) | st.integers(0, 9).map(lambda each: NOW + each * 10**8)


@st.composite
def pieces(draw: st.DrawFn, messages: st.SearchStrategy[Message]) -> tuple[memoryview, ...]:
    """Stored records in one or several pieces, with gaps between them."""
    stored = []
    first = draw(st.sampled_from([0, 1, 10**12]))
    for _ in range(draw(st.integers(0, 3))):
        piece = bytearray()
        for batch in draw(st.lists(st.lists(messages, min_size=1, max_size=4), max_size=3)):
            data = build(batch)
            stamp(data, first, draw(times))
            piece += data
            first += len(batch) + draw(st.integers(0, 2))
        stored.append(memoryview(piece).toreadonly())
    return tuple(stored)


def offsets_of(data: tuple[memoryview, ...]) -> list[int]:
    aside = Records(
        log=LOG,
        offset=Offset(0),
        high_watermark=Offset(0),
        stable=Offset(0),
        start=Offset(0),
        upto=Offset(0),
        data=data,
    )
    shown = msgspec.json.decode(reference_read(aside, MANY, MANY))
    return [message["offset"] for message in shown["messages"]]


def read(
    data: tuple[memoryview, ...],
    seed: TraceSeed | None = None,
    aborted: tuple[tuple[int, int], ...] = (),
    offset: int = 0,
) -> Records:
    return Records(
        log=LOG,
        offset=Offset(offset),
        high_watermark=Offset(99),
        stable=Offset(99),
        start=Offset(0),
        upto=Offset(42),
        data=data,
        seed=seed,
        aborted=aborted,
    )


def written(records: Records, count_max: int, bytes_max: int) -> bytes:
    answer = ReadAnswer(count_max, bytes_max)
    body = answer.response(finished(answer.add(records))).body
    assert isinstance(body, bytearray)
    return bytes(body)


@given(
    pieces(any_messages),
    seeds,
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=3),
    st.integers(0, 6),
    st.integers(1, 9),
)
def test_a_read_is_written_as_from_structs(
    data: tuple[memoryview, ...],
    seed: TraceSeed | None,
    aborted: list[tuple[int, int]],
    offset: int,
    count_max: int,
) -> None:
    ranges = tuple((first, first + length) for first, length in aborted)
    records = read(data, seed, ranges, offset)
    assert written(records, count_max, MANY) == reference_read(records, count_max, MANY)


@given(pieces(plain_messages()), st.integers(1, 9), st.integers(1, 150))
def test_a_read_ends_where_structs_would_end_it(
    data: tuple[memoryview, ...], count_max: int, bytes_max: int
) -> None:
    records = read(data)
    assert written(records, count_max, bytes_max) == reference_read(records, count_max, bytes_max)


def leases_of(
    data: tuple[memoryview, ...], offsets: list[int], seed: TraceSeed | None = None
) -> PartitionLeases:
    leases = [
        LeasedRun(f"orders:3:{attempt}:c2f1", attempt, list(run))
        for attempt, run in itertools.groupby(offsets, lambda offset: offset % 3)
    ]
    deadline = Timestamp(NOW + 1)
    return PartitionLeases(log=LOG, leases=tuple(leases), deadline=deadline, data=data, seed=seed)


@given(st.lists(pieces(any_messages), max_size=2), seeds, st.randoms(use_true_random=False))
def test_a_poll_is_written_as_from_structs(
    partitions: list[tuple[memoryview, ...]], seed: TraceSeed | None, random: Random
) -> None:
    shares = []
    for data in partitions:
        offsets = offsets_of(data)
        random.shuffle(offsets)
        shares.append(leases_of(data, offsets, seed))
    leased = Leased(partitions=tuple(shares))
    assert finished(encode_poll(leased)).body == reference_poll(leased)


@given(pieces(any_messages), st.randoms(use_true_random=False))
def test_gathered_records_are_written_as_those_that_are_picked_out(
    data: tuple[memoryview, ...], random: Random
) -> None:
    offsets = offsets_of(data)
    random.shuffle(offsets)
    picked = leases_of(data, offsets[: random.randint(0, len(offsets))])
    size = sum(size_of(data, offset) for offset in picked.offsets)
    records = RecordFinder(data).gather(picked.offsets, size)
    assert records is not None

    gathered = msgspec.structs.replace(picked, data=(memoryview(records),), is_gathered=True)

    body = finished(encode_poll(Leased(partitions=(gathered,)))).body
    assert body == reference_poll(Leased(partitions=(picked,)))
    assert body == reference_poll(Leased(partitions=(gathered,)))


def size_of(data: tuple[memoryview, ...], offset: int) -> int:
    found = [slice_records(piece, offset, offset + 1, 1) for piece in data]
    return sum(each.end - each.start for each in found)


def stored(*messages: Message, first: int = 0, at: int = NOW) -> memoryview:
    batch = build(messages)
    stamp(batch, first, Timestamp(at))
    return memoryview(batch)


@given(st.text())
@example("".join(map(chr, range(256))))
@example('"\\/\b\f\n\r\t\x7f\u2028\U0001f600' * 9)
def test_every_character_is_escaped_as_everywhere_else(text: str) -> None:
    value = text.encode("utf-8", "replace")
    body = written(read((stored(Message(value=value, key=value)),)), 1, MANY)
    escaped = msgspec.json.encode(value.decode())
    assert b'"value":%b,' % escaped in body
    assert not value or b'"key":%b' % escaped in body


@pytest.mark.parametrize("place", range(10))
def test_every_byte_is_found_wherever_it_stands(place: int) -> None:
    values = [b"x" * place + bytes([byte]) + b"y" * 11 for byte in range(256)]
    records = read((stored(*[Message(value=value) for value in values]),))
    assert written(records, 999, MANY) == reference_read(records, 999, MANY)


@pytest.mark.parametrize("ns", [0, 1, 10**9 - 1, 10**9, NOW, NOW + 120_000_000, NOW + 1, 5, 2**62])
def test_a_time_is_written_as_everywhere_else(ns: int) -> None:
    records = read((stored(Message(value=b"a"), at=NOW + 7), stored(Message(value=b"b"), at=ns)))
    assert written(records, 9, MANY) == reference_read(records, 9, MANY)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 300])
@pytest.mark.parametrize("is_repeated", [False, True])
def test_any_number_of_headers_is_written(count: int, is_repeated: bool) -> None:
    headers = [(f"n{number}", b"\xff" * (number % 3)) for number in range(count)]
    headers += [("n0", b"again")] * is_repeated
    records = read((stored(Message(value=b"a", headers=tuple(headers))),))
    assert written(records, 1, MANY) == reference_read(records, 1, MANY)


def test_a_lease_is_found_in_pieces_that_overlap() -> None:
    messages = [Message(value=b"%d" % number) for number in range(6)]
    data = (stored(*messages), stored(*messages[3:], first=3), stored(*messages[:2]))
    leased = Leased(partitions=(leases_of(data, [5, 0, 4, 1, 3, 2]),))
    assert finished(encode_poll(leased)).body == reference_poll(leased)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\0", "header_count"),
        (b"\0\2\0\1n\0\1v", "header_count"),
        (b"\0\1\0\1\xff\0\1v", "header_name"),
        (b"\0\1\xff\xffn\0\1v", "header_count"),
    ],
)
def test_a_header_block_that_is_none_is_corrupt(block: bytes, reason: str) -> None:
    data = (memoryview(with_headers(block)),)
    with pytest.raises(Corrupt) as of_read:
        written(read(data), 1, MANY)
    with pytest.raises(Corrupt) as of_poll:
        finished(encode_poll(Leased(partitions=(leases_of(data, [0, 1]),))))
    assert of_read.value.reason == of_poll.value.reason == reason


def test_a_large_message_makes_the_text_grow() -> None:
    values = [bytes(300_000), b"\xff" * 300_001, "é".encode() * 150_000]
    records = read((stored(*[Message(value=value, key=b"k") for value in values]),))
    assert written(records, 9, MANY) == reference_read(records, 9, MANY)


@pytest.mark.parametrize("run_length", [1, 7, 40])
def test_a_large_poll_is_written_in_steps_of_bounded_size(run_length: int) -> None:
    data = (stored(*[Message(value=b"v" * 100_000)] * 40),)
    leases = [
        LeasedRun("orders:3:1:c2f1", 1, range(first, min(first + run_length, 40)))
        for first in range(0, 40, run_length)
    ]
    share = msgspec.structs.replace(leases_of(data, []), leases=tuple(leases))
    leased = Leased(partitions=(share, share))
    # A step has eleven messages, with all that is around them.
    assert len(list(encode_poll(leased))) == 80 // 11
    assert finished(encode_poll(leased)).body == reference_poll(leased)


@pytest.mark.parametrize("count_max", [39, 40, 41])
def test_a_large_read_is_written_in_steps_of_bounded_size(count_max: int) -> None:
    messages = [Message(value=b"v" * 100_000)] * 30
    hidden = [Message(value=b"", key=b"gq.epoch", is_control=True)] * 3
    data = (stored(*messages, *hidden), stored(*messages[:10], *hidden, first=33))
    records = read(data, aborted=((0, 2), (9, 13)))
    steps = list(ReadAnswer(count_max, MANY).add(records))
    # A step has eleven messages, with all that is around them.
    assert len(steps) == 34 // 11
    assert written(records, count_max, MANY) == reference_read(records, count_max, MANY)


def test_a_part_of_the_log_that_is_no_record_is_corrupt() -> None:
    data = (memoryview(bytes(stored(Message(value=b"a"))) + b"XX"),)
    with pytest.raises(Corrupt):
        written(read(data), 9, MANY)
    with pytest.raises(Corrupt):
        finished(encode_poll(Leased(partitions=(leases_of(data, [0, 1]),))))
