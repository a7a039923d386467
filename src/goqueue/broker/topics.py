"""Commands about topics: made, changed, described, removed.

A topic is in the journal before its logs are made, so a log that no journal mentions is nobody's;
it is out of the journal before its logs are removed, and its name is free when they are gone.
"""

from collections.abc import Generator, Iterator

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.journal_changes import TopicDeleted, TopicStated
from goqueue.broker.outbox import CreateLogs, DeleteLogs, DescribeAltered
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import Steps
from goqueue.log import Log, LogState
from goqueue.model import (
    Code,
    Create,
    Delete,
    LogId,
    Now,
    Offset,
    Refused,
    Report,
    RequestId,
    Reshape,
    Timestamp,
    TopicAltered,
    TopicCreated,
    TopicRemoved,
    is_internal,
)
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribePartitions,
    DescribeTopic,
    Done,
    PartitionDescription,
    PartitionList,
    TopicConfig,
    TopicDescription,
    TopicList,
)
from goqueue.security import NameFilter, field_changes

__all__ = ["Topics"]


class _Creation(msgspec.Struct):
    """A topic whose logs are being made; `request` is None when the node wants it itself."""

    topic: Topic
    missing: dict[LogId, None]
    request: RequestId | None
    failure: str | None = None


class _Deletion(msgspec.Struct):
    """A topic whose logs are being removed."""

    missing: dict[LogId, None]
    request: RequestId | None
    failure: str | None = None


# The sizes of so many partitions cost one unit of a turn.
_SUMMED_PER_UNIT = 10


class Topics:
    """Takes commands about topics."""

    def __init__(self, state: NodeState, quotas: TenantQuotas) -> None:
        self._state = state
        self._quotas = quotas
        self._creations: dict[str, _Creation] = {}
        self._deletions: dict[str, _Deletion] = {}

    def create(self, request: RequestId, command: CreateTopic, now: Now) -> None:
        self._state.metadata.check_room()
        dead_letters = command.config.dead_letter_topic or f"{command.name}.dlq"
        self._require_own_dead_letters(command.name, dead_letters)
        stated = self._state.catalog.create(command, now)
        self._quotas.check_topic(stated.name, stated.partitions, stated.config)
        self._make(stated, request)
        changes = field_changes(None, stated)
        self._state.audit.record(request, self._state.journals.of_topics, changes)

    def _require_own_dead_letters(self, topic: str, chosen: object) -> None:
        """Refuse dead letters in another tenant, before anything tells what that tenant has."""
        if chosen:
            self._state.access.require_same_tenant(topic, str(chosen))

    def ensure_dead_letters(self, origin: Topic, name: str, now: Now) -> Topic | None:
        """The dead-letter topic of a topic, if it can be used; else it is being made."""
        topic = self._state.catalog.get(name)
        if topic is None and name not in self._deletions:
            stated = self._state.catalog.create_dead_letters(origin, name, now)
            hours = self._quotas.dead_letter_hours(name, stated.config.retention_hours)
            config = msgspec.structs.replace(stated.config, retention_hours=hours)
            self._make(msgspec.structs.replace(stated, config=config), None)
            return None
        return topic if topic is not None and topic.is_open else None

    def _make(self, stated: TopicStated, request: RequestId | None) -> None:
        self._state.metadata.propose([stated], [CreateLogs(stated.number)])
        topic = self._state.catalog.find_new(stated.number)
        self._creations[topic.name] = _Creation(topic, dict.fromkeys(topic.logs), request)

    def resume(self, later: CreateLogs | DeleteLogs | DescribeAltered, now: Now) -> None:
        """A change of a topic is committed: its logs may follow, or an answer."""
        match later:
            case DeleteLogs():
                self._state.stepwise.begin(None, self._delete_logs(later), now)
            case DescribeAltered():
                self._describe_altered(later, now)
            case CreateLogs():
                topic = self._state.catalog.numbered(later.topic)
                assert topic is not None, "a topic that is not open cannot be deleted"
                self._state.stepwise.begin(None, self._create_logs(topic), now)

    def _create_logs(self, topic: Topic) -> Steps:
        settings = self._state.catalog.log_settings(topic)
        for number in range(topic.stated.partitions):
            log = LogId(topic.name, number)
            self._state.partitions.add(Partition(log, Log(log, settings, LogState())))
            self._state.outbox.append(Reshape(log=log, change=Create(settings)))
            yield 1

    def is_creating(self, name: str) -> bool:
        """Whether logs of a new topic are still to be created."""
        return name in self._creations

    def created(self, log: LogId, failure: str | None, now: Now) -> Topic | None:
        """A log is there, or could not be made: the topic, if it can be used from now on."""
        coming = self._creations.get(log.topic)
        if coming is None:
            return None
        coming.missing.pop(log, None)
        coming.failure = coming.failure or failure
        if coming.missing:
            return None
        del self._creations[log.topic]
        if coming.failure is not None:
            self._unmake(coming.topic, coming.request, coming.failure)
            return None
        coming.topic.is_open = True
        coming.topic.may_mark = coming.topic.stated.has_producers
        made = TopicCreated(topic=log.topic, partitions=coming.topic.stated.partitions)
        self._state.outbox.append(Report(report=made))
        if coming.request is not None:
            steps = self._answer_described(coming.request, coming.topic)
            self._state.stepwise.begin(coming.request, steps, now)
        return coming.topic

    def _unmake(self, topic: Topic, request: RequestId | None, failure: str) -> None:
        """Not every log could be made: take the topic out again, with what was made of it."""
        self._state.partitions.remove_all(topic.logs)
        self._take_out(topic, _Deletion(dict.fromkeys(topic.logs), request, failure))

    def alter(self, request: RequestId, command: AlterTopic) -> None:
        self._state.metadata.check_room()
        before = self._state.catalog.find_for_writing(command.name).config
        self._require_own_dead_letters(
            command.name, command.changes.values.get("dead_letter_topic")
        )
        stated = self._state.catalog.alter(command)
        self._quotas.check_config(stated.name, before, stated.config)
        changes = _changes(before, stated.config)
        report = Report(report=TopicAltered(topic=stated.name, changes=changes))
        answer = DescribeAltered(request, stated.number)
        self._state.metadata.propose([stated], [report, answer] if changes else [answer])
        topic = self._state.catalog.find_new(stated.number)
        settings = self._state.catalog.log_settings(topic)
        for log in topic.logs:
            self._state.partitions[log].log.configure(settings)
        audited = field_changes(before, topic.config)
        self._state.audit.record(request, self._state.journals.of_topics, audited)

    def _describe_altered(self, altered: DescribeAltered, now: Now) -> None:
        topic = self._state.catalog.numbered(altered.topic)
        if topic is None:
            # Deleted in the same moment, after the change.
            self._state.outbox.answer(altered.request, Refused(Code.TOPIC_NOT_FOUND))
            return
        steps = self._answer_described(altered.request, topic)
        self._state.stepwise.begin(altered.request, steps, now)

    def delete(self, request: RequestId | None, command: DeleteTopic) -> None:
        """Take a topic out; the caller takes away what groups have in it."""
        self._state.metadata.check_room()
        topic = self._state.catalog.find_for_writing(command.name)
        self._take_out(topic, _Deletion(dict.fromkeys(topic.logs), request))
        self._state.audit.record(request, self._state.journals.of_topics)

    def _take_out(self, topic: Topic, going: _Deletion) -> None:
        change = TopicDeleted(name=topic.name, number=topic.number)
        deletion = DeleteLogs(topic.name, topic.stated.partitions)
        self._state.metadata.propose([change], [deletion])
        self._state.catalog.begin_leaving(topic)
        self._state.spared_until.pop(topic.name, None)
        self._deletions[topic.name] = going

    def _delete_logs(self, deletion: DeleteLogs) -> Steps:
        for number in range(deletion.partitions):
            log = LogId(deletion.topic, number)
            self._state.outbox.append(Reshape(log=log, change=Delete()))
            yield 1

    def deleted(self, log: LogId, failure: str | None = None) -> None:
        """A log is gone, or could not be removed: then the next start moves it out of the way."""
        going = self._deletions.get(log.topic)
        if going is None:
            return
        going.missing.pop(log, None)
        going.failure = going.failure or failure
        if going.missing:
            return
        del self._deletions[log.topic]
        self._state.catalog.end_leaving(log.topic)
        if going.failure is None:
            self._state.outbox.append(Report(report=TopicRemoved(topic=log.topic)))
        if going.request is not None:
            reason = going.failure
            refused = Refused(Code.STORAGE_FAILED, reason=reason) if reason else None
            self._state.outbox.answer(going.request, refused or Done())

    # Describing

    def list_all(self, request: RequestId, now: Now) -> None:
        sees = self._state.access.visible_topics()
        if sees is None:
            names = tuple(topic.name for topic in self._state.catalog)
            self._state.outbox.answer(request, TopicList(topics=names))
        else:
            self._state.stepwise.begin(request, self._answer_names(request, sees), now)

    def _answer_names(self, request: RequestId, sees: NameFilter) -> Steps:
        topics = yield from self._select(sees)
        catalog = self._state.catalog
        # Some may have been deleted meanwhile.
        names = tuple(each.name for each in topics if catalog.numbered(each.number) is each)
        self._state.outbox.answer(request, TopicList(topics=names))

    def _select(self, sees: NameFilter) -> Generator[int, None, list[Topic]]:
        """The topics that a caller sees, as they are when it begins."""
        topics = {topic.name: topic for topic in self._state.catalog}
        if sees is None:
            return list(topics.values())
        names = yield from self._state.access.select(topics, sees)
        return [topics[name] for name in names]

    def describe(self, request: RequestId, command: DescribeTopic, now: Now) -> None:
        journal = self._journal(command.name)
        if journal is not None:
            self._state.outbox.answer(request, self._describe_journal(journal))
            return
        topic = self._state.catalog.find(command.name)
        self._state.stepwise.begin(request, self._answer_described(request, topic), now)

    def _describe_journal(self, journal: Partition) -> TopicDescription:
        log = journal.log
        return TopicDescription(
            name=journal.log_id.topic,
            config=TopicConfig(retention_hours=-1),
            created_at=Timestamp(0),
            total_messages=log.high_watermark - log.start,
            total_size_bytes=log.size,
            offsets=((log.start, Offset(log.high_watermark - 1)),),
        )

    def _answer_described(self, request: RequestId, topic: Topic) -> Steps:
        description = yield from self._describe(topic)
        self._state.outbox.answer(request, description)

    def describe_all(self, sees: NameFilter) -> Generator[int, None, tuple[TopicDescription, ...]]:
        """All topics that the caller sees, without those that are deleted in the meantime."""
        descriptions = []
        for topic in (yield from self._select(sees)):
            try:
                descriptions.append((yield from self._describe(topic)))
            except Refused:
                continue
        return tuple(descriptions)

    def sum_sizes(self, sees: NameFilter) -> Generator[int, None, tuple[int, int]]:
        """How many topics the caller sees, and the size of their logs."""
        count = size = 0
        for topic in (yield from self._select(sees)):
            try:
                size += yield from self._sum_size(topic)
            except Refused:
                continue
            count += 1
        return count, size

    def _sum_size(self, topic: Topic) -> Generator[int, None, int]:
        size = 0
        for number, partition in enumerate(self._kept_of(topic)):
            size += 0 if partition is None else partition.log.size
            if number % _SUMMED_PER_UNIT == 0:
                yield 1
        return size

    def describe_partitions(
        self, request: RequestId, command: DescribePartitions, now: Now
    ) -> None:
        journal = self._journal(command.topic)
        partitions: Iterator[Partition]
        if journal is None:
            partitions = self._partitions_of(self._state.catalog.find(command.topic))
        else:
            partitions = iter((journal,))
        steps = self._answer_partitions(request, command.topic, partitions)
        self._state.stepwise.begin(request, steps, now)

    def _journal(self, name: str) -> Partition | None:
        """The one partition of a topic of the broker's own: it can be read, so it is described."""
        return self._state.internal.get(LogId(name, 0)) if is_internal(name) else None

    def _answer_partitions(
        self, request: RequestId, name: str, partitions: Iterator[Partition]
    ) -> Steps:
        node = self._state.node_id
        described = []
        for partition in partitions:
            description = PartitionDescription(
                partition=partition.log_id.partition,
                leader=node,
                replicas=(node,),
                isr=(node,),
                version=1,
                earliest_offset=partition.log.start,
                end_offset=partition.log.end,
                high_watermark=partition.log.high_watermark,
                size_bytes=partition.log.size,
            )
            described.append(description)
            yield 1
        reply = PartitionList(topic=name, partitions=tuple(described))
        self._state.outbox.answer(request, reply)

    def _partitions_of(self, topic: Topic) -> Iterator[Partition]:
        """The partitions one by one; refuses when the topic is deleted in between."""
        for number in range(topic.stated.partitions):
            if self._state.catalog.numbered(topic.number) is None:
                raise Refused(Code.TOPIC_NOT_FOUND, topic=topic.name)
            yield self._state.partitions[LogId(topic.name, number)]

    def _kept_of(self, topic: Topic) -> Iterator[Partition | None]:
        """The same, but None for those that other nodes of the cluster keep."""
        for number in range(topic.stated.partitions):
            if self._state.catalog.numbered(topic.number) is None:
                raise Refused(Code.TOPIC_NOT_FOUND, topic=topic.name)
            yield self._state.partitions.get(LogId(topic.name, number))

    def _messages_in(self, partition: Partition) -> int:
        start, end = partition.log.start, partition.log.watermarks.stable
        return end - start - self._state.hidden_within(partition.log_id, start, end)

    def _describe(self, topic: Topic) -> Generator[int, None, TopicDescription]:
        total_messages = total_bytes = 0
        offsets = []
        for partition in self._kept_of(topic):
            if partition is None:
                offsets.append((Offset(0), Offset(-1)))
            else:
                log = partition.log
                total_messages += self._messages_in(partition)
                total_bytes += log.size
                offsets.append((log.start, Offset(log.high_watermark - 1)))
            yield 1
        dead_letters = self._state.dead_letters_of(topic)
        return TopicDescription(
            name=topic.name,
            # Where they go, not what was chosen before a tenant was made.
            config=msgspec.structs.replace(topic.config, dead_letter_topic=dead_letters),
            created_at=Timestamp(topic.stated.created_at),
            total_messages=total_messages,
            total_size_bytes=total_bytes,
            offsets=tuple(offsets),
        )


def _changes(before: TopicConfig, after: TopicConfig) -> tuple[str, ...]:
    """The settings that differ, each with its old and its new value."""
    values = msgspec.structs.asdict(after)
    return tuple(
        f"{name}: {old} -> {values[name]}"
        for name, old in msgspec.structs.asdict(before).items()
        if old != values[name]
    )
