"""How far one group has come on one partition: the part of delivery that survives every crash.

Owns what is settled, how often each unsettled message was delivered, why it was nacked, and what
open transactions hold. Changed only by what the journal says, so the live path and recovery are one
path. Leases are not here: they do not survive.

Invariant: the floor never falls except by a reset, and no offset that is settled has a count.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import TypeVar

import msgspec

from goqueue.delivery.ranges import Ranges, Stretch
from goqueue.model import Offset, Range, Timestamp, TransactionKey

__all__ = [
    "REASON_BYTES_MAX",
    "Checkpoint",
    "Position",
    "PositionStated",
    "TransactionHolds",
    "cut_reason",
]


class TransactionHolds:
    """Offsets by who holds them."""

    def __init__(self) -> None:
        self._held: dict[TransactionKey, list[Range]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, offset: int) -> bool:
        return any(_is_within(ranges, offset) for ranges in self._held.values())

    def has(self, holder: TransactionKey, offset: int) -> bool:
        """Whether it is this one that holds an offset."""
        return _is_within(self._held.get(holder, []), offset)

    def add(self, holder: TransactionKey, ranges: Iterable[Range]) -> None:
        """Hold these, too."""
        held = self._held.setdefault(holder, [])
        for each in ranges:
            _merge(held, *each)

    def remove(self, holder: TransactionKey) -> None:
        """The transaction has ended: it holds nothing any longer."""
        self._held.pop(holder, None)


def _merge(ranges: list[Range], first: int, following: int) -> None:
    """Take one more into sorted ranges that neither overlap nor touch."""
    if first >= following:
        return
    low = bisect_left(ranges, (first, first))
    if low and ranges[low - 1][1] >= first:
        low -= 1
    high = low
    while high < len(ranges) and ranges[high][0] <= following:
        high += 1
    if low < high:
        first = min(first, ranges[low][0])
        following = max(following, ranges[high - 1][1])
    ranges[low:high] = [(first, following)]


def _is_within(ranges: list[Range], offset: int) -> bool:
    """Whether one of the sorted ranges, which do not overlap, has it."""
    index = bisect_right(ranges, (offset, 1 << 63)) - 1
    return index >= 0 and offset < ranges[index][1]


V = TypeVar("V")

# Every message that was given back keeps one: as long as a sentence, and no longer.
REASON_BYTES_MAX = 256
# One piece of a statement has at most so many counts, or so many blocks of what is settled, or half
# as many reasons: less than 1 MiB of JSON however long and strange the reasons are.
_PIECE_MAX = 1000
# So many dead letters of a group and partition are known as such.
_DEAD_LETTERS_MAX = 1000


def cut_reason(reason: str, bytes_max: int = REASON_BYTES_MAX) -> str:
    """The beginning of a reason, in at most so many bytes of UTF-8."""
    if len(reason) * 4 <= bytes_max:
        return reason
    octets = reason.encode("utf-8", "replace")
    return reason if len(octets) <= bytes_max else octets[:bytes_max].decode("utf-8", "ignore")


class PositionStated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A position in full, or a piece of one that was begun before.

    What is settled above the floor is in ranges, or scattered, or both.
    """

    floor: int
    settled: list[Range] = []
    attempts: list[Range] = []
    reasons: list[tuple[int, str]] = []
    updated_at: int = 0
    scattered: list[Stretch] = []
    # The last that became dead letters.
    buried: list[int] = []
    # What the commit said that put the floor where it is.
    metadata: str = ""


class Checkpoint:
    """A moment that positions can be asked about later: see `Position.stated_at_checkpoint`.

    Shared by all positions of a node, so that taking one costs nothing per position: each keeps
    what it was when it is first changed afterwards.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def take(self) -> None:
        """What positions are now is what they are asked for, until the next call."""
        self.number += 1


class Position:
    """The durable place of one group in one partition."""

    def __init__(
        self, floor: int, updated_at: int = 0, checkpoint: Checkpoint | None = None
    ) -> None:
        # Counted from the last checkpoint that this knew of, or was made after.
        self._checkpoint = Checkpoint() if checkpoint is None else checkpoint
        self._kept_at = self._checkpoint.number
        self._kept: PositionStated | None = None
        self._done = Ranges(floor)
        self._attempts: dict[int, int] = {}
        # On their way to the dead letters in this life: what a crash cuts short begins anew. A
        # commit past one of them does not call it back.
        self._dead_lettering: dict[int, None] = {}
        self._reasons: dict[int, str] = {}
        # Settled by becoming a dead letter, the last of them: nobody may claim to have done them.
        self._dead_letters: dict[int, None] = {}
        self._updated_at = updated_at
        self._metadata = ""
        # What open transactions hold, wherever the position is put meanwhile.
        self.holds = TransactionHolds()

    def _keep(self) -> None:
        """Before the first change behind a checkpoint: remember what was stated there."""
        self._kept_at = self._checkpoint.number
        self._kept = self.stated if self.says_something else None

    def stated_at_checkpoint(self) -> PositionStated | None:
        """All that there was to say at the last checkpoint, once; None if there was nothing."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        kept, self._kept = self._kept, None
        return kept

    def restore(self, stated: PositionStated) -> None:
        """Become what was stated, whatever this was before."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        self._done = Ranges(stated.floor, stated.settled, stated.scattered)
        self._attempts = dict(stated.attempts)
        self._dead_lettering = {}
        self._reasons = {place: cut_reason(said) for place, said in stated.reasons}
        self._dead_letters = dict.fromkeys(stated.buried)
        self._updated_at = stated.updated_at
        self._metadata = stated.metadata

    def add(self, piece: PositionStated) -> None:
        """Take in a further piece of a statement; what is settled by now stays so."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        before = self._done.floor
        self._done.raise_floor(piece.floor)
        if piece.metadata or self._done.floor > before:
            self._metadata = piece.metadata
        self._done.add_stated(piece.settled, piece.scattered)
        if self._done.floor > before or piece.settled or piece.scattered:
            self._forget_done()
        self._attempts.update(each for each in piece.attempts if each[0] not in self._done)
        for place, said in piece.reasons:
            self.record_reason(place, said)
        self.record_dead_letters(piece.buried)
        self._updated_at = max(self._updated_at, piece.updated_at)

    @property
    def stated(self) -> PositionStated:
        """All of it at once, however much that is."""
        above, scattered = self._done.stated_blocks(self._done.block_numbers)
        return PositionStated(
            floor=self._done.floor,
            settled=above,
            attempts=list(self._attempts.items()),
            reasons=list(self._reasons.items()),
            updated_at=self._updated_at,
            scattered=scattered,
            buried=list(self._dead_letters),
            metadata=self._metadata,
        )

    @property
    def is_small(self) -> bool:
        """Whether all of it is no larger than one piece."""
        are_few = len(self._attempts) <= _PIECE_MAX and len(self._reasons) <= _PIECE_MAX // 2
        return are_few and self._done.block_count <= _PIECE_MAX

    def state(self, piece_max: int = _PIECE_MAX) -> Iterator[PositionStated]:
        """All of it in pieces of bounded size, each to be added to what is known.

        Each tells what is true when it is asked for, so the position may change between two of
        them, if what changed is told in the same order, too. None of them takes anything back: a
        crash may leave only the first.
        """
        reasons_max = max(1, piece_max // 2)
        yield PositionStated(
            floor=self._done.floor,
            updated_at=self._updated_at,
            buried=list(self._dead_letters),
            metadata=self._metadata,
        )
        for blocks in _portions(self._done.block_numbers, piece_max):
            above, scattered = self._done.stated_blocks(blocks)
            yield PositionStated(floor=self._done.floor, settled=above, scattered=scattered)
        for places in _portions(list(self._attempts), piece_max):
            attempts = [(each, self._attempts[each]) for each in places if each in self._attempts]
            yield PositionStated(floor=self._done.floor, attempts=attempts)
        for places in _portions(list(self._reasons), reasons_max):
            reasons = [(each, self._reasons[each]) for each in places if each in self._reasons]
            yield PositionStated(floor=self._done.floor, reasons=reasons)

    @property
    def floor(self) -> Offset:
        """The committed offset: the lowest that is not settled."""
        return self._done.floor

    def done(self) -> Ranges:
        """What is settled, for somebody who goes on from there by himself."""
        return self._done.copy()

    @property
    def updated_at(self) -> Timestamp:
        return Timestamp(self._updated_at)

    @property
    def metadata(self) -> str:
        """What the last commit said about the offset, if nothing moved it since."""
        return self._metadata

    def record_metadata(self, floor: int, metadata: str) -> None:
        """Remember what a commit said, unless the position is further by now."""
        if floor == self._done.floor:
            self._metadata = metadata

    @property
    def says_something(self) -> bool:
        """Whether it is more than a place to start from."""
        return bool(self._updated_at or self._attempts or self._done.count_above)

    def settled_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are settled."""
        return self._done.count_within(first, end)

    def missing_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are not settled."""
        return self._done.missing_within(first, end)

    def has_settled(self, offset: int) -> bool:
        return offset in self._done

    def is_over(self, offset: int) -> bool:
        """Whether nobody gets this message any more: it is settled, or on its way to be dead."""
        return self.is_dead_lettering(offset) or self.has_settled(offset)

    def was_dead_lettered(self, offset: int) -> bool:
        """Whether a message became a dead letter; of very many, only the last are known."""
        return offset in self._dead_letters

    def record_dead_letters(self, offsets: Sequence[int]) -> None:
        """Remember that messages, settled by that, became dead letters."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        self._dead_letters.update(dict.fromkeys(offsets))
        while len(self._dead_letters) > _DEAD_LETTERS_MAX:
            del self._dead_letters[next(iter(self._dead_letters))]

    def reason_of(self, offset: int) -> str:
        """What the last nack of a message said, if it said something."""
        return self._reasons.get(offset, "")

    @property
    def has_dead_lettering(self) -> bool:
        """Whether any message is on its way to the dead letters."""
        return bool(self._dead_lettering)

    def is_dead_lettering(self, offset: int) -> bool:
        """Whether a message is on its way to the dead letters."""
        return offset in self._dead_lettering

    def has_attempts_of(self, offsets: Iterable[int]) -> bool:
        """Whether one of these messages was delivered before."""
        return bool(self._attempts) and not self._attempts.keys().isdisjoint(offsets)

    def attempts_of(self, offset: int) -> int:
        """How often a message was delivered so far."""
        return self._attempts.get(offset, 0)

    def settle(self, floor: int, settled: Sequence[int], at: int) -> None:
        """Remember what will not be delivered again, in order; a lower floor changes nothing."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        before = self._done.floor
        self._done.add_all(settled)
        passed = range(self._done.floor, floor)
        self._done.raise_floor(floor)
        if self._metadata and self._done.floor > before:
            self._metadata = ""
        _forget(self._attempts, settled)
        _forget(self._dead_lettering, settled)
        _forget(self._reasons, settled)
        if passed:
            self._forget_passed(passed)
        self._updated_at = max(self._updated_at, at)

    def _forget_passed(self, passed: range) -> None:
        """The floor passed offsets that were not named: a commit, or messages that are gone."""
        # Mostly a few, over a marker: what is unsettled elsewhere is then not looked at.
        self._attempts = _kept_above(self._attempts, passed)
        self._reasons = _kept_above(self._reasons, passed)

    def _forget_done(self) -> None:
        """Much was taken in at once: what is settled has no count and no reason."""
        attempts, reasons = self._attempts, self._reasons
        self._attempts = {each: n for each, n in attempts.items() if each not in self._done}
        self._reasons = {each: said for each, said in reasons.items() if each not in self._done}

    def record_reason(self, offset: int, reason: str) -> None:
        """Remember why a message was given back the last time; no reason takes the last one out."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        if not reason:
            self._reasons.pop(offset, None)
        elif offset not in self._done:
            self._reasons[offset] = cut_reason(reason)

    def begin_dead_lettering(self, offset: int) -> None:
        """The message leaves for the dead letters: it is not delivered again, nor settled yet."""
        if offset not in self._done:
            self._dead_lettering[offset] = None

    def cancel_dead_lettering(self, offset: int) -> None:
        """The message stays after all, and may be delivered again."""
        self._dead_lettering.pop(offset, None)

    def cut(self, end: int) -> bool:
        """Forget what is at or beyond `end`: the log lost it. Whether there was something."""
        if self._kept_at != self._checkpoint.number:
            self._keep()
        self._dead_lettering = {place: None for place in self._dead_lettering if place < end}
        self._dead_letters = {place: None for place in self._dead_letters if place < end}
        kept = (*self._attempts, *self._reasons)
        furthest = max(self._done.end, max(kept, default=-1) + 1)
        if furthest <= end:
            return False
        self._done.cut(end)
        self._attempts = {place: n for place, n in self._attempts.items() if place < end}
        self._reasons = {place: said for place, said in self._reasons.items() if place < end}
        return True

    def unsettled(self, offsets: Sequence[int]) -> Sequence[int]:
        """Those of the sorted offsets that are not settled."""
        return self._done.missing(offsets)

    def count_delivery(self, attempt: int, delivered: Sequence[int]) -> None:
        """Remember that these, all unsettled, were delivered for the `attempt`-th time.

        Counts fall only by a release of the lease that counted it.
        """
        if self._kept_at != self._checkpoint.number:
            self._keep()
        if self._attempts.keys().isdisjoint(delivered):
            self._attempts.update(dict.fromkeys(delivered, attempt))
            return
        for offset in delivered:
            if attempt > self._attempts.get(offset, 0):
                self._attempts[offset] = attempt

    def release_delivery(self, attempt: int, released: Sequence[int]) -> None:
        """Forget that these, all unsettled, were delivered for the `attempt`-th time.

        Where another delivery was counted since, a snapshot knew of it: its count stays.
        """
        if self._kept_at != self._checkpoint.number:
            self._keep()
        for offset in released:
            if self._attempts.get(offset) != attempt:
                continue
            if attempt > 1:
                self._attempts[offset] = attempt - 1
            else:
                del self._attempts[offset]


def _kept_above(kept: dict[int, V], passed: range) -> dict[int, V]:
    """What is kept of offsets that the floor has not passed; there is nothing before those."""
    if len(kept) <= len(passed):
        return {place: value for place, value in kept.items() if place >= passed.stop}
    for place in passed:
        kept.pop(place, None)
    return kept


def _forget(kept: dict[int, V], settled: Sequence[int]) -> None:
    if kept:
        # Hundreds at a time where a lease is scattered: this is twice as fast as a loop.
        deque(map(kept.pop, settled, repeat(None)), maxlen=0)


def _portions(places: Sequence[int], count: int) -> Iterator[list[int]]:
    rest = iter(places)
    while portion := list(islice(rest, count)):
        yield portion
