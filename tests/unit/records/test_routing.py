"""Records sent to partitions: by target, by key, by turn, or nowhere."""

from array import array
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Message
from goqueue.records import Corrupt, Routed, Unroutable, build, decode, murmur3, route, walk
from tests.unit.records.examples import FIRST_VECTOR, Forged, batches, with_headers

LARGE = 1 << 20
VECTORS = {
    "a": (0x3C2569B2, (2, 2, 2, 0)),
    "user-100": (0x669441E1, (0, 1, 3, 25)),
    "order-123": (0xADAE14BD, (1, 1, 1, 41)),
    "é": (0x10110787, (1, 3, 1, 45)),
}


def spread(
    batch: bytes | bytearray,
    partitions: int,
    targets: list[int] | None = None,
    *,
    turn: int = 0,
    body_bytes_max: int = LARGE,
    needs_key: bool = False,
) -> Routed:
    return route(
        batch, partitions, turn, targets, body_bytes_max=body_bytes_max, needs_key=needs_key
    )


def records_of(data: bytes | bytearray) -> list[bytes]:
    positions = [*walk(data).positions, len(data)]
    return [bytes(data[start:end]) for start, end in pairwise(positions)]


def slow_murmur3(data: bytes) -> int:
    """The hash by its definition, one byte of arithmetic at a time."""
    mask = 0xFFFFFFFF
    number = 0
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4], "little") * 0xCC9E2D51 & mask
        number ^= ((word << 15 | word >> 17) & mask) * 0x1B873593 & mask
        if start + 4 <= len(data):
            number = ((number << 13 | number >> 19) & mask) * 5 + 0xE6546B64 & mask
    number ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        number = (number ^ number >> shift) * factor & mask
    return number ^ number >> 16


@pytest.mark.parametrize("key", VECTORS)
def test_keys_are_hashed_and_placed_as_the_contract_says(key: str) -> None:
    expected, places = VECTORS[key]
    batch = build([Message(value=b"v", key=key.encode())])

    assert murmur3(key.encode()) == expected
    for partitions, place in zip((3, 4, 6, 50), places, strict=True):
        assert spread(batch, partitions).targets == [place]


def test_the_hash_of_nothing_is_zero() -> None:
    assert murmur3(b"") == 0


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_its_definition(data: bytes) -> None:
    assert murmur3(data) == slow_murmur3(data)
    assert murmur3(memoryview(b"_" + data)[1:]) == murmur3(bytearray(data))


@given(
    batches,
    st.integers(1, 5),
    st.integers(0, 9),
    st.lists(st.integers(-3, 6), min_size=5, max_size=5),
    st.integers(0, 100),
)
def test_every_record_is_in_its_one_part_in_order_or_unroutable(
    batch: list[Message], partitions: int, turn: int, wishes: list[int], body_bytes_max: int
) -> None:
    built = build(batch)
    before = bytes(built)

    routed = spread(
        built, partitions, wishes[: len(batch)], turn=turn, body_bytes_max=body_bytes_max
    )

    expected: dict[int, list[bytes]] = {}
    for record, target in zip(records_of(before), routed.targets, strict=True):
        if target >= 0:
            assert target < partitions
            expected.setdefault(target, []).append(record)
        else:
            assert target in list(Unroutable)
    assert {number: records_of(part) for number, part in routed.parts.items()} == expected
    assert list(routed.parts) == sorted(routed.parts)


@given(
    st.integers(1, 7),
    st.integers(0, 20),
    st.lists(st.lists(st.sampled_from([b"", b"", b"", b"key"]), max_size=9), max_size=9),
)
def test_turns_fill_the_partitions_evenly_over_any_sequence_of_calls(
    partitions: int, turn: int, calls: list[list[bytes]]
) -> None:
    counts = Counter(dict.fromkeys(range(partitions), 0))
    for keys in calls:
        routed = spread(
            build([Message(value=b"v", key=key) for key in keys]), partitions, turn=turn
        )
        counts.update(target for target, key in zip(routed.targets, keys, strict=True) if not key)
        assert routed.turn == turn + keys.count(b"")
        turn = routed.turn

    assert max(counts.values()) - min(counts.values()) <= 1


def test_an_explicit_target_goes_before_the_key_and_uses_up_no_turn() -> None:
    batch = build([Message(value=b"v", key=key) for key in (b"a", b"", b"", b"")])

    routed = spread(batch, 3, [1, 0, -1, -1], turn=7)

    assert routed.targets == [1, 0, 1, 2]
    assert routed.turn == 9


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (2, 2),
        (3, Unroutable.NO_PARTITION),
        (1 << 80, Unroutable.NO_PARTITION),
        (-1, 0),
        (-2, Unroutable.BAD_PARTITION),
        (-(1 << 80), Unroutable.BAD_PARTITION),
    ],
)
def test_a_target_of_any_size_is_obeyed_or_found_impossible(wanted: int, expected: int) -> None:
    assert spread(build([Message(value=b"v")]), 3, [wanted]).targets == [expected]


def test_the_size_of_a_message_is_its_key_value_header_names_and_header_values() -> None:
    batch = build(
        [Message(value=b"value", key=b"key", headers=(("name", b"v"), ("é", b"")))],
    )
    given_bytes = 5 + 3 + 4 + 1 + 2

    assert spread(batch, 3, body_bytes_max=given_bytes).parts
    routed = spread(batch, 3, body_bytes_max=given_bytes - 1)
    assert routed.targets == [Unroutable.TOO_LARGE]
    assert routed.parts == {}


def test_what_goes_nowhere_uses_up_no_turn_and_stops_nobody() -> None:
    batch = build([Message(value=bytes(size)) for size in (1, 9, 1, 9, 1)])

    routed = spread(batch, 2, body_bytes_max=8)

    assert routed.targets == [0, Unroutable.TOO_LARGE, 1, Unroutable.TOO_LARGE, 0]
    assert routed.turn == 3


def test_a_compacted_topic_takes_only_records_with_a_key() -> None:
    batch = build([Message(value=b"v"), Message(value=None, key=b"a")])

    routed = spread(batch, 3, needs_key=True)

    assert routed.targets == [Unroutable.NO_KEY, 2]
    assert records_of(routed.parts[2]) == records_of(batch)[1:]


@pytest.mark.parametrize(
    "message",
    [
        Message(value=b"v", key=b"gq.x", is_control=True),
        Message(value=b"v", key=b"gq.x", is_control=True, is_commit=True),
        Message(value=b"v", headers=(("gq.deliver-at", b"9"),), is_delayed=True),
    ],
)
def test_flags_that_only_the_broker_sets_are_reserved(message: Message) -> None:
    assert spread(build([message]), 3).targets == [Unroutable.RESERVED]


def test_a_batch_for_one_partition_is_taken_over_and_others_are_copied() -> None:
    batch = build([Message(value=b"v", key=b"a")] * 3)

    assert spread(batch, 3).parts[2] is batch
    copied = spread(bytes(batch), 3).parts
    assert copied == {2: batch}
    assert type(copied[2]) is bytearray
    viewed = route(memoryview(batch), 3, 0, None, body_bytes_max=LARGE, needs_key=False)
    assert viewed.parts == {2: batch}
    batch.clear()


def test_parts_are_free_to_be_changed_and_the_batch_is_as_it_was() -> None:
    batch = build([Message(value=bytes([number])) for number in range(4)])
    before = bytes(batch)

    parts = spread(batch, 2).parts
    for part in parts.values():
        part.clear()

    assert batch == before
    batch.clear()


def test_an_empty_batch_has_no_parts() -> None:
    assert spread(b"", 3, turn=5) == Routed({}, [], 5, array("q", [0] * 5))


@pytest.mark.parametrize(("partitions", "turn"), [(0, 0), (-1, 0), (3, -1)])
def test_partitions_and_turns_that_cannot_be_are_a_bug_of_the_caller(
    partitions: int, turn: int
) -> None:
    with pytest.raises(IndexError):
        spread(FIRST_VECTOR, partitions, turn=turn)


@pytest.mark.parametrize("targets", [[], [0], [0, 0, 0]])
def test_targets_must_be_as_many_as_the_records(targets: list[int]) -> None:
    with pytest.raises(IndexError):
        spread(FIRST_VECTOR * 2, 3, targets)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (FIRST_VECTOR[:-1], "truncated"),
        (b"XX", "magic"),
        (Forged(value_length=1 << 24).encode(), "truncated"),
        (with_headers(b"\0"), "header_count"),
        (with_headers(b"\xff\xff\0\1n\0\1v"), "header_count"),
    ],
)
def test_what_is_no_batch_is_found_corrupt_and_the_buffer_let_go(tail: bytes, reason: str) -> None:
    batch = bytearray(FIRST_VECTOR + tail)

    with pytest.raises(Corrupt) as corrupt:
        spread(batch, 3)
    assert (corrupt.value.position, corrupt.value.reason) == (len(FIRST_VECTOR), reason)
    del batch[len(FIRST_VECTOR) :]
    assert decode(batch).value == b"v"
