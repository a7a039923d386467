"""What was published, and where it stands: the judge of every message that can be read.

Each message has a value of its own, so one that is read tells where it came from. A topic that was
deleted and made again is another topic here; what it holds of the first is a violation.
"""

import enum

import msgspec

from goqueue.model import Record
from goqueue.sim.oracle import Violation

__all__ = [
    "Fate",
    "Ledger",
    "MessageTruth",
    "Place",
    "TopicTruth",
    "is_copy",
    "redriven_from",
]

_PREFIX = "goqueue.dlq."
_REDRIVEN = _PREFIX + "redriven-from"


class Fate(enum.Enum):
    """What a producer knows of a message."""

    UNKNOWN = "unknown"
    TAKEN = "taken"
    REFUSED = "refused"


class Place(msgspec.Struct, frozen=True, order=True):
    """An offset of a partition."""

    partition: int
    offset: int


class TopicTruth:
    """One topic, from its making to its end."""

    def __init__(self, name: str, number: int, partitions: int, *, holds_letters: bool) -> None:
        self.name = name
        self.number = number
        self.partitions = partitions
        self.holds_letters = holds_letters
        # What is acknowledged is in the page cache alone, for a while.
        self.is_loose = False
        # Old messages go when there are too many.
        self.retires = False
        self.is_leaving = False
        self.is_gone = False
        # Every limit and visibility that it had or may have had; a limit of 0 is none.
        self.limits: dict[int, None] = {}
        self.visibilities_ns: dict[int, None] = {}
        self.places: dict[Place, int] = {}
        self.keys: dict[tuple[int, bytes], list[int]] = {}

    @property
    def limit_max(self) -> int | None:
        """No message is delivered more often; None: there is no limit."""
        return None if self.holds_letters or 0 in self.limits else max(self.limits, default=None)

    @property
    def limit_min(self) -> int | None:
        limits = [limit for limit in self.limits if limit]
        return None if self.holds_letters else min(limits, default=None)


class MessageTruth:
    """One message as its producer knows it."""

    def __init__(self, serial: int, value: bytes, key: bytes, topic: TopicTruth) -> None:
        self.serial = serial
        self.value = value
        self.key = key
        self.topic = topic
        self.fate = Fate.UNKNOWN
        self.place: Place | None = None


class Ledger:
    """Every topic and every message that ever was."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTruth] = {}
        self._messages: dict[int, MessageTruth] = {}
        self._topic_count = 0

    # Topics

    def topic_made(self, name: str, partitions: int, *, holds_letters: bool = False) -> TopicTruth:
        self._topic_count += 1
        topic = TopicTruth(name, self._topic_count, partitions, holds_letters=holds_letters)
        self.topics[name] = topic
        return topic

    def topic_gone(self, topic: TopicTruth) -> None:
        topic.is_gone = True
        if self.topics.get(topic.name) is topic:
            del self.topics[topic.name]

    # Messages

    def publishing(self, value: bytes, key: bytes, topic: TopicTruth) -> MessageTruth:
        serial = len(self._messages) + 1
        message = MessageTruth(serial, b"%d:" % serial + value, key, topic)
        self._messages[serial] = message
        return message

    def taken(self, message: MessageTruth, place: Place) -> None:
        """A producer was told that its message is committed here."""
        self._put(message.topic, place, message)
        message.fate = Fate.TAKEN

    def _put(self, topic: TopicTruth, place: Place, message: MessageTruth) -> None:
        known = topic.places.setdefault(place, message.serial)
        if known != message.serial:
            raise Violation(
                "two-values-at-one-offset",
                f"{topic.name} {place}: {known} and {message.serial}",
            )
        if message.place not in {None, place}:
            raise Violation("published-twice", f"{message.serial} at {message.place} and {place}")
        if message.place is None:
            self._note_key(topic, place, message)
        message.place = place

    def _note_key(self, topic: TopicTruth, place: Place, message: MessageTruth) -> None:
        if message.key:
            topic.keys.setdefault((place.partition, message.key), []).append(place.offset)

    def check_record(self, topic: TopicTruth, partition: int, record: Record) -> MessageTruth:
        """Judge a message that somebody got; from now on it must stay where it is."""
        place = Place(partition, record.offset)
        serial = int((record.value or b"0").partition(b":")[0])
        message = self._messages.get(serial)
        if message is None or message.value != record.value or message.key != record.key:
            raise Violation("never-published", f"{topic.name} {place}: {record.value!r}")
        if is_copy(record):
            self._check_copy(topic, place, message)
            return message
        if message.topic is not topic:
            raise Violation(
                "message-in-wrong-topic",
                f"{serial} was published to {message.topic.name} #{message.topic.number},"
                f" not to {topic.name} #{topic.number}",
            )
        if message.fate is Fate.REFUSED:
            raise Violation("refused-message-visible", f"{serial} at {topic.name} {place}")
        self._put(topic, place, message)
        return message

    def _check_copy(self, topic: TopicTruth, place: Place, message: MessageTruth) -> None:
        known = topic.places.get(place)
        if known is None:
            topic.places[place] = message.serial
            self._note_key(topic, place, message)
        elif known != message.serial:
            raise Violation(
                "two-values-at-one-offset", f"{topic.name} {place}: {known}, {message.serial}"
            )

    def check_partition(
        self, topic: TopicTruth, partition: int, records: list[Record], start: int
    ) -> None:
        """Judge all that can be read of a partition: nothing that was promised is missing."""
        for record in records:
            self.check_record(topic, partition, record)
        if start and not topic.retires:
            raise Violation("log-starts-late", f"{topic.name}-{partition} at {start}")
        there = {record.offset for record in records}
        for place, serial in topic.places.items():
            is_here = place.partition == partition and place.offset >= start
            if is_here and place.offset not in there:
                raise Violation("committed-message-lost", f"{serial} of {topic.name} {place}")

    def lost(self, topic: TopicTruth, ends: list[int]) -> None:
        """The power went: what a loose topic had from these offsets on may be gone."""
        for place in [each for each in topic.places if each.offset >= ends[each.partition]]:
            message = self._messages[topic.places.pop(place)]
            if message.topic is topic and message.place == place:
                message.place = None
                message.fate = Fate.REFUSED
        for (partition, _), offsets in topic.keys.items():
            offsets[:] = [offset for offset in offsets if offset < ends[partition]]

    def before(self, topic: TopicTruth, partition: int, offset: int, key: bytes) -> list[int]:
        """The known offsets before this one that hold the same key."""
        return [each for each in topic.keys.get((partition, key), ()) if each < offset]


def is_copy(record: Record) -> bool:
    """Whether the node made this record itself: a dead letter, or one that was put back."""
    return any(name.startswith(_PREFIX) for name, _ in record.headers)


def redriven_from(record: Record) -> str | None:
    """The letter that this record was, if it was put back."""
    return next((value.decode() for name, value in record.headers if name == _REDRIVEN), None)
