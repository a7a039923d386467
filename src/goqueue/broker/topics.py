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


class Topics:
    """Takes commands about topics."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._creations: dict[str, _Creation] = {}
        self._deletions: dict[str, _Deletion] = {}

    def create(self, request: RequestId, command: CreateTopic, now: Now) -> None:
        self._state.topics_journal.check_room()
        self._make(self._state.catalog.create(command, now), request)

    def ensure_dead_letters(self, origin: Topic, name: str, now: Now) -> Topic | None:
        """The dead-letter topic of a topic, if it can be used; else it is being made."""
        topic = self._state.catalog.get(name)
        if topic is None and name not in self._deletions:
            self._make(self._state.catalog.create_dead_letters(origin, name, now), None)
            return None
        return topic if topic is not None and topic.is_open else None

    def _make(self, stated: TopicStated, request: RequestId | None) -> None:
        topic = self._state.catalog.apply(stated)
        assert topic is not None
        self._creations[topic.name] = _Creation(topic, dict.fromkeys(topic.logs), request)
        self._state.topics_journal.note([stated], [CreateLogs(topic.number)])

    def change_logs(self, change: CreateLogs | DeleteLogs, now: Now) -> None:
        """That a topic exists, or is gone, is committed: so may its logs."""
        if isinstance(change, DeleteLogs):
            self._state.stepwise.begin(None, self._delete_logs(change), now)
            return
        topic = self._state.catalog.numbered(change.topic)
        assert topic is not None, "a topic that is not open cannot be deleted"
        self._state.stepwise.begin(None, self._create_logs(topic), now)

    def _create_logs(self, topic: Topic) -> Steps:
        settings = self._state.catalog.log_settings(topic)
        for number in range(topic.stated.partitions):
            log = LogId(topic.name, number)
            self._state.partitions.add(Partition(log, Log(log, settings, LogState())))
            self._state.outbox.append(Reshape(log=log, change=Create(settings)))
            yield 1

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
        self._state.topics_journal.check_room()
        before = self._state.catalog.find_for_writing(command.name).config
        topic = self._state.catalog.apply(self._state.catalog.alter(command))
        assert topic is not None
        settings = self._state.catalog.log_settings(topic)
        for log in topic.logs:
            self._state.partitions[log].log.configure(settings)
        answer = DescribeAltered(request, topic.number)
        changes = _changes(before, topic.config)
        report = Report(report=TopicAltered(topic=topic.name, changes=changes))
        self._state.topics_journal.note([topic.stated], [report, answer] if changes else [answer])

    def describe_altered(self, altered: DescribeAltered, now: Now) -> None:
        topic = self._state.catalog.numbered(altered.topic)
        if topic is None:
            # Deleted in the same moment, after the change.
            self._state.outbox.answer(altered.request, Refused(Code.TOPIC_NOT_FOUND))
            return
        steps = self._answer_described(altered.request, topic)
        self._state.stepwise.begin(altered.request, steps, now)

    def delete(self, request: RequestId, command: DeleteTopic) -> None:
        """Take a topic out; the caller takes away what groups have in it."""
        self._state.topics_journal.check_room()
        topic = self._state.catalog.find_for_writing(command.name)
        self._take_out(topic, _Deletion(dict.fromkeys(topic.logs), request))

    def _take_out(self, topic: Topic, going: _Deletion) -> None:
        change = TopicDeleted(name=topic.name, number=topic.number)
        self._state.catalog.apply(change)
        self._state.catalog.begin_leaving(topic)
        self._deletions[topic.name] = going
        deletion = DeleteLogs(topic.name, topic.stated.partitions)
        self._state.topics_journal.note([change], [deletion])

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

    def list_all(self, request: RequestId) -> None:
        names = tuple(topic.name for topic in self._state.catalog)
        self._state.outbox.answer(request, TopicList(topics=names))

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

    def describe_all(self) -> Generator[int, None, tuple[TopicDescription, ...]]:
        """All topics, without those that are deleted in the meantime."""
        descriptions = []
        for topic in self._state.catalog:
            try:
                descriptions.append((yield from self._describe(topic)))
            except Refused:
                continue
        return tuple(descriptions)

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

    def _messages_in(self, partition: Partition) -> int:
        start, end = partition.log.start, partition.log.watermarks.stable
        return end - start - self._state.hidden_within(partition.log_id, start, end)

    def _describe(self, topic: Topic) -> Generator[int, None, TopicDescription]:
        total_messages = total_bytes = 0
        offsets = []
        for partition in self._partitions_of(topic):
            log = partition.log
            total_messages += self._messages_in(partition)
            total_bytes += log.size
            offsets.append((log.start, Offset(log.high_watermark - 1)))
            yield 1
        return TopicDescription(
            name=topic.name,
            config=topic.config,
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
