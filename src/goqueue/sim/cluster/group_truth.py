"""What the consumers of one group in a cluster were told, and what may not be true beside it.

Knows only what clients know: when they asked, when they were answered, and what. A request whose
answer was lost may have had its effect or not, and neither is a violation.

Judged while it runs: a message that was acked is not delivered by a poll that began later;
delivery counts rise; one member holds a message at a time in an epoch of the coordinator; a
committed offset does not fall; a partition has one owner in a generation. At the end: every message
that a publisher was promised was delivered; what was rejected is among the dead letters, once; what
was acked is not.
"""

import msgspec

from goqueue.sim.oracle import Violation

__all__ = ["Delivered", "GroupTruth"]

Place = tuple[int, int]


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """One message in the answer to a poll, in the time of the world.

    `handle` names its lease, `epoch` the coordinator that gave it; it runs until `sure_until` at
    least, unless it is given back.
    """

    place: Place
    attempt: int
    handle: str
    epoch: int
    asked_at: int
    answered_at: int
    sure_until: int


class GroupTruth:
    """The judge of one group."""

    def __init__(self, name: str) -> None:
        self.name = name
        # When each was answered.
        self._acked: dict[Place, int] = {}
        self._rejected: dict[Place, None] = {}
        # Perhaps acked, or rejected: the answer was lost.
        self._maybe: dict[Place, None] = {}
        self._latest: dict[Place, Delivered] = {}
        # Leases that were given back, or may have been.
        self._given_back: dict[tuple[Place, int], None] = {}
        self._owners: dict[tuple[int, Place], str] = {}
        # Committed offsets of a group that reads streams, by partition, and when that was answered.
        self._committed: dict[int, tuple[int, int]] = {}
        self.delivered: dict[Place, None] = {}

    @property
    def acked_total(self) -> int:
        return len(self._acked)

    @property
    def rejected_total(self) -> int:
        return len(self._rejected)

    # Queues

    def deliver(self, delivered: Delivered) -> None:
        """A poll was answered with a message."""
        place = delivered.place
        acked_at = self._acked.get(place)
        if acked_at is not None and delivered.asked_at > acked_at:
            raise Violation("acked is never delivered again", f"{self.name} {place}")
        if place in self._rejected:
            raise Violation("a dead letter is never delivered again", f"{self.name} {place}")
        before = self._latest.get(place)
        if before is not None and delivered.asked_at > before.answered_at:
            self._compare(before, delivered)
        if before is None or delivered.attempt >= before.attempt:
            self._latest[place] = delivered
        self.delivered[place] = None

    def _compare(self, before: Delivered, delivered: Delivered) -> None:
        place = delivered.place
        is_over = (place, before.attempt) in self._given_back
        if delivered.attempt < before.attempt or (
            delivered.attempt == before.attempt and not is_over
        ):
            what = f"{self.name} {place}: {delivered.attempt} after {before.attempt}"
            raise Violation("delivery counts rise", what)
        is_live = delivered.answered_at < before.sure_until and not is_over
        if is_live and delivered.epoch == before.epoch:
            raise Violation("one lease at a time", f"{self.name} {place}")

    def give_back(self, delivered: Delivered) -> None:
        """A lease is about to end before its time."""
        self._given_back[delivered.place, delivered.attempt] = None

    def ask(self, delivered: Delivered) -> None:
        """An ack or a reject is about to be asked for."""
        self.give_back(delivered)
        self._maybe[delivered.place] = None

    def ack(self, delivered: Delivered, now: int) -> None:
        """An ack was confirmed."""
        self._acked.setdefault(delivered.place, now)

    def reject(self, delivered: Delivered) -> None:
        """A reject was confirmed: the message is among the dead letters."""
        if delivered.place in self._acked:
            raise Violation("settled once", f"{self.name} {delivered.place} acked and rejected")
        self._rejected[delivered.place] = None

    def is_settled(self, place: Place) -> bool:
        return place in self._acked or place in self._rejected

    # Members

    def own(self, member: str, generation: int, partitions: list[int]) -> None:
        """A member was told what it owns in a generation."""
        for number in partitions:
            owner = self._owners.setdefault((generation, (number, 0)), member)
            if owner != member:
                what = f"{self.name} {number} in {generation}: {owner} and {member}"
                raise Violation("a partition has one owner", what)

    # Streams

    def commit(self, partition: int, offset: int, now: int) -> None:
        """A commit was confirmed."""
        known, _ = self._committed.get(partition, (0, 0))
        if offset > known:
            self._committed[partition] = (offset, now)

    def describe(self, partition: int, offset: int, asked_at: int) -> None:
        """Where the group stands was asked at some time, and answered."""
        known, committed_at = self._committed.get(partition, (0, 0))
        if asked_at > committed_at and offset < known:
            what = f"{self.name} {partition}: {offset} after {known}"
            raise Violation("a committed offset does not fall", what)

    # The end

    def check_end(self, promised: dict[Place, bytes], dead_letters: dict[Place, int]) -> None:
        """Everything was delivered; dead letters are there once, and nothing else is."""
        for place in promised:
            # The answers of all its deliveries may have been lost.
            if place not in self.delivered and place not in dead_letters:
                raise Violation("every message is delivered", f"{self.name} {place}")
        for place in self._rejected:
            count = dead_letters.get(place, 0)
            if count != 1:
                raise Violation("a dead letter is kept", f"{self.name} {place}: {count}")
        for place, count in dead_letters.items():
            if count > 1:
                raise Violation("a dead letter is there once", f"{self.name} {place}: {count}")
            if place in self._acked:
                raise Violation("acked or dead", f"{self.name} {place} is both")
