"""Clients that create topics, publish and read, and what they conclude from the answers.

A publish concludes for each message whether it is stored, refused or unknown; a reader decodes the
bytes of an answer and hands every record, also hidden ones, to the ledger.
"""

from collections.abc import Iterable
from random import Random

import msgspec

from goqueue.model import (
    GIVEN_HEADERS_BYTES_MAX,
    HOUR,
    KEY_BYTES_MAX,
    MILLISECOND,
    SECOND,
    Code,
    Flush,
    Message,
    Offset,
    Record,
    Refused,
    Timestamp,
)
from goqueue.model.requests import (
    Acks,
    AlterTopic,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    Done,
    Isolation,
    Publish,
    Published,
    Read,
    Records,
    RecordsDeleted,
    Redrive,
    Reply,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import Flag, build, decode, visible, walk
from goqueue.sim.history import Failed, Polled, Sent, Taken
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import (
    DELIVER_AT,
    Fate,
    MessageTruth,
    Place,
    TopicTruth,
    is_copy,
    is_hidden,
    log_name,
)
from goqueue.sim.truth.transactions import TransactionTruth

__all__ = [
    "LogReader",
    "Publishers",
    "Sender",
    "SentBatch",
    "built",
    "dues_of",
    "is_aborted",
    "messages_in",
    "records_in",
]


class LogReader(msgspec.Struct, frozen=True, kw_only=True):
    """A reader and its isolation; the same name continues at its last position."""

    reader: str
    isolation: Isolation = Isolation.READ_COMMITTED
    is_final: bool = False

    @property
    def is_committed(self) -> bool:
        return self.isolation is Isolation.READ_COMMITTED


def is_aborted(record: Record, reply: Records) -> bool:
    """Whether an answer marks a record as aborted."""
    return any(first <= record.offset < following for first, following in reply.aborted)


def messages_in(data: Iterable[memoryview]) -> list[Record]:
    """The messages in the bytes of an answer."""
    found: list[Record] = []
    for piece in data:
        if len(piece):
            found.extend(visible(piece, 0, len(piece)))
    return found


def records_in(data: Iterable[memoryview]) -> list[Record]:
    """All records in the bytes of an answer, including control records."""
    found: list[Record] = []
    for piece in data:
        if len(piece):
            found.extend(decode(piece, position) for position in walk(piece).positions)
    return found


# Answers after which it is certain that nothing was taken.
_SURE_REFUSALS = frozenset(
    {
        Code.LOG_BUSY,
        Code.PRODUCER_FENCED,
        Code.QUOTA_EXCEEDED,
        Code.SEQUENCE_OUT_OF_ORDER,
        Code.STORAGE_FULL,
        Code.TRANSACTION_STATE_INVALID,
    }
)


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The producer and transaction of a publish."""

    process: str
    transaction: TransactionTruth | None = None
    # The number of the first, and the partition that all of them go to.
    sequence: int | None = None
    partition: int | None = None


class SentBatch:
    """Messages that were sent together."""

    def __init__(
        self, world: World, topic: TopicTruth, messages: list[MessageTruth], sender: Sender
    ) -> None:
        self._world = world
        self._topic = topic
        self._messages = messages
        self._asked: dict[int, int] = {}
        for index, message in enumerate(messages):
            message.doubts += 1
            if message.fate is Fate.REFUSED:
                message.fate = Fate.UNKNOWN
            if sender.transaction is not None:
                message.transaction = message.transaction or sender.transaction
            if message.delay is None:
                self._note_sent(index, message, sender)

    def _note_sent(self, index: int, message: MessageTruth, sender: Sender) -> None:
        transaction = message.transaction
        log = None if sender.partition is None else log_name(self._topic, sender.partition)
        sent = Sent(
            value=message.serial,
            process=sender.process,
            log=log,
            transaction=None if transaction is None else transaction.number,
            sequence=None if sender.sequence is None else sender.sequence + index,
        )
        self._asked[message.serial] = self._world.history.note(sent)

    def answered(self, reply: Reply | Refused | None, acks: Acks = Acks.ALL) -> None:
        """Record the outcome of a publish; a reply of None means that no answer will come."""
        if isinstance(reply, Refused):
            for message in self._messages:
                self._refused(message)
        elif isinstance(reply, Published):
            self._published(reply, acks)

    def _refused(self, message: MessageTruth) -> None:
        message.doubts -= 1
        if not message.doubts and message.fate is not Fate.TAKEN:
            message.fate = Fate.REFUSED
        if message.delay is None:
            failed = Failed(value=message.serial, asked=self._asked[message.serial])
            self._world.history.note(failed)

    def _published(self, reply: Published, acks: Acks) -> None:
        if reply.is_unconfirmed and acks is not Acks.NONE:
            raise Violation("answer-before-the-commit", f"{reply}")
        placed = {each.partition: each for each in reply.placed}
        counts: dict[int, int] = {}
        for message, target in zip(self._messages, reply.targets, strict=True):
            if target < 0:
                self._refused(message)
            elif target not in placed:
                if not reply.is_unconfirmed:
                    raise Violation("answer-without-place", f"{reply}")
            elif placed[target].refused is not None:
                if placed[target].refused in _SURE_REFUSALS:
                    self._refused(message)
            else:
                index = counts[target] = counts.get(target, -1) + 1
                place = Place(target, placed[target].first + index)
                self._taken(message, place, is_duplicate=placed[target].is_duplicate)

    def _taken(self, message: MessageTruth, place: Place, *, is_duplicate: bool) -> None:
        self._world.ledger.taken(message, place)
        if message.delay is None and not self._topic.is_gone:
            taken = Taken(
                value=message.serial,
                log=log_name(self._topic, place.partition),
                offset=place.offset,
                asked=self._asked[message.serial],
                is_duplicate=is_duplicate,
            )
            self._world.history.note(taken)


def dues_of(messages: list[MessageTruth]) -> list[int] | None:
    """The delivery time of each message, 0 for now; None if no message is delayed."""
    dues = [0 if each.delay is None else each.delay.due for each in messages]
    return dues if any(dues) else None


def built(message: MessageTruth) -> Message:
    """The batch that is published."""
    headers: tuple[tuple[str, bytes], ...] = ()
    if message.delay is not None:
        headers = ((DELIVER_AT, b"%d" % message.delay.due),)
    if message.padding:
        headers += (("padding", b"x" * message.padding),)
    return Message(
        value=message.value,
        key=message.key,
        headers=headers,
        priority=message.priority,
        is_delayed=message.delay is not None,
    )


_NAMES = ("t0", "t1", "t2")
_KEYS = 4
_SEGMENT_BYTES = 64 * 1024
_RETENTION_BYTES = 70_000
_LIMITS = (0, 2, 3, 5)
# Over already, within a moment, soon, and not before the end of a run.
_DELAYS_NS = (-5 * SECOND, 0, MILLISECOND, 300 * MILLISECOND, SECOND, 3 * SECOND, 20 * SECOND)
_LONG_DELAYS_NS = (HOUR, 3 * HOUR, 72 * HOUR)
_LARGE_SHARE = 0.1
_VISIBILITIES_NS = (SECOND, 2 * SECOND, 5 * SECOND)


class Publishers:
    """Clients that publish, read, and create, alter and delete topics."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._sendings = 0
        self._readings = 0
        self._trims = 0

    # Topics

    def create(self) -> None:
        world, random = self._world, self._random
        name = random.choice(_NAMES)
        if name in world.ledger.topics or name in world.topics_in_doubt:
            return
        is_loose = world.swarm.intervals and random.random() < 0.5
        config = TopicConfig(
            visibility_ns=random.choice(_VISIBILITIES_NS),
            max_deliveries=random.choice(_LIMITS),
            segment_bytes=_SEGMENT_BYTES if world.swarm.large_values else 1024 * 1024,
            flush_policy=Flush.INTERVAL if is_loose else Flush.COMMIT,
            flush_interval_ms=random.choice([1000, 60_000]),
            # Some have their dead letters in common.
            dead_letter_topic=random.choice(["", "", "all.dlq"]),
        )
        if world.swarm.has_ages:
            config = msgspec.structs.replace(config, retention_hours=-1)
        if world.swarm.retention:
            config = msgspec.structs.replace(
                config, segment_bytes=_SEGMENT_BYTES, retention_bytes=_RETENTION_BYTES
            )
        self._create(name, random.randint(1, 3), config)

    def create_kept(self, name: str) -> None:
        """Create a topic that is never deleted and retains everything."""
        if name in self._world.ledger.topics or name in self._world.topics_in_doubt:
            return
        self._create(name, 2, TopicConfig(retention_hours=-1))

    def _create(self, name: str, partitions: int, config: TopicConfig) -> None:
        world = self._world
        world.topics_in_doubt[name] = partitions

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, TopicDescription):
                del world.topics_in_doubt[name]
                self.learn_topic(reply)
            elif isinstance(reply, Refused) and reply.code is not Code.STORAGE_FAILED:
                del world.topics_in_doubt[name]

        world.ask(CreateTopic(name=name, partitions=partitions, config=config), done)

    def learn_topic(self, described: TopicDescription) -> TopicTruth:
        """Record a topic that exists and was not known."""
        holds_dead_letters = described.name.endswith(".dlq")
        topic = self._world.ledger.topic_made(
            described.name, len(described.offsets), holds_dead_letters=holds_dead_letters
        )
        topic.is_kept = described.name not in _NAMES and not holds_dead_letters
        topic.is_loose = described.config.flush_policy is Flush.INTERVAL
        is_old_soon = holds_dead_letters and self._world.swarm.has_ages
        topic.retires = described.config.retention_bytes > 0 or is_old_soon
        topic.limits[described.config.max_deliveries] = None
        topic.visibilities_ns[described.config.visibility_ns] = None
        return topic

    def alter(self) -> None:
        topic = self.choose_topic()
        if topic is None:
            return
        random = self._random
        limit, visibility_ns = random.choice(_LIMITS), random.choice(_VISIBILITIES_NS)
        topic.limits[limit] = None
        topic.visibilities_ns[visibility_ns] = None
        changes = TopicChanges({"max_deliveries": limit, "visibility_timeout": visibility_ns})
        self._world.ask(AlterTopic(name=topic.name, changes=changes), _ignore)
        if topic.retires:
            self._trim(topic)

    def _trim(self, topic: TopicTruth) -> None:
        """Delete old records of a topic that loses them anyway; what was answered is for good."""
        self._trims += 1
        # Beside the other choices, so that older seeds still mean what they meant.
        random = Random(self._trims)  # noqa: S311 - not for secrets
        before = {partition: Offset(random.randrange(40)) for partition in range(topic.partitions)}
        command = DeleteRecords(topic=topic.name, before=random.choice([before, before, None]))

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, RecordsDeleted):
                for each in reply.partitions:
                    known = topic.trimmed.get(each.partition, 0)
                    topic.trimmed[each.partition] = max(known, each.earliest_offset)

        self._world.ask(command, done)

    def delete(self) -> None:
        world = self._world
        topic = self.choose_topic(with_dead_letters=world.swarm.dead_letters_deleted)
        if topic is None or topic.is_kept or topic.name in world.topics_in_doubt:
            return
        if topic.holds_dead_letters:
            world.dead_letters.is_strict = False
        world.topics_in_doubt[topic.name] = None
        topic.is_leaving = True

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Done):
                del world.topics_in_doubt[topic.name]
                world.topic_gone(topic)
            elif isinstance(reply, Refused) and reply.code is not Code.STORAGE_FAILED:
                del world.topics_in_doubt[topic.name]
                topic.is_leaving = False

        world.ask(DeleteTopic(name=topic.name), done)

    def redrive(self) -> None:
        """Redrive, mostly a topic with known dead letters; sometimes twice at the same time."""
        world, random = self._world, self._random
        topic = self.choose_topic()
        dead = [each for each in world.dead_letters.origins if each in world.ledger.topics]
        if topic is None:
            return
        name = random.choice(dead) if dead and random.random() < 0.9 else topic.name
        for _ in range(random.choice([1, 1, 2])):
            count = random.choice([1, 3, 1000])
            world.ask(Redrive(topic=name, messages_max=count), _ignore)

    def choose_topic(self, *, with_dead_letters: bool = False) -> TopicTruth | None:
        found = [
            topic
            for topic in self._world.ledger.topics.values()
            if not topic.is_leaving and (with_dead_letters or not topic.holds_dead_letters)
        ]
        return self._random.choice(found) if found else None

    # Publishing

    def publish(self) -> None:
        random = self._random
        topic = self.choose_topic()
        if topic is not None:
            self._publish(topic, [self.message(topic) for _ in range(random.randint(1, 4))])

    def publish_many(self, topic: TopicTruth, count: int) -> None:
        """Publish many small messages in one batch."""
        sent = [self._world.ledger.publishing(b"", b"", topic) for _ in range(count)]
        self._publish(topic, sent)

    def _publish(self, topic: TopicTruth, sent: list[MessageTruth]) -> None:
        world, random = self._world, self._random
        dues = self.dues(sent)
        batch = build([built(each) for each in sent])
        targets = None
        if random.random() < 0.3:
            targets = [random.randint(-1, topic.partitions - 1) for _ in sent]
            if random.random() < 0.1:
                targets[0] = 99
        drawn = random.random()
        acks = Acks.ALL if drawn < 0.6 else Acks.LEADER if drawn < 0.9 else Acks.NONE
        self._sendings += 1
        sending = SentBatch(world, topic, sent, Sender(process=f"plain-{self._sendings}"))

        def done(reply: Reply | Refused | None) -> None:
            sending.answered(reply, acks)

        is_whole = random.random() < 0.2
        command = Publish(
            topic=topic.name,
            batch=batch,
            targets=targets,
            acks=acks,
            is_whole=is_whole,
            dues=dues,
        )
        world.ask(command, done)

    def message(self, topic: TopicTruth) -> MessageTruth:
        random = self._random
        is_large = self._world.swarm.large_values or self._world.swarm.retention
        sizes = (0, 3000, 20_000) if is_large else (0, 10, 100)
        key = b"k%d" % random.randrange(_KEYS) if random.random() < 0.7 else b""
        value, padding = b"x" * random.choice(sizes), 0
        priority = random.randrange(5) if self._world.swarm.lanes else None
        if self._world.swarm.large_fields and self._world.sizes.random() < _LARGE_SHARE:
            below = self._world.sizes.randint(-4, 120)
            # One part of a message is near its limit; a longer key cannot be written down.
            match below % 3:
                case 0:
                    padding = GIVEN_HEADERS_BYTES_MAX - below
                case 1:
                    key = (key or b"k").ljust(KEY_BYTES_MAX - max(0, below), b"k")
                case _:
                    value = b"x" * (TopicConfig().max_message_bytes - below)
        message = self._world.ledger.publishing(value, key, topic)
        message.padding = padding
        if priority is not None:
            message.priority = priority
        return message

    def dues(self, sent: list[MessageTruth]) -> list[int] | None:
        """Choose which messages of a batch are delayed, if any."""
        world, random = self._world, self._random
        if not world.swarm.delays or random.random() < 0.4:
            return None
        for message in sent:
            if random.random() < 0.7:
                delays_ns = _LONG_DELAYS_NS if random.random() < 0.2 else _DELAYS_NS
                world.ledger.delay(message, world.now.wall + random.choice(delays_ns))
        return [0 if each.delay is None else each.delay.due for each in sent]

    # Reading

    def read(self) -> None:
        random = self._random
        topic = self.choose_topic(with_dead_letters=True)
        if topic is None:
            return
        partition = random.randrange(topic.partitions)
        known = [place.offset for place in topic.places if place.partition == partition]
        offset = Offset(random.randint(0, max(known, default=0) + 2))
        wait_ns = random.choice([0, 0, SECOND, 3 * SECOND])
        timestamp = None
        if self._world.swarm.times and random.random() < 0.3:
            elapsed = random.randrange(-HOUR, HOUR)
            timestamp = Timestamp(self._world.now.wall + elapsed)
        command = Read(
            topic=topic.name,
            partition=partition,
            offset=offset,
            timestamp=timestamp,
            bytes_max=random.choice([1, 200, 5000, 1 << 20]),
            wait_ns=wait_ns,
            is_exact=random.random() < 0.2,
            isolation=self._isolation(),
        )
        self._readings += 1
        reading = LogReader(reader=f"reader-{self._readings}", isolation=command.isolation)

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Records):
                self.check_records(topic, reply, reading)

        # A read by time begins to wait when its offset is found.
        is_bounded = timestamp is None or not self._world.swarm.slow_reads
        self._world.ask(command, done, wait_ns if is_bounded else 0)

    def _isolation(self) -> Isolation:
        if self._world.swarm.transactions and self._random.random() < 0.3:
            return Isolation.READ_UNCOMMITTED
        return Isolation.READ_COMMITTED

    def check_records(self, topic: TopicTruth, reply: Records, reading: LogReader) -> list[Record]:
        """Judge the records that a reader got, including hidden ones; return its next offset."""
        if self._world.ledger.topics.get(topic.name) is not topic:
            return []
        records = records_in(reply.data)
        expected = reply.offset
        for record in records:
            if record.offset != expected:
                raise Violation("record-skipped", f"{record.offset} came instead of {expected}")
            if record.offset >= reply.high_watermark:
                raise Violation("uncommitted-read", f"{reply.log}:{record.offset}")
            self._check_record(topic, reply, record, reading)
            expected = Offset(record.offset + 1)
        self._note_polled(topic, reply, reading, expected, records)
        return records

    def _check_record(
        self, topic: TopicTruth, reply: Records, record: Record, reading: LogReader
    ) -> None:
        ledger, partition = self._world.ledger, reply.log.partition
        if record.flags & Flag.CONTROL:
            ledger.check_control(topic, partition, record)
            return
        is_committed = reading.is_committed and not is_aborted(record, reply)
        ledger.check_record(topic, partition, record, is_committed=is_committed)
        if is_copy(record) and not is_hidden(record) and is_committed:
            self._world.dead_letters.seen(topic, partition, record)

    def _note_polled(
        self,
        topic: TopicTruth,
        reply: Records,
        reading: LogReader,
        upto: int,
        records: list[Record],
    ) -> None:
        """Record the messages that a reader takes for committed."""
        shown = [each for each in records if not is_hidden(each) and not is_copy(each)]
        messages = [
            (each.offset, self._world.ledger.message_of(each))
            for each in shown
            if not (reading.is_committed and is_aborted(each, reply))
        ]
        polled = Polled(
            reader=reading.reader,
            log=log_name(topic, reply.log.partition),
            first=reply.offset,
            upto=upto,
            values=tuple((at, each.serial) for at, each in messages if each.delay is None),
            stable=reply.stable,
            start=reply.start,
            is_committed=reading.is_committed,
            is_final=reading.is_final,
        )
        self._world.history.note(polled)


def _ignore(_: Reply | Refused | None) -> None:
    """Ignore an answer."""
