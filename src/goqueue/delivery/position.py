"""How far one group has come on one partition: what survives every crash.

Owns what is settled and how often each unsettled message was delivered. Changed only by what the
journal says, so the live path and recovery are one path; leases are not here, they do not survive.

Invariant: the floor never falls except by a reset, and no offset that is settled has a count.
"""

from collections.abc import Iterable, Sequence

import msgspec

from goqueue.delivery.ranges import Range, Ranges
from goqueue.model import Offset, Timestamp

__all__ = ["Position", "PositionStated"]


class PositionStated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A position in full."""

    floor: int
    settled: list[Range] = []
    attempts: list[Range] = []
    dying: list[int] = []
    reasons: list[tuple[int, str]] = []
    updated_at: int = 0


class Position:
    """The durable place of one group in one partition."""

    def __init__(self, floor: int, updated_at: int = 0) -> None:
        self._done = Ranges(floor)
        self._attempts: dict[int, int] = {}
        self._dying: dict[int, None] = {}
        self._reasons: dict[int, str] = {}
        self._updated_at = updated_at

    def restore(self, stated: PositionStated) -> None:
        """Become what was stated, whatever this was before."""
        self._done = Ranges(stated.floor, stated.settled)
        self._attempts = dict(stated.attempts)
        self._dying = dict.fromkeys(stated.dying)
        self._reasons = dict(stated.reasons)
        self._updated_at = stated.updated_at

    @property
    def stated(self) -> PositionStated:
        return PositionStated(
            floor=self._done.floor,
            settled=self._done.above,
            attempts=list(self._attempts.items()),
            dying=list(self._dying),
            reasons=list(self._reasons.items()),
            updated_at=self._updated_at,
        )

    @property
    def floor(self) -> Offset:
        """The committed offset: the lowest that is not settled."""
        return self._done.floor

    @property
    def settled(self) -> list[Range]:
        """What is settled above the floor."""
        return self._done.above

    @property
    def updated_at(self) -> Timestamp:
        return Timestamp(self._updated_at)

    @property
    def says_something(self) -> bool:
        """Whether it is more than a place to start from."""
        return bool(self._updated_at or self._attempts or self._dying or self._done.above)

    def settled_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are settled."""
        return self._done.count_within(first, end)

    def has_settled(self, offset: int) -> bool:
        return offset in self._done

    def reason_of(self, offset: int) -> str:
        """What the last nack of a message said, if it said something."""
        return self._reasons.get(offset, "")

    def is_dying(self, offset: int) -> bool:
        """Whether a message is on its way to the dead letters."""
        return offset in self._dying

    def attempts_of(self, offset: int) -> int:
        """How often a message was delivered so far."""
        return self._attempts.get(offset, 0)

    def settle(self, floor: int, settled: Sequence[Range], at: int) -> None:
        """Remember what will not be delivered again; a lower floor changes nothing."""
        for first, following in settled:
            self._done.add(first, following)
        has_gap = floor > self._done.floor
        self._done.raise_floor(floor)
        if self._attempts or self._dying or self._reasons:
            self._forget(settled)
            if has_gap:
                self._forget_below(self._done.floor)
        self._updated_at = max(self._updated_at, at)

    def _forget(self, settled: Sequence[Range]) -> None:
        attempts = self._attempts
        for first, following in settled:
            for offset in range(first, following):
                attempts.pop(offset, None)
                self._dying.pop(offset, None)
                self._reasons.pop(offset, None)

    def _forget_below(self, floor: int) -> None:
        """The floor passed offsets that were not named: a commit, or messages that are gone."""
        attempts, reasons = self._attempts, self._reasons
        self._attempts = {place: count for place, count in attempts.items() if place >= floor}
        self._dying = {place: None for place in self._dying if place >= floor}
        self._reasons = {place: said for place, said in reasons.items() if place >= floor}

    def excuse(self, offset: int, reason: str) -> None:
        """Remember why a message was given back."""
        if offset not in self._done:
            self._reasons[offset] = reason

    def begin_dying(self, offset: int) -> None:
        """The message leaves for the dead letters: it is not delivered again, nor settled yet."""
        if offset not in self._done:
            self._dying[offset] = None

    def end_dying(self, offset: int) -> None:
        """The message stays after all, and may be delivered again."""
        self._dying.pop(offset, None)

    def cut(self, end: int) -> bool:
        """Forget what is at or beyond `end`: the log lost it. Whether there was something."""
        above = self._done.above
        furthest = max(
            self._done.floor,
            above[-1][1] if above else 0,
            *(place + 1 for kept in (self._attempts, self._dying, self._reasons) for place in kept),
        )
        if furthest <= end:
            return False
        clipped = [(first, min(following, end)) for first, following in above if first < end]
        self._done = Ranges(min(self._done.floor, end), clipped)
        self._attempts = {place: n for place, n in self._attempts.items() if place < end}
        self._dying = {place: None for place in self._dying if place < end}
        self._reasons = {place: said for place, said in self._reasons.items() if place < end}
        return True

    def count_delivery(self, attempt: int, delivered: Iterable[Range]) -> None:
        """Remember that these were delivered for the `attempt`-th time. Counts never fall."""
        for first, following in delivered:
            for offset in range(first, following):
                if attempt > self._attempts.get(offset, 0) and offset not in self._done:
                    self._attempts[offset] = attempt
