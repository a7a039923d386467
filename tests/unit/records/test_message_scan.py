"""What a queue may deliver and which offset comes next, by scans of headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model import Message
from goqueue.records import (
    Corrupt,
    Flag,
    MessageScan,
    MessageSummary,
    build,
    decode,
    last_offset,
    scan_messages,
    stamp,
    walk,
)
from tests.unit.records.examples import FIRST_VECTOR, Forged, batches

HIDDEN = Flag.CONTROL | Flag.DELAYED
SIZE = 44

# Three records of 44 bytes with a gap, as compaction leaves them: offsets 5, 6 and 9.
GAPPED = b"".join(
    Forged(offset=offset, body=b"key" + bytes(7), key_length=3, priority=offset % 5).encode()
    for offset in (5, 6, 9)
)


@pytest.mark.parametrize(
    ("from_offset", "offsets", "next_offset"),
    [
        (0, [5, 6, 9], 10),
        (6, [6, 9], 10),
        (7, [9], 10),
        (10, [], 10),
        (12, [], 12),
    ],
)
def test_a_scan_knows_the_records_from_an_offset_on(
    from_offset: int, offsets: list[int], next_offset: int
) -> None:
    seen = scan_messages(GAPPED, from_offset, with_keys=True)

    assert seen == MessageScan(
        [MessageSummary(offset, SIZE, offset % 5, b"key", b"") for offset in offsets], next_offset
    )


def test_a_scan_leaves_keys_out_unless_they_are_wanted() -> None:
    assert [each.key for each in scan_messages(GAPPED, 0, with_keys=False).known] == [b"", b"", b""]


def test_records_that_are_not_shown_are_passed_by_but_count_as_seen() -> None:
    batch = build(
        [
            Message(value=b"v"),
            Message(value=b"v", headers=(("gq.deliver-at", b"9"),), is_delayed=True),
            Message(value=b"v", key=b"gq.x", is_control=True),
        ]
    )
    stamp(batch, 7, 1)

    assert scan_messages(batch, 7, with_keys=True) == MessageScan(
        [MessageSummary(7, 35, 2, b"", b"")], 10
    )


def test_a_scan_of_nothing_continues_where_it_was() -> None:
    assert scan_messages(b"", 3, with_keys=True) == MessageScan([], 3)
    assert last_offset(b"") == -1


@given(batches, st.integers(0, 10), st.integers(0, 15), st.booleans())
def test_a_scan_agrees_with_decoding(
    batch: list[Message], first_offset: int, from_offset: int, with_keys: bool
) -> None:
    data = build(batch)
    stamp(data, first_offset, 1)
    columns = walk(data)
    ends = [*columns.positions, len(data)][1:]
    decoded = [decode(data, position) for position in columns.positions]

    seen = scan_messages(data, from_offset, with_keys=with_keys)

    assert seen.known == [
        MessageSummary(
            record.offset, end - start, record.priority, record.key if with_keys else b"", b""
        )
        for record, start, end in zip(decoded, columns.positions, ends, strict=True)
        if record.offset >= from_offset and not record.flags & HIDDEN
    ]
    assert seen.next_offset == max(from_offset, last_offset(data) + 1)
    assert last_offset(data) == (decoded[-1].offset if decoded else -1)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (FIRST_VECTOR[:-1], "truncated"),
        (b"XX", "magic"),
        (Forged(offset=9).encode(), "offset"),
        (Forged(offset=3).encode(), "offset"),
    ],
)
def test_what_does_not_follow_is_corrupt(tail: bytes, reason: str) -> None:
    for read in (last_offset, lambda data: scan_messages(data, 0, with_keys=True)):
        with pytest.raises(Corrupt) as corrupt:
            read(GAPPED + tail)
        assert (corrupt.value.position, corrupt.value.reason) == (len(GAPPED), reason)
