"""The judge of dead letters: each death leaves one dead letter, and each is redriven at most once.

A *death* is a message that a group rejected or that was delivered to it too often. Dead letters are
matched to deaths by the headers that the node gives them, and redriven copies to dead letters by
theirs.
"""

from collections.abc import Callable

import msgspec

from goqueue.model import Record
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import TopicTruth, redriven_from

__all__ = ["DeadLetterTruth", "Death", "Origin"]

# A copy on purpose: an oracle does not ask the broker how it spells a header.
_PREFIX = "goqueue.dlq."
_CAUSES = ("rejected", "max_deliveries")


class Death(msgspec.Struct, frozen=True):
    """A message that died for a group: its position, and the serial number in its value."""

    topic: str
    partition: int
    offset: int
    group: str
    serial: int


class Origin(msgspec.Struct, frozen=True):
    """A partition as one group consumes it: where messages die."""

    topic: str
    partition: int
    group: str


class _Spot(msgspec.Struct, frozen=True):
    """The position of a record; `number` tells topics of the same name apart."""

    name: str
    number: int
    partition: int
    offset: int


class DeadLetterTruth:
    """What is known of deaths, dead letters and redriven copies."""

    def __init__(self) -> None:
        # Whether each confirmation of a death still counts.
        self._confirmed: dict[Death, list[Callable[[], bool]]] = {}
        # How many more deaths resets allow.
        self._again: dict[Origin, int] = {}
        self._found: dict[Death, dict[_Spot, None]] = {}
        # Where the redriven copy of each dead letter is, by the dead letter's position.
        self._copies: dict[str, _Spot] = {}
        # How many topics of this name were deleted.
        self._namesakes: dict[str, int] = {}
        self.is_strict = True

    def confirmed(self, death: Death, is_current: Callable[[], bool]) -> None:
        """A client was told that a message is a dead letter.

        `is_current` becomes false when its topic or its group is deleted.
        """
        self._confirmed.setdefault(death, []).append(is_current)

    @property
    def origins(self) -> list[str]:
        """The topics with confirmed deaths."""
        return sorted({death.topic for death in self._confirmed})

    def may_die_again(self, origin: Origin) -> None:
        """A reset, or a group created again, may deliver dead messages once more."""
        self._again[origin] = self._again.get(origin, 0) + 1

    def topic_gone(self, name: str) -> None:
        """A dead letter may be redriven into a new topic of this name, and die there again."""
        self._namesakes[name] = self._namesakes.get(name, 0) + 1

    def lost(self, topic: TopicTruth, ends: list[int]) -> None:
        """Power loss took redriven copies: their dead letters may be redriven once more."""
        for dead_letter, spot in list(self._copies.items()):
            if spot.number == topic.number and spot.offset >= ends[spot.partition]:
                del self._copies[dead_letter]

    def is_dead(self, death: Death) -> bool:
        return death in self._found

    def seen(self, topic: TopicTruth, partition: int, record: Record) -> None:
        """Judge a record that the node wrote: a dead letter, or a redriven copy of one."""
        place = _Spot(topic.name, topic.number, partition, record.offset)
        redriven = redriven_from(record)
        if not topic.holds_dead_letters:
            if redriven is not None:
                self._check_copy(redriven, place)
            return
        facts = {
            name.removeprefix(_PREFIX): value.decode()
            for name, value in record.headers
            if name.startswith(_PREFIX)
        }
        if facts.get("cause") not in _CAUSES or "group" not in facts:
            raise Violation("dead-letter-without-origin", f"{place}: {facts}")
        death = Death(
            facts["topic"],
            int(facts["partition"]),
            int(facts["offset"]),
            facts["group"],
            int((record.value or b"0").partition(b":")[0]),
        )
        self._found.setdefault(death, {})[place] = None
        allowed = 1 + self._again.get(Origin(death.topic, death.partition, death.group), 0)
        allowed += self._namesakes.get(death.topic, 0)
        if self.is_strict and len(self._found[death]) > allowed:
            raise Violation("two-dead-letters-for-one-death", f"{death}: {self._found[death]}")

    def _check_copy(self, dead_letter: str, place: _Spot) -> None:
        known = self._copies.setdefault(dead_letter, place)
        if self.is_strict and known != place:
            raise Violation(
                "dead-letter-redriven-twice", f"{dead_letter} is at {known} and at {place}"
            )

    def check(self) -> None:
        """Everything was read: every confirmed death must have left its dead letter."""
        for death, confirmations in self._confirmed.items():
            count = sum(is_current() for is_current in confirmations)
            if self.is_strict and len(self._found.get(death, ())) < count:
                raise Violation("death-without-dead-letter", f"{death}: {count} times")
