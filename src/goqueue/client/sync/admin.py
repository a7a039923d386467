"""Administration for threads; see `goqueue.client.admin`."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack

from goqueue.client.admin import DeadLetters, DelayedMessages, Groups, Topics, Transactions
from goqueue.client.admin_replies import (
    DelayedMessage,
    DelayedPage,
    DelayStats,
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    Partition,
    PartitionStart,
    ResetOffsets,
    Topic,
    TransactionDescription,
    TransactionPage,
    TransactionStats,
)
from goqueue.client.backups import Backup, BackupRestore, Backups, Progress
from goqueue.client.schedules import (
    UNCHANGED,
    Schedule,
    ScheduleOptions,
    SchedulePage,
    ScheduleRun,
    Schedules,
)
from goqueue.client.schemas import (
    CompatibilityLevel,
    CompatibilityReport,
    RegistryStats,
    Schema,
    SchemaInput,
    SchemaLink,
    SchemaLocation,
    Schemas,
    SchemaSet,
    SchemaTypeName,
    SchemaVersion,
    T,
)
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.topic_settings import NewTopicSettings, TopicSettings
from goqueue.client.traces import Trace, TraceCriteria, TraceList, Traces, TraceStats
from goqueue.client.values import Value

if TYPE_CHECKING:
    from goqueue.client.dead_letter import DeadLetter
    from goqueue.client.serializers import Serializer

__all__ = [
    "SyncBackups",
    "SyncDeadLetters",
    "SyncDelayedMessages",
    "SyncGroups",
    "SyncSchedules",
    "SyncSchemas",
    "SyncTopics",
    "SyncTraces",
    "SyncTransactions",
]


class SyncTopics:
    # Generated from Topics by `make sync-client`.
    """`q.topics`. Settings are named as in `TopicSettings`: `visibility_timeout="1m"`."""

    def __init__(self, loop: LoopThread, topics: Topics) -> None:
        self._loop = loop
        self._topics = topics

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        **settings: Unpack[NewTopicSettings],
    ) -> Topic:
        """Create a topic; `TopicExists` if there is one of this name.

        With `exist_ok` a topic that is there is returned as it is, unless it has another number of
        partitions than the one given. Its settings are not changed: `alter` does that.
        """
        return self._loop.call(
            self._topics.create(name, partitions=partitions, exist_ok=exist_ok, **settings)
        )

    def list(self) -> tuple[str, ...]:
        """Names, sorted."""
        return self._loop.call(self._topics.list())

    def describe(self, name: str) -> Topic:
        """Settings, partitions and sizes of a topic; `TopicNotFound` if there is none."""
        return self._loop.call(self._topics.describe(name))

    def alter(self, name: str, **settings: Unpack[TopicSettings]) -> Topic:
        """Change settings; what is not named stays as it is."""
        return self._loop.call(self._topics.alter(name, **settings))

    def delete(self, name: str) -> None:
        """Remove a topic, its messages and every group's place in it."""
        self._loop.call(self._topics.delete(name))

    def trim(self, name: str, offsets: Mapping[int, int]) -> tuple[PartitionStart, ...]:
        """Delete all messages before an offset, by partition; returns where they begin now.

        Messages that no group has read are deleted as well. What a pending delayed message or an
        open transaction needs is kept, and `kept_by` says so. Survives a crash once it returns.
        """
        return self._loop.call(self._topics.trim(name, offsets))

    def purge(self, name: str) -> tuple[PartitionStart, ...]:
        """Delete all messages that a topic holds now; as `trim` to the end of each partition."""
        return self._loop.call(self._topics.purge(name))

    def partitions(self, name: str) -> tuple[Partition, ...]:
        """The partitions of a topic, each with its offsets and its size."""
        return self._loop.call(self._topics.partitions(name))


class SyncGroups:
    # Generated from Groups by `make sync-client`.
    """`q.groups`."""

    def __init__(self, loop: LoopThread, groups: Groups) -> None:
        self._loop = loop
        self._groups = groups

    def list(self) -> tuple[GroupSummary, ...]:
        """Every group, sorted by name."""
        return self._loop.call(self._groups.list())

    def describe(self, group: str) -> GroupDescription:
        """Members of a group, and what is assigned to each; `NotFound` if there is none."""
        return self._loop.call(self._groups.describe(group))

    def delete(self, group: str) -> None:
        """Remove a group with its members, positions and leases."""
        self._loop.call(self._groups.delete(group))

    def lag(self, group: str) -> GroupLag:
        """How many messages a group has not settled yet, in all and by partition."""
        return self._loop.call(self._groups.lag(group))

    def offsets(self, group: str, *, topic: str | None = None) -> GroupOffsets:
        """The next offset of the group wherever it has a position."""
        return self._loop.call(self._groups.offsets(group, topic=topic))

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Move positions forward, by topic and partition, for a group without members.

        For a program that keeps its positions elsewhere and wants them seen. A lower offset leaves
        the position as it is; a group that nobody knows is made.
        """
        self._loop.call(self._groups.commit(group, offsets))

    def reset(
        self,
        group: str,
        topic: str,
        to: str | int | dt.datetime,
        *,
        partition: int | None = None,
        dry_run: bool = False,
    ) -> ResetOffsets:
        """Move positions to "earliest", "latest", an offset or a time; also back.

        A time is a datetime with a zone, or text (RFC 3339) with up to nanoseconds.
        """
        return self._loop.call(
            self._groups.reset(group, topic, to, partition=partition, dry_run=dry_run)
        )


class SyncDeadLetters:
    # Generated from DeadLetters by `make sync-client`.
    """`q.dead_letters`; the topic named is the one that the letters came from."""

    def __init__(self, loop: LoopThread, dead_letters: DeadLetters) -> None:
        self._loop = loop
        self._dead_letters = dead_letters

    def list(self, topic: str, *, limit: int = 100) -> "tuple[DeadLetter, ...]":
        """The oldest dead letters of a topic, redriven ones included.

        What somebody published to the dead-letter topic by hand is left out, and so are those of
        other topics with the same dead-letter topic.
        """
        return self._loop.call(self._dead_letters.list(topic, limit=limit))

    def redrive(
        self,
        topic: str,
        *,
        limit: int | None = None,
        to_topic: str | None = None,
        reason: str | None = None,
        letters: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        """Redrive dead letters, oldest first, at most `limit` (1000); returns how many.

        Call it again until it returns 0. `letters` selects dead letters: offsets of the dead-letter
        topic by partition.
        """
        return self._loop.call(
            self._dead_letters.redrive(
                topic, limit=limit, to_topic=to_topic, reason=reason, letters=letters
            )
        )


class SyncDelayedMessages:
    # Generated from DelayedMessages by `make sync-client`.
    """`q.delayed`; a message is named by the place that its publishing answered."""

    def __init__(self, loop: LoopThread, delayed_messages: DelayedMessages) -> None:
        self._loop = loop
        self._delayed_messages = delayed_messages

    def list(self, topic: str, *, limit: int = 100, skip: int = 0) -> tuple[DelayedMessage, ...]:
        """Those that wait, by the time they are due; at most 1000 at once."""
        return self._loop.call(self._delayed_messages.list(topic, limit=limit, skip=skip))

    def page(self, topic: str, *, limit: int = 100, skip: int = 0) -> DelayedPage:
        """The same with their total, for a program that shows them page by page."""
        return self._loop.call(self._delayed_messages.page(topic, limit=limit, skip=skip))

    def get(self, topic: str, offset: int, *, partition: int | None = None) -> DelayedMessage:
        """One message, also when it was delivered or cancelled; `NotFound` if there is none."""
        return self._loop.call(self._delayed_messages.get(topic, offset, partition=partition))

    def cancel(self, topic: str, partition: int, offset: int) -> None:
        """Never deliver it; may be repeated. `AlreadyDelivered` if this comes too late."""
        self._loop.call(self._delayed_messages.cancel(topic, partition, offset))

    def stats(self) -> DelayStats:
        """Counts over all topics of the node."""
        return self._loop.call(self._delayed_messages.stats())


class SyncTransactions:
    # Generated from Transactions by `make sync-client`.
    """`q.transactions`; to work in one of your own see `q.transaction`."""

    def __init__(self, loop: LoopThread, transactions: Transactions) -> None:
        self._loop = loop
        self._transactions = transactions

    def list(self, *, limit: int = 100, skip: int = 0) -> tuple[TransactionDescription, ...]:
        """A page of those that have not ended, the oldest first; a page has at most 1,000."""
        return self._loop.call(self._transactions.list(limit=limit, skip=skip))

    def page(self, *, limit: int = 100, skip: int = 0) -> TransactionPage:
        """The same with their total, for a program that shows them page by page."""
        return self._loop.call(self._transactions.page(limit=limit, skip=skip))

    def describe(self, transaction_id: str) -> TransactionDescription:
        """One that is open, or the last of its producer; `TransactionNotFound` otherwise."""
        return self._loop.call(self._transactions.describe(transaction_id))

    def abort(self, transaction_id: str) -> TransactionDescription:
        """Abort a transaction that hangs, also one of another producer.

        Returns the transaction as it was before. Its producer learns of it with its next request,
        and may begin another.
        """
        return self._loop.call(self._transactions.abort(transaction_id))

    def stats(self) -> TransactionStats:
        """Counts over all transactions of the node."""
        return self._loop.call(self._transactions.stats())


class SyncBackups:
    # Generated from Backups by `make sync-client`.
    """`q.backups`."""

    def __init__(self, loop: LoopThread, backups: Backups) -> None:
        self._loop = loop
        self._backups = backups

    def create(
        self,
        *,
        topics: bool = True,
        offsets: bool = True,
        schemas: bool = True,
        config: bool = True,
    ) -> Backup:
        """Begin a backup of this moment; see `wait`.

        While another backup or a restore is running, the code is `backup_busy`.
        """
        return self._loop.call(
            self._backups.create(topics=topics, offsets=offsets, schemas=schemas, config=config)
        )

    def list(self) -> tuple[Backup, ...]:
        """All backups, the newest first."""
        return self._loop.call(self._backups.list())

    def describe(self, backup_id: str) -> Backup:
        """One backup, with the names of what it holds; `NotFound` if there is none."""
        return self._loop.call(self._backups.describe(backup_id))

    def delete(self, backup_id: str) -> None:
        """Delete a backup."""
        self._loop.call(self._backups.delete(backup_id))

    def restore(self, backup_id: str, *, skip_existing: bool = False) -> Backup:
        """Begin to restore a backup; see `wait_for_restore`.

        `TopicExists` if one of its topics exists, unless those are to be skipped.
        """
        return self._loop.call(self._backups.restore(backup_id, skip_existing=skip_existing))

    def wait(self, backup_id: str, *, progress: Progress | None = None) -> Backup:
        """Wait until a backup is complete; `progress` is called with it as it grows.

        Raises `GoQueueError` with the code `backup_failed` if it fails.
        """
        return self._loop.call(self._backups.wait(backup_id, progress=progress))

    def wait_for_restore(
        self, backup_id: str, *, progress: Progress | None = None
    ) -> BackupRestore:
        """Wait until the restore of a backup has ended.

        Raises `GoQueueError` with the code `restore_failed` if it fails: nothing was restored then.
        """
        return self._loop.call(self._backups.wait_for_restore(backup_id, progress=progress))


class SyncSchedules:
    # Generated from Schedules by `make sync-client`.
    """`q.schedules`. Exactly one of `every` and `cron` says when a schedule ticks."""

    def __init__(self, loop: LoopThread, schedules: Schedules) -> None:
        self._loop = loop
        self._schedules = schedules

    def create(
        self,
        name: str,
        topic: str,
        value: Value,
        *,
        paused: bool = False,
        replace: bool = False,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Publish a message to a topic again and again; see `ScheduleOptions`.

        A name that is taken is refused with the code `schedule_exists`. With `replace` the
        definition is replaced instead, which may be repeated, as by every start of a program.
        """
        return self._loop.call(
            self._schedules.create(name, topic, value, paused=paused, replace=replace, **options)
        )

    def list(self, *, limit: int = 100, skip: int = 0) -> tuple[Schedule, ...]:
        """A page of the schedules by name; a page has at most 1,000."""
        return self._loop.call(self._schedules.list(limit=limit, skip=skip))

    def page(self, *, limit: int = 100, skip: int = 0) -> SchedulePage:
        """The same with their total, for a program that shows them page by page."""
        return self._loop.call(self._schedules.page(limit=limit, skip=skip))

    def describe(self, name: str) -> Schedule:
        """One schedule; `NotFound` if there is none of this name."""
        return self._loop.call(self._schedules.describe(name))

    def alter(
        self,
        name: str,
        *,
        topic: str | None = None,
        value: Value = UNCHANGED,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Change a schedule; what is not named stays as it is, and other times count from now on.

        A `value` replaces the whole message, with its key, headers, partition and priority.
        """
        return self._loop.call(self._schedules.alter(name, topic=topic, value=value, **options))

    def pause(self, name: str) -> Schedule:
        """Send no tick any more, until it is resumed."""
        return self._loop.call(self._schedules.pause(name))

    def resume(self, name: str) -> Schedule:
        """Tick from now on; ticks of the pause are not sent."""
        return self._loop.call(self._schedules.resume(name))

    def run(self, name: str) -> ScheduleRun:
        """Publish its message now, beside its ticks, also while it is paused."""
        return self._loop.call(self._schedules.run(name))

    def delete(self, name: str) -> None:
        """Delete a schedule; no tick follows."""
        self._loop.call(self._schedules.delete(name))


class SyncTraces:
    # Generated from Traces by `make sync-client`.
    """`q.traces`: only the newest events are kept, and none of before the last start."""

    def __init__(self, loop: LoopThread, traces: Traces) -> None:
        self._loop = loop
        self._traces = traces

    def list(self, *, limit: int = 100) -> TraceList:
        """The newest, 1000 at most."""
        return self._loop.call(self._traces.list(limit=limit))

    def search(self, *, limit: int = 100, **wanted: Unpack[TraceCriteria]) -> TraceList:
        """The newest with an event that is like this."""
        return self._loop.call(self._traces.search(limit=limit, **wanted))

    def get(self, trace_id: str) -> Trace:
        """Everything that is kept of one; `NotFound` if that is nothing."""
        return self._loop.call(self._traces.get(trace_id))

    def stats(self) -> TraceStats:
        """Counts over all that is kept."""
        return self._loop.call(self._traces.stats())


class SyncSchemas:
    # Generated from Schemas by `make sync-client`.
    """`q.schemas`. A schema is text, or a mapping that is written as JSON."""

    def __init__(self, loop: LoopThread, schemas: Schemas) -> None:
        self._loop = loop
        self._schemas = schemas

    def list(self) -> tuple[str, ...]:
        """The subjects by name."""
        return self._loop.call(self._schemas.list())

    def register(
        self,
        subject: str,
        schema: SchemaInput,
        *,
        type: SchemaTypeName = "JSON",
        references: Sequence[SchemaLink] = (),
    ) -> SchemaLocation:
        """Add a version to a subject; the same content again has the same answer.

        Refused with `schema_invalid`, or with `schema_incompatible` and the reasons in
        `error.details["messages"]`.
        """
        return self._loop.call(
            self._schemas.register(subject, schema, type=type, references=references)
        )

    def find(
        self,
        subject: str,
        schema: SchemaInput,
        *,
        type: SchemaTypeName = "JSON",
        references: Sequence[SchemaLink] = (),
    ) -> SchemaLocation:
        """The version of a subject with this content; `NotFound` if it is not registered."""
        return self._loop.call(
            self._schemas.find(subject, schema, type=type, references=references)
        )

    def get(self, subject: str, version: int | Literal["latest"] = "latest") -> SchemaVersion:
        """A version of a subject; `NotFound` if there is none."""
        return self._loop.call(self._schemas.get(subject, version))

    def get_by_id(self, id: int) -> Schema:
        """The schema with an id, also if its versions were deleted."""
        return self._loop.call(self._schemas.get_by_id(id))

    def versions(self, subject: str) -> tuple[int, ...]:
        """The versions of a subject, ascending; `NotFound` if there is no such subject."""
        return self._loop.call(self._schemas.versions(subject))

    def check(
        self,
        subject: str,
        schema: SchemaInput,
        *,
        version: int | Literal["latest"] = "latest",
        type: SchemaTypeName = "JSON",
        references: Sequence[SchemaLink] = (),
    ) -> CompatibilityReport:
        """Whether a schema is compatible with a version, by the level of the subject."""
        return self._loop.call(
            self._schemas.check(subject, schema, version=version, type=type, references=references)
        )

    def compatibility(self, subject: str | None = None) -> str:
        """The level of a subject, or the global one."""
        return self._loop.call(self._schemas.compatibility(subject))

    def set_compatibility(self, level: CompatibilityLevel, subject: str | None = None) -> str:
        """Set the level of a subject, or the global one."""
        return self._loop.call(self._schemas.set_compatibility(level, subject))

    def delete(
        self,
        subject: str,
        version: int | Literal["latest"] | None = None,
        *,
        permanent: bool = False,
    ) -> tuple[int, ...]:
        """Delete a version, or all versions of a subject; returns which.

        They leave the lists, and their ids still resolve. With `permanent` versions that were
        deleted before are removed: data with their ids can no longer be read.
        """
        return self._loop.call(self._schemas.delete(subject, version, permanent=permanent))

    def stats(self) -> RegistryStats:
        """Counts of subjects, schemas and versions."""
        return self._loop.call(self._schemas.stats())

    def encode(
        self, serializer: "Serializer[object]", value: object, *, topic: str | None = None
    ) -> bytes | None:
        """A value in registry framing; None stays None.

        The schema of the serializer is registered first, once. Without a subject of its own it is
        that of the topic: `<topic>-value`.
        """
        return self._loop.call(self._schemas.encode(serializer, value, topic=topic))

    def decode(self, serializer: "Serializer[T]", value: bytes | None) -> T | None:
        """What a value in registry framing says; a tombstone is None.

        `DecodeError` if it is not framed, or cannot be read.
        """
        return self._loop.call(self._schemas.decode(serializer, value))

    def resolve(self, found: Schema | SchemaVersion) -> SchemaSet:
        """The schema with all that it refers to; the registry has no cycles."""
        return self._loop.call(self._schemas.resolve(found))
