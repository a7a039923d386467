"""What of the records that were read belongs to aborted transactions.

Owns the ranges that a reader of committed messages leaves out, and how many of them go along with
stored bytes. Never decides which transaction was aborted: the broker's answer says it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from goqueue.model.requests import Records
from goqueue.records import last_offset, walk

__all__ = ["AbortedRanges", "Portion", "portion_of"]

# They travel in a header, which few accept at any length: with offsets of ten digits this many
# stay below six kilobytes.
_RANGES_MAX = 250


class AbortedRanges:
    """Ranges of offsets, each from its first to the one after its last; in order, none touches."""

    __slots__ = ("_firsts", "_followings")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._firsts: list[int] = []
        self._followings: list[int] = []
        for first, following in sorted(ranges):
            if self._followings and first <= self._followings[-1]:
                self._followings[-1] = max(following, self._followings[-1])
            else:
                self._firsts.append(first)
                self._followings.append(following)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset < self._followings[index]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """All of them, in order."""
        return list(zip(self._firsts, self._followings, strict=True))

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges that have offsets from `start` on and before `end`."""
        first = bisect_right(self._followings, start)
        after = bisect_left(self._firsts, end)
        return list(zip(self._firsts[first:after], self._followings[first:after], strict=True))


class Portion(msgspec.Struct, frozen=True):
    """Stored records for one answer, where to go on, and what to leave out of them."""

    pieces: tuple[memoryview, ...]
    next_offset: int
    aborted: list[tuple[int, int]]


def portion_of(records: Records) -> Portion:
    """The records that were read; fewer, where more ranges would have to go along than can."""
    pieces = tuple(piece for piece in records.data if len(piece))
    following = last_offset(pieces[-1]) + 1 if pieces else int(records.upto)
    if not records.aborted or not pieces:
        return Portion(pieces, following, [])
    aborted = AbortedRanges(records.aborted).within(records.offset, following)
    if len(aborted) <= _RANGES_MAX:
        return Portion(pieces, following, aborted)
    # Before the first range that finds no room there are others, so something is left.
    cut_at = aborted[_RANGES_MAX][0]
    return Portion(_before(pieces, cut_at), cut_at, aborted[:_RANGES_MAX])


def _before(pieces: tuple[memoryview, ...], offset: int) -> tuple[memoryview, ...]:
    """The records of these pieces that are before an offset."""
    kept = []
    for piece in pieces:
        if last_offset(piece) < offset:
            kept.append(piece)
            continue
        columns = walk(piece)
        index = bisect_left(columns.offsets, offset)
        if index:
            kept.append(piece[: columns.positions[index]])
        break
    return tuple(kept)
