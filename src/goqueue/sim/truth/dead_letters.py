"""Deaths and dead letters: each death leaves one dead letter, and each is redriven at most once."""

from collections.abc import Callable

import msgspec

from goqueue.model import Record
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import TopicTruth, redriven_from

__all__ = ["Death", "Letters", "Origin"]

# A copy on purpose: an oracle does not ask the broker how it spells a header.
_PREFIX = "goqueue.dlq."
_CAUSES = ("rejected", "max_deliveries")


class Death(msgspec.Struct, frozen=True):
    """A message that died for a group: where it stood, and what it was."""

    topic: str
    partition: int
    offset: int
    group: str
    serial: int


class Origin(msgspec.Struct, frozen=True):
    """Where messages die: a partition, for a group."""

    topic: str
    partition: int
    group: str


class _Spot(msgspec.Struct, frozen=True):
    """Where a copy stands; the number is that of the topic."""

    name: str
    number: int
    partition: int
    offset: int


class Letters:
    """What is known of the dead."""

    def __init__(self) -> None:
        self._confirmed: dict[Death, list[Callable[[], bool]]] = {}
        self._again: dict[Origin, int] = {}
        self._letters: dict[Death, dict[_Spot, None]] = {}
        self._copies: dict[str, _Spot] = {}
        self._namesakes: dict[str, int] = {}
        self.is_strict = True

    def confirmed(self, death: Death, is_current: Callable[[], bool]) -> None:
        """Somebody was told that a message is among the dead letters.

        That is worth nothing any more when its topic or its group is deleted.
        """
        self._confirmed.setdefault(death, []).append(is_current)

    @property
    def origins(self) -> list[str]:
        """The topics of which somebody was told that messages died."""
        return sorted({death.topic for death in self._confirmed})

    def may_die_again(self, origin: Origin) -> None:
        """A reset, or a group made again, lets messages be delivered that were dead."""
        self._again[origin] = self._again.get(origin, 0) + 1

    def topic_gone(self, name: str) -> None:
        """A letter may be put back into the namesake of a topic, and die there again."""
        self._namesakes[name] = self._namesakes.get(name, 0) + 1

    def lost(self, topic: TopicTruth, ends: list[int]) -> None:
        """The power took letters that were put back: they may be put back once more."""
        for letter, spot in list(self._copies.items()):
            if spot.number == topic.number and spot.offset >= ends[spot.partition]:
                del self._copies[letter]

    def is_dead(self, death: Death) -> bool:
        return death in self._letters

    def seen(self, topic: TopicTruth, partition: int, record: Record) -> None:
        """A record that the node made: a letter, or a letter that was put back."""
        place = _Spot(topic.name, topic.number, partition, record.offset)
        letter = redriven_from(record)
        if not topic.holds_letters:
            if letter is not None:
                self._put_back(letter, place)
            return
        facts = {
            name.removeprefix(_PREFIX): value.decode()
            for name, value in record.headers
            if name.startswith(_PREFIX)
        }
        if facts.get("cause") not in _CAUSES or "group" not in facts:
            raise Violation("letter-without-origin", f"{place}: {facts}")
        death = Death(
            facts["topic"],
            int(facts["partition"]),
            int(facts["offset"]),
            facts["group"],
            int((record.value or b"0").partition(b":")[0]),
        )
        self._letters.setdefault(death, {})[place] = None
        allowed = 1 + self._again.get(Origin(death.topic, death.partition, death.group), 0)
        allowed += self._namesakes.get(death.topic, 0)
        if self.is_strict and len(self._letters[death]) > allowed:
            raise Violation("two-letters-for-one-death", f"{death}: {self._letters[death]}")

    def _put_back(self, letter: str, place: _Spot) -> None:
        known = self._copies.setdefault(letter, place)
        if self.is_strict and known != place:
            raise Violation("letter-redriven-twice", f"{letter} is at {known} and at {place}")

    def check(self) -> None:
        """Everything was read: every confirmed death has left its letter."""
        for death, confirmations in self._confirmed.items():
            count = sum(is_current() for is_current in confirmations)
            if self.is_strict and len(self._letters.get(death, ())) < count:
                raise Violation("death-without-letter", f"{death}: {count} times")
