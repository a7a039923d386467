"""Messages that are leased and settled here and there: how journals state them and how their bytes
are read.
"""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker import fill
from goqueue.broker.journal_changes import Delivered, Settled
from goqueue.model import Folded, LogId, Offset, RequestId, Serve, Slice, Timestamp
from goqueue.model.requests import Leased, LeasedRun, PartitionLeases
from goqueue.records import pick, slice_records
from tests.unit.broker.groups.priorities import (
    BACKGROUND,
    CRITICAL,
    drain,
    lanes_of,
    offsets_of,
    publish,
)
from tests.unit.broker.users import ack, committed, join, poll, shop
from tests.unit.records.examples import Forged

LOG = LogId("orders", 0)

OFFSETS = st.lists(st.integers(0, 300), unique=True).map(sorted)

# Journals


def settled(offsets: list[int]) -> Settled:
    folded = Folded.of(offsets)
    return Settled(
        group=1, topic=1, partition=0, floor=0, offsets=folded.ranges, steps=folded.steps
    )


@given(OFFSETS)
def test_offsets_come_out_of_a_journal_as_they_went_in(offsets: list[int]) -> None:
    stored = msgspec.json.encode(settled(offsets))

    assert list(msgspec.json.decode(stored, type=Settled).unfold()) == offsets


def test_entries_that_name_ranges_alone_are_read_as_ever() -> None:
    text = b'{"type":"delivered","group":1,"topic":1,"partition":0,"attempt":1,'
    text += b'"offsets":[[7,9],[2,4]]}'

    assert list(msgspec.json.decode(text, type=Delivered).unfold()) == [2, 3, 7, 8]


def test_a_run_is_stated_as_a_range_and_what_alternates_in_a_few_characters_each() -> None:
    run = msgspec.json.encode(settled(list(range(1_000_000, 1_000_500))))
    nearly = msgspec.json.encode(
        settled([*range(1_000_000, 1_000_400), *range(1_000_500, 10**6 + 600)])
    )
    alternating = msgspec.json.encode(settled(list(range(1_000_000, 1_001_000, 2))))

    assert len(run) < 120
    assert len(nearly) < 140
    assert len(alternating) < 120 + 500 * 2


def test_what_was_acked_here_and_there_stays_acked_over_a_restart() -> None:
    node = shop()
    join(node)
    publish(node, [CRITICAL, BACKGROUND, BACKGROUND] * 20)
    found = poll(node, count=20)
    assert lanes_of(found).count(CRITICAL) == 20
    ack(node, *found)
    node.restart()

    assert committed(node) == 1
    join(node)
    left = drain(node)
    assert offsets_of(left) == [offset for offset in range(60) if offset % 3]
    assert committed(node) == 60


# Bytes


class Shelf:
    """Stored records, and how they are read."""

    def __init__(self, sizes: list[int]) -> None:
        self._records = [
            Forged(offset=offset, body=bytes(size)).encode() for offset, size in enumerate(sizes)
        ]
        self.reads: list[int] = []

    def read(self, wanted: Slice) -> memoryview:
        data = b"".join(self._records[wanted.offset : wanted.below])
        found = slice_records(
            data, wanted.offset, wanted.below, max(wanted.bytes_max, len(data[:1]))
        )
        end = max(found.end, len(self._records[wanted.offset]))
        self.reads.append(end)
        return memoryview(data)[:end]


def serve(offsets: list[int], bytes_max: int) -> Serve:
    share = PartitionLeases(log=LOG, leases=(LeasedRun("", 1, offsets),), deadline=Timestamp(0))
    wanted = Slice(
        log=LOG,
        segment=Offset(0),
        offset=Offset(min(offsets)),
        below=Offset(max(offsets) + 1),
        bytes_max=bytes_max,
    )
    return Serve(request=RequestId(1), reply=Leased(partitions=(share,)), runs=((wanted,),))


def filled(effect: Serve, shelf: Shelf) -> list[int]:
    reply = fill(effect, shelf.read)
    assert isinstance(reply, Leased)
    (share,) = reply.partitions
    return [record.offset for piece in share.data for record in pick(piece, share.offsets)]


@given(
    st.lists(st.integers(0, 2000), min_size=3, max_size=60),
    st.integers(1, 20_000),
)
def test_every_leased_message_is_read_however_wrong_its_size_was_guessed(
    sizes: list[int], bytes_max: int
) -> None:
    shelf = Shelf(sizes)
    # Never all of them: only what is between messages has a size that nobody knows.
    wanted = sorted({0, len(sizes) - 1, *range(3, len(sizes), 5)})

    assert filled(serve(wanted[::-1], bytes_max), shelf) == wanted


def test_what_is_read_for_nothing_stays_within_bounds() -> None:
    shelf = Shelf([10 if place % 2 else 2000 for place in range(101)])
    wanted = list(range(1, 100, 2))

    assert filled(serve(wanted, 5000), shelf) == wanted
    assert sum(shelf.reads) < 2 * 5000 + 50 * 100


@pytest.mark.parametrize("size", [10, 30_000])
def test_small_messages_between_others_are_delivered_with_their_bytes(size: int) -> None:
    node = shop()
    join(node)
    for _ in range(30):
        publish(node, [BACKGROUND], value=b"b" * size)
        publish(node, [CRITICAL], value=b"c")

    values = sorted((delivery.value or b"")[:1] for delivery in drain(node))
    assert values == [b"b"] * 30 + [b"c"] * 30
