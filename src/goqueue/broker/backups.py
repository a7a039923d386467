"""Backups: one turn fixes the moment, later turns and the disk put together what it was.

The moment
----------
The turn of `CreateBackup` notes, for every partition, the high watermark and where the committed
records end on disk; for every transaction that is decided but whose markers may be missing, that it
was committed; and takes a checkpoint of all positions, which costs nothing now: each position keeps
what it was when it is first changed afterwards. A transaction is decided, and the positions in it
settled, in one turn, and its records are committed before: so the moment has all of a transaction
or nothing of it. The turn takes about two microseconds for each partition.

What follows, in bounded turns
------------------------------
- *Stating*: groups, positions as of the checkpoint, schedules, tenants, ACLs and schemas as they
  were copied in that turn, in chunks of JSON.
- *Holding*: the disk thread links the segments of a few logs at a time. Until all are linked no log
  begins retention or compaction (`NodeState.holds_segments`): a compaction that looks beyond the
  moment could remove the last record of a key before it. One that was begun earlier looks at
  nothing beyond it, and may end. What callers delete meanwhile is not in the backup; a topic is in
  it with all its partitions or not at all.
- *Writing*: a job of the shell copies tails, adds sums, and gives the backup its name.

One backup or restore at a time. Nothing of it is journaled: a crash leaves no backup, or all of it.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from goqueue.broker.backup_state import (
    AclsSaved,
    BackupStateWriter,
    PositionSaved,
    ScheduleSaved,
    SchemasSaved,
    TopicSaved,
    acls_digest,
    saved_group,
    saved_schedule,
    saved_subjects,
    saved_tenants,
    saved_topic,
)
from goqueue.broker.groups.dead_letters import DEAD_LETTERS_GROUP
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import (
    MILLISECOND,
    SECOND,
    BackedUpLog,
    BackupBegan,
    BackupCompleted,
    BackupDeleted,
    BackupEvent,
    BackupGivenUp,
    BackupJobFailed,
    BackupProgressed,
    BackupRemoved,
    BackupsFound,
    BackupStarted,
    BackupWritten,
    Code,
    FindBackups,
    HeldLog,
    HoldSegments,
    LogExtent,
    LogId,
    Now,
    Offset,
    Refused,
    RemoveBackup,
    Report,
    RequestId,
    RunBackupJob,
    SegmentsHeld,
    Timestamp,
    WriteBackup,
    format_time,
)
from goqueue.model.requests import (
    AclSpec,
    BackupDescription,
    BackupList,
    BackupProgress,
    BackupStatistics,
    BackupSummary,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    Done,
    RestoreDescription,
    SavedSchema,
    SavedTopic,
)
from goqueue.schemas import SchemaCopy
from goqueue.security import AclStated, TenantStated

__all__ = ["Backups"]

# So many logs are linked before others get the disk thread again.
_HOLD_MAX = 32
# How many bytes of a position cost one unit of a turn.
_UNIT_BYTES = 512
# The sum of so many ACLs costs one unit.
_ACLS_PER_UNIT = 10
_CLUSTER = ""


class _CutLog(msgspec.Struct, frozen=True):
    """A log at the moment of a backup: where its committed records end."""

    partition: Partition
    end: Offset
    extent: tuple[Offset, int] | None


class _Creation:
    """A backup that is being taken."""

    def __init__(self, backup: str, request: RequestId, command: CreateBackup, now: Now) -> None:
        self.id = backup
        self.request: RequestId | None = request
        self.command = command
        self.began = now
        self.topics: list[TopicSaved] = []
        self.schedules: list[ScheduleSaved] = []
        self.tenants: list[TenantStated] = []
        self.acls: dict[str, AclSpec] = {}
        self.schemas: SchemaCopy | None = None
        self.saved_schemas: list[SavedSchema] = []
        self.committed: tuple[tuple[int, int], ...] = ()
        self.cut: list[_CutLog] = []
        self.to_hold: deque[_CutLog] = deque()
        self.held: dict[LogId, HeldLog] = {}
        self.messages: dict[LogId, int] = {}
        self.groups: list[str] = []
        self.state = BackupStateWriter()
        self.is_stated = False
        self.is_held = False


class Backups:
    """Takes commands about backups, and takes backups."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # By id; None until the shell has told which there are.
        self._known: dict[str, BackupDescription] | None = None
        self._creation: _Creation | None = None
        self._deletions: dict[str, RequestId | None] = {}
        # Whether a restore is running.
        self.is_restoring = False

    def begin(self) -> None:
        """A life begins: learn which backups there are."""
        self._state.outbox.append(RunBackupJob(job=FindBackups()))

    # What there is

    def find(self, backup: str) -> BackupDescription:
        """The backup of this id; refuses one that does not exist."""
        found = self._all().get(backup)
        if found is None:
            raise Refused(Code.BACKUP_NOT_FOUND, backup=backup[:64])
        return found

    def _all(self) -> dict[str, BackupDescription]:
        if self._known is None:
            reason = "the backups are being looked for"
            raise Refused(Code.BROKER_UNAVAILABLE, reason=reason)
        return self._known

    def check_idle(self) -> None:
        """Refuse what has to wait for a backup or a restore."""
        self._all()
        if self._creation is not None or self.is_restoring or self._deletions:
            raise Refused(Code.BACKUP_BUSY)

    def describe(self, request: RequestId, command: DescribeBackup) -> None:
        self._state.outbox.answer(request, self.find(command.backup))

    def list_all(self, request: RequestId) -> None:
        known = self._all()
        backups = tuple(known[backup] for backup in sorted(known, reverse=True))
        self._state.outbox.answer(request, BackupList(backups=backups))

    def record_restore(self, backup: str, restore: RestoreDescription) -> BackupDescription:
        """Remember how far a restore of a backup is."""
        described = msgspec.structs.replace(self.find(backup), restore=restore)
        self._all()[backup] = described
        return described

    # The moment

    def create(self, request: RequestId, command: CreateBackup, now: Now) -> None:
        self.check_idle()
        creation = _Creation(self._new_id(now), request, command, now)
        state = self._state
        topics = [topic for topic in state.catalog if command.has_topics or command.has_config]
        owner, has_config = state.access.owner, command.has_config
        creation.topics = [
            saved_topic(each, owner(each.name), has_config=has_config) for each in topics
        ]
        if command.has_config:
            schedules = state.schedules
            creation.schedules = [saved_schedule(each, owner(each.spec.name)) for each in schedules]
            creation.tenants = saved_tenants(state.security)
            creation.acls = state.security.acls.copy()
        if command.has_schemas:
            creation.schemas = state.schemas.copy()
        if command.has_topics:
            self._cut_logs(creation, [log for topic in topics for log in topic.logs])
        state.audit.record(request, state.journals.of_topics)
        self._creation = creation
        state.tally.backups_running = 1
        self._describe_running(creation)
        began = BackupBegan(
            backup=creation.id, topics=len(creation.topics), partitions=len(creation.cut)
        )
        state.outbox.append(Report(report=began))
        state.stepwise.begin(None, self._state_all(creation), now)
        self._hold_more(creation)

    def _new_id(self, now: Now) -> str:
        """The time in UTC; where two backups are taken within a second, a later one."""
        second = now.wall // SECOND
        while (backup := _id_of(Timestamp(second * SECOND))) in self._all():
            second += 1
        return backup

    def _cut_logs(self, creation: _Creation, logs: Iterable[LogId]) -> None:
        state = self._state
        for log in logs:
            partition = state.partitions[log]
            end = partition.log.high_watermark
            creation.cut.append(_CutLog(partition, end, partition.log.committed_extent))
        creation.to_hold.extend(creation.cut)
        creation.committed = tuple(
            (each.producer, each.number)
            for each in state.transactions.finishing
            if each.outcome is not None and each.outcome.is_commit
        )
        state.holds_segments = bool(creation.cut)
        if creation.command.has_offsets:
            state.group_partitions.checkpoint.take()

    # Stating

    def _state_all(self, creation: _Creation) -> Steps:
        """What the backup says of its moment, a few things at a time."""
        writer = creation.state
        for topic in creation.topics:
            writer.add(topic)
            yield 1
        for cut in creation.cut:
            log = cut.partition.log_id
            if self._state.partitions.get(log) is cut.partition:
                start = min(cut.partition.log.start, cut.end)
                hidden = self._state.hidden_within(log, start, cut.end)
                creation.messages[log] = cut.end - start - hidden
            yield 1
        if creation.command.has_topics and creation.command.has_offsets:
            yield from self._state_groups(creation)
        for schedule in creation.schedules:
            writer.add(schedule)
            yield 1
        for tenant in creation.tenants:
            writer.add(tenant)
            yield 1
        for acl_id, acl in creation.acls.items():
            writer.add(AclStated(id=acl_id, acl=acl))
            yield 1
        if creation.acls:
            writer.add(AclsSaved(count=len(creation.acls), digest=acls_digest(creation.acls)))
            yield len(creation.acls) // _ACLS_PER_UNIT
        yield from self._state_schemas(creation)
        creation.is_stated = True
        self._write_when_ready(creation)

    def _state_schemas(self, creation: _Creation) -> Steps:
        schemas = creation.schemas
        if schemas is None:
            return
        creation.state.add(SchemasSaved(next_id=schemas.next_id, level=schemas.level))
        for content in sorted(schemas.contents, key=lambda each: each.id):
            yield 1 + creation.state.add(content) // _UNIT_BYTES
        for subject in saved_subjects(schemas, self._state.access.owner):
            yield 1 + creation.state.add(subject) // _UNIT_BYTES
            creation.saved_schemas += (
                SavedSchema(subject=subject.name, version=each.version) for each in subject.versions
            )

    def _state_groups(self, creation: _Creation) -> Steps:
        state, names = self._state, {topic.name for topic in creation.topics}
        for number in [group.number for group in state.groups]:
            group = state.groups.numbered(number)
            if group is not None:
                creation.state.add(saved_group(group, state.access.owner(group.name)))
                creation.groups.append(group.name)
            yield 1
        for number in state.group_partitions.groups:
            group = state.groups.numbered(number)
            if group is None and number != DEAD_LETTERS_GROUP:
                continue
            for place in state.group_partitions.of_group(number):
                stated = place.position.stated_at_checkpoint()
                if stated is None or place.log.topic not in names:
                    yield 1
                    continue
                saved = PositionSaved(
                    topic=place.log.topic,
                    partition=place.log.partition,
                    position=stated,
                    group=None if group is None else group.name,
                )
                yield 1 + creation.state.add(saved) // _UNIT_BYTES

    # Holding

    def _hold_more(self, creation: _Creation) -> None:
        batch = [creation.to_hold.popleft() for _ in range(min(_HOLD_MAX, len(creation.to_hold)))]
        if batch:
            extents = tuple(map(_extent_of, batch))
            self._state.outbox.append(HoldSegments(backup=creation.id, logs=extents))
            return
        self._state.holds_segments = False
        creation.is_held = True
        self._write_when_ready(creation)

    def _held(self, creation: _Creation, event: SegmentsHeld) -> None:
        creation.held.update((each.log, each) for each in event.logs)
        self._hold_more(creation)

    # Writing

    def _write_when_ready(self, creation: _Creation) -> None:
        if self._creation is not creation or not creation.is_held or not creation.is_stated:
            return
        logs = list(self._backed_up(creation))
        gone = {cut.partition.log_id.topic for cut in creation.cut} - {
            each.log.topic for each in logs
        }
        topics = [topic for topic in creation.topics if topic.name not in gone]
        statistics = BackupStatistics(
            topics=len(topics),
            partitions=sum(topic.partitions for topic in topics),
            messages=sum(creation.messages.get(each.log, 0) for each in logs),
            bytes=sum(segment.size for each in logs for segment in each.segments),
            groups=len(creation.groups),
            schemas=len(creation.saved_schemas),
        )
        summary = msgspec.structs.replace(
            self._summary(creation),
            statistics=statistics,
            topics=tuple(SavedTopic(name=each.name, partitions=each.partitions) for each in topics),
            groups=tuple(sorted(creation.groups)),
            schemas=tuple(creation.saved_schemas),
        )
        job = WriteBackup(
            summary=summary,
            logs=tuple(logs),
            committed=creation.committed,
            state=creation.state.chunks(),
            elapsed_ns=0,
        )
        self._state.outbox.append(RunBackupJob(job=job))

    def _backed_up(self, creation: _Creation) -> Iterator[BackedUpLog]:
        """The logs that are held, of topics that are held with all their partitions."""
        missing = {
            cut.partition.log_id.topic
            for cut in creation.cut
            if cut.partition.log_id not in creation.held
            or self._state.partitions.get(cut.partition.log_id) is not cut.partition
        }
        has_producers = {topic.name: topic.has_producers for topic in creation.topics}
        for cut in creation.cut:
            log = cut.partition.log_id
            if log.topic in missing:
                continue
            segments = creation.held[log].segments
            start = max(cut.partition.log.start, segments[0].base) if segments else cut.end
            yield BackedUpLog(
                log=log,
                start=min(start, cut.end),
                end=cut.end,
                segments=segments,
                epochs=cut.partition.log.epochs.history,
                has_producers=has_producers[log.topic],
            )

    # What the shell reports

    def handle(self, event: BackupEvent, now: Now) -> None:
        """Learn what came of a hold or a job."""
        creation = self._creation
        match event:
            case BackupsFound():
                self._found(event)
            case BackupRemoved():
                self._removed(event)
            case SegmentsHeld() if creation is not None:
                self._held(creation, event)
            case BackupStarted() if creation is not None:
                self._answer(creation, self.find(creation.id))
            case BackupProgressed() if creation is not None:
                described = self._all()[creation.id]
                statistics = BackupStatistics(
                    topics=len(creation.topics),
                    partitions=len(creation.cut),
                    bytes=event.bytes,
                    duration_ns=now.instant - creation.began.instant,
                )
                summary = msgspec.structs.replace(described.summary, statistics=statistics)
                self._all()[creation.id] = msgspec.structs.replace(described, summary=summary)
            case BackupWritten() if creation is not None:
                self._written(creation, event)
            case BackupJobFailed() if creation is not None:
                self._give_up(creation, event.code, event.reason)
            case _:
                # Of one that was given up before.
                pass

    def _found(self, event: BackupsFound) -> None:
        self._known = {}
        for found in event.backups:
            is_usable = found.summary is not None
            self._known[found.id] = BackupDescription(
                summary=found.summary or _unknown(found.id, self._state.node_id),
                state=BackupProgress.COMPLETED if is_usable else BackupProgress.FAILED,
                error=found.error,
            )
            if found.summary is not None:
                tally = self._state.tally
                tally.backup_completed_at = max(tally.backup_completed_at, found.summary.created_at)

    def _written(self, creation: _Creation, event: BackupWritten) -> None:
        self._creation = None
        summary = event.summary
        described = BackupDescription(summary=summary, state=BackupProgress.COMPLETED)
        self._all()[creation.id] = described
        tally = self._state.tally
        tally.backups_running = 0
        tally.backups_completed += 1
        tally.backup_completed_at = summary.created_at
        self._answer(creation, described)
        statistics = summary.statistics
        completed = BackupCompleted(
            backup=creation.id,
            topics=statistics.topics,
            partitions=statistics.partitions,
            messages=statistics.messages,
            data_bytes=statistics.bytes,
            took_ms=statistics.duration_ns // MILLISECOND,
        )
        self._state.outbox.append(Report(report=completed))

    def _give_up(self, creation: _Creation, code: Code, reason: str) -> None:
        """What was linked and copied is removed by a job, or by the next start."""
        self._creation = None
        self._state.holds_segments = False
        self._state.tally.backups_running = 0
        self._state.tally.backups_failed += 1
        described = self._all()[creation.id]
        self._all()[creation.id] = msgspec.structs.replace(
            described, state=BackupProgress.FAILED, error=reason
        )
        if creation.request is not None:
            # Nobody was told that it was begun.
            del self._all()[creation.id]
            self._state.outbox.answer(creation.request, Refused(code, reason=reason))
        self._deletions[creation.id] = None
        self._state.outbox.append(RunBackupJob(job=RemoveBackup(backup=creation.id)))
        self._state.outbox.append(Report(report=BackupGivenUp(backup=creation.id, reason=reason)))

    def end_all(self) -> None:
        """The node stops: nobody waits any longer."""
        creation = self._creation
        if creation is not None and creation.request is not None:
            refusal = Refused(Code.BROKER_UNAVAILABLE, reason="stopping")
            self._state.outbox.answer(creation.request, refusal)
            creation.request = None
        for request in self._deletions.values():
            if request is not None:
                refusal = Refused(Code.BROKER_UNAVAILABLE, reason="stopping")
                self._state.outbox.answer(request, refusal)
        self._deletions = dict.fromkeys(self._deletions)

    def _answer(self, creation: _Creation, described: BackupDescription) -> None:
        if creation.request is not None:
            self._state.outbox.answer(creation.request, described)
            creation.request = None

    def _describe_running(self, creation: _Creation) -> None:
        self._all()[creation.id] = BackupDescription(
            summary=self._summary(creation), state=BackupProgress.RUNNING
        )

    def _summary(self, creation: _Creation) -> BackupSummary:
        return BackupSummary(
            id=creation.id,
            created_at=creation.began.wall,
            node=self._state.node_id,
            cluster=_CLUSTER,
            version="",
            statistics=BackupStatistics(topics=len(creation.topics), partitions=len(creation.cut)),
        )

    # Deleting

    def delete(self, request: RequestId, command: DeleteBackup) -> None:
        self.check_idle()
        self.find(command.backup)
        self._state.audit.record(request, self._state.journals.of_topics)
        self._deletions[command.backup] = request
        self._state.outbox.append(RunBackupJob(job=RemoveBackup(backup=command.backup)))

    def _removed(self, event: BackupRemoved) -> None:
        request = self._deletions.pop(event.backup, None)
        if event.failure is None and request is not None:
            self._all().pop(event.backup, None)
            self._state.outbox.append(Report(report=BackupDeleted(backup=event.backup)))
        if request is not None:
            refused = Refused(Code.STORAGE_FAILED, reason=event.failure or "")
            self._state.outbox.answer(request, refused if event.failure else Done())


def _extent_of(cut: _CutLog) -> LogExtent:
    tail, size = cut.extent or (Offset(0), -1)
    return LogExtent(log=cut.partition.log_id, end=cut.end, tail=tail, tail_bytes=size)


def _id_of(wall: Timestamp) -> str:
    """`YYYY-MM-DD-HHMMSS` in UTC."""
    date, _, rest = format_time(wall).partition("T")
    return f"{date}-{rest[:8].replace(':', '')}"


def _unknown(backup: str, node: str) -> BackupSummary:
    return BackupSummary(
        id=backup,
        created_at=Timestamp(0),
        node=node,
        cluster=_CLUSTER,
        version="",
        statistics=BackupStatistics(),
    )
