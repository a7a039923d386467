"""Where leased messages stand in the log, and how their bytes get into the answer.

Messages of several lanes alternate in the log: a read for each would be one for nearly each
message. So messages that are near each other are read together with what is between them, and
whoever gets the bytes picks out what was leased.

Invariant: every message is in a slice or lost, and a slice begins with a message that is wanted.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import sub

import msgspec

from goqueue.log import Log
from goqueue.model import Code, Offset, Refused, Serve, Slice
from goqueue.model.requests import Leased, Parcel, Records, Reply
from goqueue.records import last_offset

__all__ = ["Spans", "fill", "find_spans"]

# Messages with fewer offsets between them are read in one.
_GAP_MAX = 128
_SPAN_BYTES_MAX = 1024 * 1024


class Spans(msgspec.Struct, frozen=True):
    """What to read, and which messages cannot be read any more."""

    slices: tuple[Slice, ...]
    lost: list[int]


def find_spans(log: Log, offsets: Sequence[int], sizes: dict[int, int]) -> Spans:
    """Where messages stand of which the sorted offsets and the sizes are given."""
    steps = list(map(sub, offsets[1:], offsets))
    ends = [len(offsets)]
    if steps and max(steps) > _GAP_MAX:
        ends = [place for place, step in enumerate(steps, 1) if step > _GAP_MAX] + ends
    slices: list[Slice] = []
    lost: list[int] = []
    place = 0
    for end in ends:
        while place < end:
            found = _find_span(log, offsets[place:end], sizes)
            if found is None:
                lost.append(offsets[place])
                place += 1
            else:
                slices.append(found)
                # A read ends with its segment.
                place = bisect_left(offsets, found.below, place)
    return Spans(tuple(slices), lost)


def _find_span(log: Log, offsets: Sequence[int], sizes: dict[int, int]) -> Slice | None:
    """A slice from the first of these messages on; None if that one cannot be read."""
    first, below = offsets[0], offsets[-1] + 1
    size = sum(map(sizes.__getitem__, offsets))
    if below - first > len(offsets):
        # How large the records between are is not known: a quarter larger than the others.
        between = 5 * size * (below - first - len(offsets)) // (4 * len(offsets))
        size = min(size + between, max(size, _SPAN_BYTES_MAX))
    try:
        return log.read(Offset(first), size, below=Offset(below))
    except Refused:
        # The first of them is damaged; the others are asked for by themselves.
        return None


def fill(effect: Serve, read: Callable[[Slice], memoryview]) -> Reply:
    """The reply with the bytes that belong to it; raises what `read` does.

    Damage in one partition does not silence the others: a poll gets what can be read. The leases on
    the rest run out, and what is damaged is passed over the next time.
    """
    reply = effect.reply
    if isinstance(reply, Leased):
        parcels: list[Parcel] = []
        damage: Refused | None = None
        for parcel, run in zip(reply.parcels, effect.runs, strict=True):
            try:
                data = _read_all(run, parcel.offsets, read)
            except Refused as refused:
                if refused.code is not Code.RECORDS_DAMAGED:
                    raise
                damage = refused
            else:
                parcels.append(msgspec.structs.replace(parcel, data=data))
        if damage is not None and not parcels:
            raise damage
        return msgspec.structs.replace(reply, parcels=tuple(parcels))
    assert isinstance(reply, Records)
    return msgspec.structs.replace(reply, data=tuple(read(each) for each in effect.runs[0]))


def _read_all(
    run: Sequence[Slice], offsets: Sequence[int], read: Callable[[Slice], memoryview]
) -> tuple[memoryview, ...]:
    """The records of these slices, at least those with these offsets."""
    if sum(wanted.below - wanted.offset for wanted in run) == len(offsets):
        # Nothing is between them, so their size was known.
        return tuple(read(wanted) for wanted in run)
    return tuple(piece for wanted in run for piece in _read_span(wanted, offsets, read))


def _read_span(
    wanted: Slice, offsets: Sequence[int], read: Callable[[Slice], memoryview]
) -> list[memoryview]:
    """One slice, in as many reads as it takes if what is between was larger than expected."""
    pieces = [read(wanted)]
    reached = last_offset(pieces[0]) + 1
    if reached >= wanted.below:
        return pieces
    missing = sorted(offset for offset in offsets if wanted.offset < offset < wanted.below)
    place = bisect_left(missing, reached)
    while reached and place < len(missing):
        # A read brings one record at least. To ask for less and less keeps what is read for
        # nothing within bounds, however large that is.
        wanted = msgspec.structs.replace(
            wanted, offset=Offset(missing[place]), bytes_max=max(1, wanted.bytes_max // 2)
        )
        pieces.append(read(wanted))
        reached = last_offset(pieces[-1]) + 1
        place = max(place + 1, bisect_left(missing, reached))
    return pieces
