"""What was published, and where it is stored: the judge of every message that can be read.

Each message has a value of its own, so one that is read tells where it came from. A topic that was
deleted and created again is another topic here; a message of the first in it is a violation.

A delayed message has two records: a hidden one, which names it, and later an ordinary one, unless
it was cancelled. Both are judged, and so are cancellations. If a cancellation was never answered,
the message may be delivered or not, but the outcome may not change.

The wall clock may be set back, so its present value does not tell what a node has seen. The ledger
keeps how late it ever was since a moment: O(log n) per question, and only times that were not
reached again are kept.
"""

import enum
from bisect import bisect_left

import msgspec

from goqueue.log import cancelled_by
from goqueue.model import Priority, Record
from goqueue.records import Flag
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.transactions import TransactionTruth

__all__ = [
    "DELAYED_FROM",
    "DELIVER_AT",
    "DelayTruth",
    "Fate",
    "Ledger",
    "MessageTruth",
    "Peaks",
    "Place",
    "TopicTruth",
    "is_copy",
    "is_hidden",
    "log_name",
    "number_in",
    "redriven_from",
]


class Place(msgspec.Struct, frozen=True, order=True):
    """An offset of a partition."""

    partition: int
    offset: int


# Copies of names in goqueue.model.wire, on purpose: an oracle that asked the broker how it spells a
# header would not notice another spelling.
DELAYED_FROM = "gq.delayed-from"
DELIVER_AT = "gq.deliver-at"


class DelayTruth:
    """The delay of one message; `moment` is when it was published, as the peaks count."""

    def __init__(self, due: int, moment: int) -> None:
        self.due = due
        self.moment = moment
        # Where its first record stands, which nobody sees; it names the message.
        self.first: Place | None = None
        # Cancellations that were asked for, and of which it is not certain that they failed.
        self.cancels = 0
        self.is_cancelled = False


def number_in(record: Record, name: str) -> int | None:
    """The number in a header, if the header exists."""
    return next((int(value) for header, value in record.headers if header == name), None)


class Peaks:
    """The wall clock of a run, from its beginning."""

    def __init__(self) -> None:
        self._moment = 0
        # The moment and the time of each peak; the times fall.
        self._peaks: list[tuple[int, int]] = []

    @property
    def moment(self) -> int:
        """A mark of the present, for `highest_since`."""
        return self._moment

    def note(self, wall: int) -> None:
        """Record a reading of the clock."""
        self._moment += 1
        while self._peaks and self._peaks[-1][1] <= wall:
            self._peaks.pop()
        self._peaks.append((self._moment, wall))

    def highest_since(self, moment: int) -> int:
        """The highest reading since a mark, inclusive."""
        return self._peaks[bisect_left(self._peaks, (moment,))][1]


# A copy on purpose, as above.
_PREFIX = "goqueue.dlq."
_REDRIVEN = _PREFIX + "redriven-from"


class Fate(enum.Enum):
    """The outcome of a publish, as its producer knows it."""

    UNKNOWN = "unknown"
    TAKEN = "taken"
    REFUSED = "refused"


class TopicTruth:
    """One topic, from its creation to its deletion."""

    def __init__(
        self, name: str, number: int, partitions: int, *, holds_dead_letters: bool
    ) -> None:
        self.name = name
        self.number = number
        self.partitions = partitions
        self.holds_dead_letters = holds_dead_letters
        # What is acknowledged is in the page cache alone, for a while.
        self.is_loose = False
        # Old messages go when there are too many.
        self.retires = False
        self.is_leaving = False
        self.is_gone = False
        # Nobody deletes it, and what is in it is copied no further.
        self.is_kept = False
        # Every limit and visibility that it had or may have had; a limit of 0 is none.
        self.limits: dict[int, None] = {}
        self.visibilities_ns: dict[int, None] = {}
        self.places: dict[Place, int] = {}
        # Where delayed messages wait.
        self.hidden: dict[Place, int] = {}
        self.keys: dict[tuple[int, bytes], list[int]] = {}
        # Where partitions begin at the earliest: the deletion of what was before is durable.
        self.trimmed: dict[int, int] = {}

    @property
    def limit_max(self) -> int | None:
        """The highest limit on deliveries so far; None for no limit."""
        return (
            None if self.holds_dead_letters or 0 in self.limits else max(self.limits, default=None)
        )

    @property
    def limit_min(self) -> int | None:
        limits = [limit for limit in self.limits if limit]
        return None if self.holds_dead_letters else min(limits, default=None)


class MessageTruth:
    """One message as its producer knows it."""

    def __init__(self, serial: int, value: bytes, key: bytes, topic: TopicTruth) -> None:
        self.serial = serial
        self.value = value
        self.key = key
        self.topic = topic
        self.priority = int(Priority.NORMAL)
        # The size of a header that is there to be large.
        self.padding = 0
        self.delay: DelayTruth | None = None
        self.fate = Fate.UNKNOWN
        # How often it was sent without its sender being sure that this was in vain.
        self.doubts = 0
        self.transaction: TransactionTruth | None = None
        # Where everybody can read it.
        self.place: Place | None = None


class Ledger:
    """All topics and messages of a run."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTruth] = {}
        self.peaks = Peaks()
        self.delayed: list[MessageTruth] = []
        self._messages: dict[int, MessageTruth] = {}
        self._topic_count = 0

    # Topics

    def topic_made(
        self, name: str, partitions: int, *, holds_dead_letters: bool = False
    ) -> TopicTruth:
        self._topic_count += 1
        topic = TopicTruth(
            name, self._topic_count, partitions, holds_dead_letters=holds_dead_letters
        )
        self.topics[name] = topic
        return topic

    def topic_gone(self, topic: TopicTruth) -> None:
        topic.is_gone = True
        if self.topics.get(topic.name) is topic:
            del self.topics[topic.name]

    # Messages

    def message_of(self, record: Record) -> MessageTruth:
        """The message of a record, found by its value."""
        return self._messages[int((record.value or b"0").partition(b":")[0])]

    def publishing(self, value: bytes, key: bytes, topic: TopicTruth) -> MessageTruth:
        serial = len(self._messages) + 1
        message = MessageTruth(serial, b"%d:" % serial + value, key, topic)
        self._messages[serial] = message
        return message

    def delay(self, message: MessageTruth, due: int) -> None:
        """A delayed message is being published."""
        message.delay = DelayTruth(due, self.peaks.moment)
        self.delayed.append(message)

    def taken(self, message: MessageTruth, place: Place) -> None:
        """A producer was told the position of its message."""
        if message.delay is None:
            self._put(message.topic, place, message)
        else:
            self._hold(message, message.delay, place)
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

    def check_record(
        self, topic: TopicTruth, partition: int, record: Record, *, is_committed: bool = True
    ) -> MessageTruth:
        """Judge a message that a client got; from now on its position must not change.

        An uncommitted message may vanish, but no other may take its position.
        """
        place = Place(partition, record.offset)
        serial = int((record.value or b"0").partition(b":")[0])
        message = self._messages.get(serial)
        if message is None or message.value != record.value or message.key != record.key:
            raise Violation("never-published", f"{topic.name} {place}: {record.value!r}")
        if message.priority != record.priority:
            raise Violation("priority-changed", f"{serial} at {topic.name} {place}")
        if is_copy(record):
            self._check_copy(topic, place, message, record, is_committed=is_committed)
            return message
        if message.topic is not topic:
            raise Violation(
                "message-in-wrong-topic",
                f"{serial} was published to {message.topic.name} #{message.topic.number},"
                f" not to {topic.name} #{topic.number}",
            )
        if message.fate is Fate.REFUSED:
            raise Violation("refused-message-visible", f"{serial} at {topic.name} {place}")
        if record.flags & Flag.DELAYED:
            self._check_waiting(message, place, record)
        else:
            self._check_shown(message, place, record)
            self._put(topic, place, message)
        return message

    # Delays

    def check_control(self, topic: TopicTruth, partition: int, record: Record) -> None:
        """Judge a control record that a client got: the cancellation of a message."""
        offset = cancelled_by(record)
        if offset is None:
            return
        serial = topic.hidden.get(Place(partition, offset))
        if serial is None:
            if not topic.retires:
                raise Violation("cancelled-before-published", f"{topic.name}-{partition}:{offset}")
            return
        self.cancelled(self._messages[serial])

    def cancelled(self, message: MessageTruth) -> None:
        """A message is certainly cancelled: it must never be delivered."""
        delay = message.delay
        if delay is None or not delay.cancels:
            raise Violation("cancelled-by-nobody", f"{message.serial}")
        if message.place is not None:
            raise Violation("cancelled-and-delivered", f"{message.serial} at {message.place}")
        delay.is_cancelled = True

    def delivered(self, message: MessageTruth, offset: int) -> None:
        """A client was told that a delayed message was delivered, and its new position."""
        delay = message.delay
        assert delay is not None
        assert delay.first is not None
        self._check_fired(message, delay)
        self._put(message.topic, Place(delay.first.partition, offset), message)

    def may_be_shown(self, message: MessageTruth) -> bool:
        """Whether a delayed message may be delivered: the clock has reached its time once.

        One in a transaction also waits for its commit.
        """
        delay, transaction = message.delay, message.transaction
        if transaction is not None and not transaction.may_commit:
            return False
        return delay is None or self.peaks.highest_since(delay.moment) >= delay.due

    def _hold(self, message: MessageTruth, delay: DelayTruth, place: Place) -> None:
        known = message.topic.hidden.setdefault(place, message.serial)
        if known != message.serial:
            raise Violation("two-values-at-one-offset", f"{place}: {known}, {message.serial}")
        if delay.first not in {None, place}:
            raise Violation("published-twice", f"{message.serial} at {delay.first} and {place}")
        delay.first = place

    def _check_waiting(self, message: MessageTruth, place: Place, record: Record) -> None:
        delay = message.delay
        if delay is None or number_in(record, DELIVER_AT) != delay.due:
            raise Violation("wrong-delay", f"{message.serial} at {place}: {record.headers}")
        self._hold(message, delay, place)
        message.fate = Fate.TAKEN

    def _check_shown(self, message: MessageTruth, place: Place, record: Record) -> None:
        delay, came_from = message.delay, number_in(record, DELAYED_FROM)
        if (delay is None) != (came_from is None) or number_in(record, DELIVER_AT) is not None:
            raise Violation("wrong-delay", f"{message.serial} at {place}: {record.headers}")
        if delay is not None and came_from is not None:
            self._hold(message, delay, Place(place.partition, came_from))
            message.fate = Fate.TAKEN
            self._check_fired(message, delay)

    def _check_fired(self, message: MessageTruth, delay: DelayTruth) -> None:
        if delay.is_cancelled:
            raise Violation("cancelled-message-delivered", f"{message.serial} of {delay.first}")
        transaction = message.transaction
        if transaction is not None and not transaction.may_commit:
            raise Violation("delivered-without-commit", f"{message.serial} of {delay.first}")
        if not self.may_be_shown(message):
            peak = self.peaks.highest_since(delay.moment)
            raise Violation("delivered-early", f"{message.serial}: {delay.due} at {peak}")

    def check_delays(self, topic: TopicTruth, starts: list[int]) -> None:
        """Everything is due and was read: every message that was not cancelled must be there."""
        for serial in topic.hidden.values():
            message = self._messages[serial]
            delay = message.delay
            if (
                delay is None
                or delay.first is None
                or delay.first.offset < starts[delay.first.partition]
            ):
                continue
            is_promised = message.transaction is None or message.transaction.outcome is True
            if message.place is None and not delay.is_cancelled and is_promised:
                raise Violation("delayed-message-lost", f"{serial} of {topic.name} {delay.first}")

    # The whole of it

    def _check_copy(
        self,
        topic: TopicTruth,
        place: Place,
        message: MessageTruth,
        record: Record,
        *,
        is_committed: bool,
    ) -> None:
        if record.flags & Flag.DELAYED or number_in(record, DELAYED_FROM) is not None:
            raise Violation("delay-of-another-log", f"{topic.name} {place}: {record.headers}")
        known = topic.places.get(place)
        if known is None:
            topic.places[place] = message.serial
            if is_committed:
                self._note_key(topic, place, message)
        elif known != message.serial:
            raise Violation(
                "two-values-at-one-offset", f"{topic.name} {place}: {known}, {message.serial}"
            )

    def check_partition(
        self, topic: TopicTruth, partition: int, records: list[Record], start: int
    ) -> None:
        """Judge everything in a partition: no promised message may be missing."""
        if start and not topic.retires:
            raise Violation("log-starts-late", f"{topic.name}-{partition} at {start}")
        there = {record.offset for record in records}
        for place, serial in (*topic.places.items(), *topic.hidden.items()):
            is_here = place.partition == partition and place.offset >= start
            if is_here and place.offset not in there:
                raise Violation("committed-message-lost", f"{serial} of {topic.name} {place}")

    def lost(self, topic: TopicTruth, ends: list[int]) -> None:
        """Power loss may have removed what a topic without syncs held from these offsets on."""
        for place in [each for each in topic.places if each.offset >= ends[each.partition]]:
            message = self._messages[topic.places.pop(place)]
            if message.topic is topic and message.place == place:
                message.place = None
                message.fate = Fate.REFUSED if message.delay is None else message.fate
        for place, serial in list(topic.hidden.items()):
            message = self._messages[serial]
            assert message.delay is not None
            # The record of a cancellation may have been lost with others.
            message.delay.is_cancelled = False
            if place.offset >= ends[place.partition]:
                del topic.hidden[place]
                message.delay.first = None
                message.fate = Fate.REFUSED
        for (partition, _), offsets in topic.keys.items():
            offsets[:] = [offset for offset in offsets if offset < ends[partition]]

    def before(self, topic: TopicTruth, partition: int, offset: int, key: bytes) -> list[int]:
        """The known offsets of earlier messages with the same key that must be delivered first."""
        return [
            each
            for each in topic.keys.get((partition, key), ())
            if each < offset and self._is_promised(topic, Place(partition, each))
        ]

    def _is_promised(self, topic: TopicTruth, place: Place) -> bool:
        """Whether the message at this position certainly belongs to no aborted transaction."""
        transaction = self._messages[topic.places[place]].transaction
        return transaction is None or transaction.outcome is True


def log_name(topic: TopicTruth, partition: int) -> str:
    """The unique name of a log in the history."""
    return f"{topic.name}#{topic.number}-{partition}"


def is_copy(record: Record) -> bool:
    """Whether the node wrote this record itself: a dead letter, or a redriven one."""
    return any(name.startswith(_PREFIX) for name, _ in record.headers)


def is_hidden(record: Record) -> bool:
    """Whether readers must not see this record as a message."""
    return bool(record.flags & (Flag.CONTROL | Flag.DELAYED))


def redriven_from(record: Record) -> str | None:
    """The dead letter from which this record was redriven, if any."""
    return next((value.decode() for name, value in record.headers if name == _REDRIVEN), None)
