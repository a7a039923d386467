"""Flags, which the sum does not cover, are compared with what the summed bytes say."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Code, Message, Refused
from goqueue.records import (
    Buffer,
    Codec,
    Corrupt,
    Flag,
    build,
    compress,
    decode,
    encode,
    scan,
    sums,
    verify,
    walk,
)
from tests.unit.records.examples import Forged, messages

Reader = Callable[[Buffer], object]

READERS: dict[str, Reader] = {
    "verify": verify,
    "walk": walk,
    "decode": decode,
    "sums": lambda data: sums(data, 0, len(data)),
}

DUE = ("gq.deliver-at", b"1700000000000000000")

EXAMPLES = {
    "keyed": Message(key=b"k", value=b"v"),
    "keyless": Message(value=b"v"),
    "with headers": Message(key=b"k", value=b"v", headers=(("n", b"v"),)),
    "compressed": compress(Message(key=b"k", value=b"v"), Codec.ZSTD),
    "compressed with headers": compress(
        Message(key=b"k", value=b"v", headers=(("n", b"v"),)), Codec.LZ4
    ),
    "abort": Message(key=b"gq.transaction", value=b"v", is_control=True),
    "commit": Message(key=b"gq.transaction", value=b"v", is_control=True, is_commit=True),
    "delayed": Message(key=b"k", value=b"v", headers=(DUE,), is_delayed=True),
    "to be delayed": Message(key=b"k", value=b"v", headers=(DUE,)),
    "tombstone": Message(key=b"k", value=None),
    "empty": Message(key=b"k", value=b""),
}


def blind_bits(message: Message) -> int:
    """The flags of this message that the format leaves without proof; see layout."""
    blind = 0
    if not message.value:
        blind |= Flag.TOMBSTONE
    if message.is_control:
        blind |= Flag.COMMIT
    if any(name == "gq.deliver-at" for name, _ in message.headers):
        blind |= Flag.DELAYED
    return int(blind)


def is_found(data: bytearray) -> bool:
    """Whether the flags are found wrong; every reader must say the same."""
    reasons = {scan(data).reason}
    for reader in READERS.values():
        try:
            reader(data)
        except Corrupt as corrupt:
            reasons.add(corrupt.reason)
        else:
            reasons.add(None)
    assert reasons in ({"flags"}, {None})
    return reasons == {"flags"}


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize(
    ("example", "unseen"),
    [
        ("keyed", 0),
        ("keyless", 0),
        ("with headers", 0),
        ("compressed", 0),
        ("compressed with headers", 0),
        ("abort", Flag.COMMIT),
        ("commit", Flag.COMMIT),
        ("delayed", Flag.DELAYED),
        ("to be delayed", Flag.DELAYED),
        ("tombstone", Flag.TOMBSTONE),
        ("empty", Flag.TOMBSTONE),
    ],
)
def test_a_flipped_flag_is_found_by_every_reader_but_for_what_the_layout_documents(
    example: str, unseen: int, bit: int
) -> None:
    data = build([EXAMPLES[example]])
    assert not is_found(data)

    data[3] ^= 1 << bit

    assert is_found(data) == (1 << bit != unseen)


@given(messages(), st.integers(1, 255))
def test_any_other_flags_are_found_unless_all_that_changed_are_without_proof(
    message: Message, change: int
) -> None:
    data = build([message])
    data[3] ^= change

    assert is_found(data) == bool(change & ~blind_bits(message))


@pytest.mark.parametrize(
    ("message", "part", "reason"),
    [
        (Message(value=b"", key=b"gq.epoch"), "key", "reserved"),
        (Message(value=b"", key=b"gq."), "key", "reserved"),
        (Message(value=b"", key=b"k", is_control=True), "key", "control without reserved key"),
        (Message(value=b"gq.", is_control=True), "key", "control without reserved key"),
        (
            Message(value=b"", key=b"gq", is_control=True, is_commit=True),
            "key",
            "control without reserved key",
        ),
        (Message(value=b"", is_compressed=True), "headers", "compressed without codec"),
        (
            Message(value=b"", headers=(("n", b"gq.codec"),), is_compressed=True),
            "headers",
            "compressed without codec",
        ),
        (
            Message(value=b"", headers=(("n", b""), ("gq.codec", b"zstd"))),
            "headers",
            "codec without compression",
        ),
        (Message(value=b"", is_delayed=True), "headers", "delayed without delivery time"),
        (
            Message(value=b"", headers=(("n", b"gq.deliver-at"),), is_delayed=True),
            "headers",
            "delayed without delivery time",
        ),
    ],
)
def test_a_message_whose_flags_its_key_or_headers_contradict_is_refused(
    message: Message, part: str, reason: str
) -> None:
    with pytest.raises(Refused) as refused:
        build([Message(value=b"fine"), message])
    assert refused.value.code is Code.MESSAGE_INVALID
    assert refused.value.facts == {"index": 1, "part": part, "reason": reason}


@pytest.mark.parametrize("flag", [Flag.CONTROL, Flag.COMPRESSED, Flag.DELAYED])
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_record_is_encoded_exactly_if_its_readers_will_accept_it(
    example: str, flag: Flag
) -> None:
    data = build([EXAMPLES[example]])
    record = decode(data)
    changed = msgspec.structs.replace(record, flags=record.flags ^ flag)
    data[3] ^= flag

    if is_found(data):
        with pytest.raises(Refused) as refused:
            encode(changed)
        assert refused.value.code is Code.MESSAGE_INVALID
    else:
        assert encode(changed) == data


@pytest.mark.parametrize("key", [b"", b"g", b"gq", b"gq-", b"GQ.", b" gq.", b"xgq.epoch"])
def test_a_key_that_only_resembles_the_reserved_ones_is_an_ordinary_key(key: bytes) -> None:
    # The value begins where the key ends: what follows must not be taken for a part of it.
    assert verify(build([Message(key=key, value=b"q.gq..")])) == 1
    with pytest.raises(Corrupt) as corrupt:
        verify(Forged(flags=8, body=key + b"q.gq..", key_length=len(key)).encode())
    assert corrupt.value.reason == "flags"


@pytest.mark.parametrize(
    "name", ["gq.code", "gq.codecs", "GQ.CODEC", "gq.deliver-a", "gq.deliver-at2", "gq.", "n"]
)
@pytest.mark.parametrize("flag", [Flag.COMPRESSED, Flag.DELAYED])
def test_a_header_name_that_only_resembles_a_proof_proves_nothing(name: str, flag: Flag) -> None:
    data = build([Message(value=b"v", headers=((name, b"gq.codec"), ("n", b"gq.deliver-at")))])
    assert verify(data) == 1

    data[3] |= flag

    assert is_found(data)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_proof_counts_wherever_it_stands_among_the_headers(place: int) -> None:
    headers = [("a", b""), ("b", b"")]
    headers.insert(place, ("gq.codec", b"zstd"))
    headers.insert(place, DUE)

    message = Message(value=b"", headers=tuple(headers), is_compressed=True, is_delayed=True)

    assert decode(build([message])).flags == Flag.COMPRESSED | Flag.DELAYED | Flag.HEADERS


def test_a_wrong_sum_and_a_malformed_header_block_are_told_before_the_flags() -> None:
    wrong = Forged(flags=11, body=b"\0\2\0\1n\0\1v", headers_length=8).encode()

    assert scan(wrong).reason == "header_count"
    assert scan(wrong[:-1] + b"w").reason == "crc"
