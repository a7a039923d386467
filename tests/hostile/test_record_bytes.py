"""Bytes that mean harm: never a crash, never memory that they only announce, always Corrupt."""

import random
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.fuzz_records import SEEDS, mend, try_record_bytes
from goqueue.model import Message
from goqueue.records import (
    Corrupt,
    build,
    decode,
    index_records,
    scan,
    slice_records,
    stamp,
    sums,
    verify,
    walk,
)
from tests.unit.records.examples import (
    FIRST_VECTOR,
    Forged,
    batches,
    with_headers,
)

MIB = 1024 * 1024
FAR = 1 << 62

Reader = Callable[[bytes], object]

READERS: dict[str, Reader] = {
    "verify": verify,
    "walk": walk,
    "decode": decode,
    "sums": lambda data: sums(data, 0, len(data)),
}

# What each forgery is found to be. Where a body is given, its sum is right.
FORGERIES = [
    (b"XQ" + FIRST_VECTOR[2:], "magic"),
    (FIRST_VECTOR[:1] + b"q" + FIRST_VECTOR[2:], "magic"),
    (bytes(34), "magic"),
    (b"\xff" * 34, "magic"),
    (Forged(version=2).encode(), "version"),
    (Forged(version=0).encode(), "version"),
    (Forged(flags=64).encode(), "flags"),
    (Forged(flags=128).encode(), "flags"),
    (Forged(flags=16).encode(), "flags"),
    (Forged(flags=2).encode(), "flags"),
    (Forged(flags=4, body=b"v").encode(), "flags"),
    (Forged(body=b"\0\1\0\1n\0\1v", headers_length=8).encode(), "flags"),
    (Forged(flags=8).encode(), "flags"),
    (Forged(flags=24, body=b"key", key_length=3).encode(), "flags"),
    (Forged(body=b"gq.", key_length=3).encode(), "flags"),
    (Forged(flags=1).encode(), "flags"),
    (Forged(flags=32).encode(), "flags"),
    (Forged(flags=3, body=b"\0\1\0\1n\0\1v", headers_length=8).encode(), "flags"),
    (Forged(flags=34, body=b"\0\1\0\1n\0\1v", headers_length=8).encode(), "flags"),
    (with_headers(b"\0\1\0\x08gq.codec\0\0"), "flags"),
    (Forged(reserved=1).encode(), "reserved"),
    (Forged(priority=5).encode(), "priority"),
    (Forged(priority=255).encode(), "priority"),
    (Forged(offset=(1 << 63) - 1).encode(), "offset"),
    (Forged(offset=1 << 63).encode(), "offset"),
    (Forged(offset=(1 << 64) - 1).encode(), "offset"),
    (Forged(timestamp=(1 << 64) - 1).encode(), "timestamp"),
    (Forged(value_length=16 * MIB + 1).encode(), "length"),
    (Forged(value_length=(1 << 32) - 1).encode(), "length"),
    (
        Forged(
            value_length=(1 << 32) - 34, key_length=65_535, headers_length=65_535, flags=2
        ).encode(),
        "length",
    ),
    (Forged(value_length=16 * MIB).encode(), "truncated"),
    (Forged(value_length=1).encode(), "truncated"),
    (Forged(key_length=65_535, value_length=0).encode(), "truncated"),
    (FIRST_VECTOR[:-1], "truncated"),
    (FIRST_VECTOR[:33], "truncated"),
    (FIRST_VECTOR[:4] + b"\0\0\0\0" + FIRST_VECTOR[8:], "crc"),
    (FIRST_VECTOR[:-1] + b"w", "crc"),
    (with_headers(b"\0"), "header_count"),
    (with_headers(b"\0\0"), "header_count"),
    (with_headers(b"\0\2\0\1n\0\1v"), "header_count"),
    (with_headers(b"\xff\xff\0\1n\0\1v"), "header_count"),
    (with_headers(b"\0\1\0\1n\0\1v\0\1n\0\1v"), "header_count"),
    (with_headers(b"\0\1\0\1n\0\1v\0"), "header_count"),
    (with_headers(b"\0\1\0\1n\0\2v"), "header_count"),
    (with_headers(b"\0\1\xff\xffn\0\1v"), "header_count"),
    (with_headers(b"\0\1\0\1n\xff\xffv"), "header_count"),
    (with_headers(b"\0\1\0\1n\0"), "header_count"),
    (with_headers(b"\0\1\0"), "header_count"),
]

# Not UTF-8: lone continuation, cut, overlong, a surrogate, past U+10FFFF, never used.
NOT_TEXT = [
    b"\x80",
    b"a\xc3",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xc3a",
    b"\xe2\x82a",
]


@pytest.mark.parametrize(("data", "reason"), FORGERIES)
@pytest.mark.parametrize("reader", READERS)
def test_a_forged_record_is_corrupt_for_every_reader(reader: str, data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt) as corrupt:
        READERS[reader](data)
    assert (corrupt.value.position, corrupt.value.reason) == (0, reason)


@pytest.mark.parametrize(("data", "reason"), FORGERIES)
def test_a_scan_stops_before_a_forged_record(data: bytes, reason: str) -> None:
    found = scan(FIRST_VECTOR + data)

    assert (len(found.columns), found.end) == (1, len(FIRST_VECTOR))
    assert found.reason == reason


@pytest.mark.parametrize("name", NOT_TEXT)
@pytest.mark.parametrize("reader", READERS)
def test_a_header_name_that_is_no_utf8_is_corrupt(reader: str, name: bytes) -> None:
    block = b"\0\1" + len(name).to_bytes(2, "big") + name + b"\0\0"

    with pytest.raises(Corrupt) as corrupt:
        READERS[reader](with_headers(block))
    assert corrupt.value.reason == "header_name"


@given(st.binary(max_size=5))
def test_a_name_is_text_exactly_if_python_can_decode_it(name: bytes) -> None:
    data = with_headers(b"\0\1" + len(name).to_bytes(2, "big") + name + b"\0\0")
    try:
        text = name.decode()
    except UnicodeDecodeError:
        assert scan(data).reason == "header_name"
    else:
        assert decode(data).headers == ((text, b""),)


def test_nothing_is_no_records_and_no_record() -> None:
    assert verify(b"") == 0
    assert len(walk(b"")) == 0
    assert scan(b"").reason is None
    assert slice_records(b"", 0, FAR, FAR).end == 0
    assert index_records(b"", 0, -1, 1).count == 0
    with pytest.raises(Corrupt) as corrupt:
        decode(b"")
    assert corrupt.value.reason == "truncated"


@pytest.mark.parametrize(
    "read",
    [
        scan,
        lambda data: slice_records(data, 0, FAR, FAR),
        lambda data: index_records(data, 0, -1, 1),
        *(pytest.param(reader, id=name) for name, reader in READERS.items()),
    ],
)
def test_a_length_that_is_only_announced_costs_no_memory(read: Reader) -> None:
    announced = Forged(
        key_length=65_535, value_length=16 * MIB, headers_length=65_535, flags=2, body=bytes(100)
    ).encode()
    tracemalloc.start()
    with suppress(Corrupt):
        read(announced)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 64 * 1024


def test_the_offset_after_the_highest_one_still_fits() -> None:
    highest = (1 << 63) - 2
    data = Forged(offset=highest).encode()

    assert scan(data).reason is None
    assert index_records(data, 0, -1, 1).next_offset == highest + 1
    assert slice_records(data, 0, highest + 1, FAR).next_offset == highest + 1


def test_the_largest_announcement_is_what_a_scan_asks_for_at_most() -> None:
    largest = Forged(key_length=65_535, value_length=16 * MIB, headers_length=65_535, flags=2)

    assert scan(largest.encode()).needs == 34 + 65_535 + 16 * MIB + 65_535


@given(st.binary(max_size=300))
def test_random_bytes_do_no_harm(data: bytes) -> None:
    try_record_bytes(data)


@given(batches, st.data())
def test_mutated_records_do_no_harm_with_sums_wrong_or_right(
    batch: list[Message], data: st.DataObject
) -> None:
    mutated = build(batch)
    stamp(mutated, 0, FAR)
    for _ in range(data.draw(st.integers(0, 4)) if mutated else 0):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))

    try_record_bytes(bytes(mutated))
    try_record_bytes(mend(mutated))


def test_thousands_of_mutations_do_no_harm() -> None:
    chance = random.Random(20_26)
    seeds = [bytes.fromhex(seed) for seed in SEEDS] + [data for data, _ in FORGERIES]
    for _ in range(3_000):
        mutated = bytearray(chance.choice(seeds) + chance.choice(seeds))
        for _ in range(chance.randrange(4)):
            mutated[chance.randrange(len(mutated))] = chance.choice((0, 1, 2, 127, 128, 255))
        del mutated[chance.randrange(len(mutated) // 2, len(mutated) + 1) :]
        try_record_bytes(mend(mutated) if chance.random() < 0.7 else bytes(mutated))
