"""Restores: topics, positions, schedules, tenants, ACLs and schemas of a backup come to this node.

`restore_journal` says in which order a restore is journaled, and why a crash leaves all of it or
nothing. Here is what takes it from step to step, each in bounded turns:

staging (a job of the shell) → contents of schemas, topics → groups and positions → adopting (a job)
→ the decision, with tenants, ACLs and versions of schemas → opening logs. All of it happens without
a topic, too. Whatever fails before the decision undoes what was stated; after it nothing can fail
but the process, and a start finishes it.

What a backup says is checked as if a stranger had written it: names, counts and settings as those
of a command, positions against the logs they are in.
"""

import enum
from collections.abc import Iterator

import msgspec

from goqueue.broker.backup_state import (
    AclsSaved,
    BackupItem,
    GroupSaved,
    PositionSaved,
    ScheduleSaved,
    SchemasSaved,
    SubjectSaved,
    TopicSaved,
    decode_items,
)
from goqueue.broker.backups import Backups
from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.groups.dead_letters import DEAD_LETTERS_GROUP
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.journal_changes import (
    RestoreCommitted,
    RestoreEnded,
    RestoreStated,
    TopicDeleted,
    TopicStated,
    state_position,
)
from goqueue.broker.outbox import ContinueRestore
from goqueue.broker.restore_journal import apply_restore, undo_groups
from goqueue.broker.restored_access import RestoredAccess
from goqueue.broker.restored_schemas import RestoredSchemas
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import names_with_prefix
from goqueue.broker.tick_sender import TickSender
from goqueue.broker.turns import Steps
from goqueue.delivery import Position, PositionStated
from goqueue.groups import GroupStated
from goqueue.model import (
    HOUR,
    AdoptRestore,
    BackupEvent,
    BackupJobFailed,
    Code,
    DiscardRestore,
    Instant,
    LogId,
    Now,
    Offset,
    Open,
    Refused,
    Report,
    RequestId,
    RestoreAdopted,
    RestoreBegan,
    RestoreCompleted,
    RestoreDiscarded,
    RestoreGivenUp,
    RestoreStaged,
    RunBackupJob,
    StageRestore,
    check_name,
    runs,
)
from goqueue.model.requests import (
    BackupProgress,
    RestoreBackup,
    RestoreDescription,
    TopicConfig,
)
from goqueue.schemas import SchemaStated
from goqueue.security import AclStated, TenantStated

__all__ = ["Restores"]

_UNIT_BYTES = 512
# An old backup may hold messages beyond their retention: an operator has so long to raise it.
_SPARED_NS = HOUR
# The bits of a stretch fill whole octets, and may begin with a block of 512.
_STRETCH_MAX = 512


class _Step(enum.Enum):
    STAGING = enum.auto()
    TOPICS = enum.auto()
    GROUPS = enum.auto()
    ADOPTING = enum.auto()
    DECIDING = enum.auto()
    OPENING = enum.auto()
    UNDOING = enum.auto()


class _Restore:
    """A restore that is running."""

    def __init__(
        self,
        backup: str,
        access: RestoredAccess,
        schemas: RestoredSchemas,
        *,
        skips_existing: bool,
        skipped: int,
    ) -> None:
        self.access = access
        self.backup = backup
        self.skips_existing = skips_existing
        self.step = _Step.STAGING
        self.skipped = skipped
        self.staged: RestoreStaged | None = None
        # The number of its first topic, once there is one.
        self.number = 0
        # Numbers by name.
        self.topics: dict[str, int] = {}
        self.ends: dict[LogId, Offset] = {}
        self.groups: dict[str, None] = {}
        self.schedules: list[int] = []
        self.schemas = schemas
        self.unopened: dict[LogId, None] = {}
        self.error: str | None = None


class Restores:
    """Takes commands to restore backups, and carries them out."""

    def __init__(
        self,
        state: NodeState,
        backups: Backups,
        positions: Positions,
        delayed_messages: DelayedMessages,
        tick_sender: TickSender,
    ) -> None:
        self._state = state
        self._backups = backups
        self._positions = positions
        self._delayed_messages = delayed_messages
        self._tick_sender = tick_sender
        self._running: _Restore | None = None

    def restore(self, request: RequestId, command: RestoreBackup) -> None:
        self._backups.check_idle()
        found = self._backups.find(command.backup)
        if found.state is not BackupProgress.COMPLETED:
            reason = found.error or "the backup is not complete"
            raise Refused(Code.REQUEST_INVALID, field="backup_id", reason=reason)
        names = [topic.name for topic in found.summary.topics]
        taken = [name for name in names if self._state.catalog.is_taken(name)]
        if taken and not command.skips_existing:
            raise Refused(Code.TOPIC_EXISTS, topic=taken[0])
        self._state.audit.record(request, self._state.journals.of_topics)
        state = self._state
        access = RestoredAccess(state.security, lambda id_: names_with_prefix(state, id_))
        self._running = _Restore(
            command.backup,
            access,
            RestoredSchemas(state.schemas, state.metadata, skips=command.skips_existing),
            skips_existing=command.skips_existing,
            skipped=len(taken),
        )
        self._backups.is_restoring = True
        self._state.tally.restores_running = 1
        job = StageRestore(backup=command.backup, skipped=tuple(taken))
        self._state.outbox.append(RunBackupJob(job=job))
        began = RestoreBegan(backup=command.backup, topics=len(names) - len(taken))
        self._state.outbox.append(Report(report=began))
        self._describe(self._running, BackupProgress.RUNNING)
        self._state.outbox.answer(request, self._backups.find(command.backup))

    # What the shell reports

    def handle(self, event: BackupEvent, now: Now) -> None:
        """Learn what came of a job; what is about a backup is handed on."""
        running = self._running
        match event:
            case RestoreStaged() if running is not None:
                running.staged = event
                running.step = _Step.TOPICS
                self._run(running, self._state_topics(running, event), now)
            case RestoreAdopted() if running is not None:
                self._decide(running)
            case RestoreDiscarded() if running is not None:
                self._end(running, BackupProgress.FAILED)
            case BackupJobFailed() if running is not None:
                self._fail(running, event.reason, now)
            case _:
                self._backups.handle(event, now)

    def _run(self, running: _Restore, steps: Steps, now: Now) -> None:
        self._state.stepwise.begin(None, self._guarded(running, steps, now), now)

    def _guarded(self, running: _Restore, steps: Steps, now: Now) -> Steps:
        """Whatever in a backup is not as it should be ends the restore, not the node."""
        try:
            yield from steps
        except Refused as refused:
            self._fail(running, str(refused), now)
        except msgspec.MsgspecError as error:
            self._fail(running, f"the backup says something that makes no sense: {error}", now)

    def resume(self, later: ContinueRestore, now: Now) -> None:
        """What was stated so far is committed."""
        running = self._running
        if running is None or running.number != later.restore:
            return
        match running.step:
            case _Step.TOPICS:
                running.step = _Step.GROUPS
                self._run(running, self._state_groups(running, now), now)
            case _Step.GROUPS:
                running.step = _Step.ADOPTING
                job = AdoptRestore(backup=running.backup, topics=tuple(running.topics))
                self._state.outbox.append(RunBackupJob(job=job))
            case _Step.DECIDING:
                running.step = _Step.OPENING
                self._run(running, self._open_logs(running, now), now)
            case _:
                raise AssertionError(f"nothing was stated in {running.step}")

    # 1: topics

    def _state_topics(self, running: _Restore, staged: RestoreStaged) -> Steps:
        names = {topic.name: topic.partitions for topic in staged.topics}
        running.ends = {each.log: each.end for each in staged.logs}
        found: dict[str, TopicSaved] = {}
        for items in self._items(staged):
            for item in items:
                if isinstance(item, TopicSaved) and item.name in names:
                    found[item.name] = item
                elif isinstance(item, TenantStated | AclStated | AclsSaved):
                    moment = staged.created_at
                    running.access.check(item, moment, skips=running.skips_existing)
            yield 1 + len(items)
        running.access.check_whole()
        yield from self._state_schemas(running, staged)
        for name, partitions in names.items():
            saved = found.get(name)
            if saved is None or saved.partitions != partitions:
                reason = f"the backup does not say what the topic {name} is"
                raise Refused(Code.REQUEST_INVALID, reason=reason)
            self._state_topic(running, saved)
            yield 2
        # One without topics takes the number that the next topic would get; `commit_restore` makes
        # it its own.
        running.number = running.number or self._state.catalog.next_number
        self._state.metadata.propose([], [ContinueRestore(running.number)])

    def _state_schemas(self, running: _Restore, staged: RestoreStaged) -> Steps:
        """Once all tenants are known: a subject belongs to one."""

        def check_owner(name: str, tenant: str | None) -> None:
            self._check_owner(running, name, tenant)

        for items in self._items(staged):
            for item in items:
                if isinstance(item, SchemasSaved | SchemaStated | SubjectSaved):
                    running.schemas.check(item, check_owner)
            yield 1 + len(items)
        yield from running.schemas.state()

    def _state_topic(self, running: _Restore, saved: TopicSaved) -> None:
        state = self._state
        state.metadata.check_room()
        config = TopicConfig() if saved.config is None else saved.config
        if state.catalog.is_taken(saved.name) and running.skips_existing:
            # Made while the backup was verified.
            running.skipped += 1
            return
        self._check_owner(running, saved.name, saved.tenant)
        stated = TopicStated(
            name=saved.name,
            number=state.catalog.next_number,
            partitions=saved.partitions,
            config=state.catalog.check_restored(saved.name, saved.partitions, config),
            created_at=saved.created_at,
            holds_dead_letters=saved.holds_dead_letters,
            has_delays=saved.has_delays,
            has_lanes=saved.has_lanes,
            has_producers=saved.has_producers,
            is_arriving=True,
        )
        running.number = running.number or stated.number
        running.topics[saved.name] = stated.number
        state.metadata.propose([stated])

    def _check_owner(self, running: _Restore, name: str, tenant: str | None) -> None:
        """Refuse what belonged to another tenant than would get it here."""
        owner = self._state.access.owner(name)
        prefix = name.partition(".")[0]
        if running.access.brings(prefix):
            owner = prefix
        if tenant is not None and tenant != owner:
            reason = f"{name} belonged to the tenant {tenant}, and would belong to {owner}"
            raise Refused(Code.TENANT_NOT_FOUND, tenant=tenant, reason=reason)

    # 2: groups, positions, schedules

    def _state_groups(self, running: _Restore, now: Now) -> Steps:
        assert running.staged is not None
        state = self._state
        self._note_restore(RestoreStated(restore=running.number))
        for items in self._items(running.staged):
            yield 1
            for item in items:
                yield self._state_item(running, item, now)
        behind = [state.journals.of_groups, *map(state.journals.of_group, running.groups)]
        behind += map(state.journals.of_partition, running.ends)
        state.journals.hold(ContinueRestore(running.number), behind)

    def _state_item(self, running: _Restore, item: BackupItem, now: Now) -> int:
        """State one item; how many units of work that was."""
        match item:
            case GroupSaved():
                self._state_group(running, item, now)
            case PositionSaved() if item.topic in running.topics:
                return 1 + self._state_position(running, item)
            case ScheduleSaved():
                self._state_schedule(running, item, now)
            case _:
                pass
        return 1

    def _note_restore(self, change: RestoreStated) -> None:
        apply_restore(self._state, change)
        self._state.journals.of_groups.note([change])

    def _state_group(self, running: _Restore, saved: GroupSaved, now: Now) -> None:
        groups = self._state.groups
        check_name(saved.name, "group")
        if groups.get(saved.name) is not None:
            return
        self._check_owner(running, saved.name, saved.tenant)
        formed = groups.form(saved.name, saved.mode, saved.assignor, now)
        topics = tuple(sorted({name for name in saved.topics if name in running.topics}))
        stated: GroupStated = msgspec.structs.replace(
            # Its retention begins anew: nobody could use it while it was away.
            formed,
            created_at=saved.created_at,
            last_topics=topics,
            emptied_at=now.wall,
        )
        self._note_restore(RestoreStated(restore=running.number, groups=[stated.number]))
        groups.apply(stated)
        running.groups[saved.name] = None
        self._state.journals.of_group(saved.name).note([stated])

    def _state_position(self, running: _Restore, saved: PositionSaved) -> int:
        state = self._state
        log = LogId(saved.topic, saved.partition)
        end = running.ends.get(log)
        if end is None or not _is_within(saved.position, end):
            reason = "a position of the backup is outside of its partition"
            raise Refused(Code.REQUEST_INVALID, reason=reason)
        position = Position(0)
        position.restore(saved.position)
        number = DEAD_LETTERS_GROUP
        if saved.group is not None:
            group = state.groups.get(saved.group)
            if group is None:
                reason = "a position of the backup has no group"
                raise Refused(Code.REQUEST_INVALID, reason=reason)
            number = group.number
            running.groups[saved.group] = None
        topic = running.topics[saved.topic]
        units = 0
        for change in state_position(position, number, topic, saved.partition):
            self._positions.apply(change, position.updated_at)
            state.journals.of_partition(log).note([change])
            units += 1 + len(msgspec.json.encode(change)) // _UNIT_BYTES
        return units

    def _state_schedule(self, running: _Restore, saved: ScheduleSaved, now: Now) -> None:
        schedules = self._state.schedules
        if schedules.get(saved.spec.name) is not None:
            running.skipped += 1
            return
        self._check_owner(running, saved.spec.name, saved.tenant)
        created = schedules.create(saved.spec, now.wall, is_paused=saved.is_paused)
        stated = msgspec.structs.replace(
            created,
            created_at=saved.created_at,
            upto=saved.upto,
            sent=saved.sent,
            last_tick=saved.last_tick,
        )
        self._note_restore(RestoreStated(restore=running.number, schedules=[stated.number]))
        schedules.apply(stated)
        running.schedules.append(stated.number)
        self._state.journals.of_groups.note([stated])

    def _items(self, staged: RestoreStaged) -> Iterator[tuple[BackupItem, ...]]:
        return (tuple(decode_items(chunk)) for chunk in staged.state)

    # 4: the decision

    def _decide(self, running: _Restore) -> None:
        running.step = _Step.DECIDING
        topics = runs(sorted(running.topics.values()))
        committed = RestoreCommitted(restore=running.number, topics=topics)
        # One record: nobody sees a topic before its tenant and its schemas are there.
        changes = [*running.access.changes(), *running.schemas.changes(), committed]
        self._state.metadata.propose(changes, [ContinueRestore(running.number)])
        running.access.verify()

    # Opening

    def _open_logs(self, running: _Restore, now: Now) -> Steps:
        """The decision is committed: the logs are opened as at a start."""
        catalog = self._state.catalog
        topics = [catalog.numbered(number) for number in running.topics.values()]
        for topic in topics:
            assert topic is not None, "a topic that is not open cannot be deleted"
            running.unopened.update(dict.fromkeys(topic.logs))
        for topic in topics:
            assert topic is not None
            settings = catalog.log_settings(topic)
            for log in topic.logs:
                self._state.outbox.append(Open(log=log, settings=settings))
                yield 1
        if not running.unopened:
            self._finish(running, now)

    def logs_opened(self, logs: list[LogId], now: Now) -> list[str]:
        """Logs can be used: the topics, if these were the last."""
        running = self._running
        if running is None:
            return []
        for log in logs:
            running.unopened.pop(log, None)
        if running.unopened or running.step is not _Step.OPENING:
            return []
        self._finish(running, now)
        return list(running.topics)

    def _finish(self, running: _Restore, now: Now) -> None:
        for number in running.topics.values():
            topic = self._state.catalog.numbered(number)
            assert topic is not None
            topic.is_open = True
            self._state.spared_until[topic.name] = Instant(now.instant + _SPARED_NS)
            topic.may_delay = topic.stated.has_delays
            topic.may_mark = topic.stated.has_producers
            for log in topic.logs if topic.may_delay else ():
                self._delayed_messages.arm(log, now)
        for number in running.schedules:
            schedule = self._state.schedules.numbered(number)
            if schedule is not None:
                self._tick_sender.begin_arming(schedule, now)
        self._note_ended(running)
        job = DiscardRestore(backup=running.backup)
        self._state.outbox.append(RunBackupJob(job=job))
        self._end(running, BackupProgress.COMPLETED)

    # The end

    def _fail(self, running: _Restore, reason: str, now: Now) -> None:
        running.error = reason
        running.step = _Step.UNDOING
        # Not in the generator that failed, and in as many turns as it takes.
        self._state.stepwise.begin(None, self._undo(running), now)

    def _undo(self, running: _Restore) -> Steps:
        state = self._state
        for number in running.topics.values():
            topic = state.catalog.numbered(number)
            assert topic is not None
            self._positions.forget_logs(topic.logs)
            deleted = TopicDeleted(name=topic.name, number=number)
            state.metadata.propose([deleted])
            yield 1 + topic.stated.partitions
        if state.pending_restore is not None:
            undo_groups(state, state.pending_restore)
            self._note_ended(running)
        running.schemas.undo()
        self._discard(running)

    def _note_ended(self, running: _Restore) -> None:
        ended = RestoreEnded(restore=running.number)
        apply_restore(self._state, ended)
        self._state.journals.of_groups.note([ended])

    def _discard(self, running: _Restore) -> None:
        self._state.outbox.append(RunBackupJob(job=DiscardRestore(backup=running.backup)))

    def _end(self, running: _Restore, state: BackupProgress) -> None:
        self._running = None
        self._backups.is_restoring = False
        self._state.tally.restores_running = 0
        if running.error is None:
            self._state.tally.restores_completed += 1
            self._describe(running, BackupProgress.COMPLETED)
            completed = RestoreCompleted(
                backup=running.backup,
                topics=len(running.topics),
                groups=len(running.groups),
                schedules=len(running.schedules),
                skipped=running.skipped + running.schemas.skipped,
                tenants=running.access.tenants_restored,
                acls=running.access.acls_restored,
                acls_skipped=running.access.acls_skipped,
                schemas=running.schemas.restored,
            )
            self._state.outbox.append(Report(report=completed))
            return
        self._state.tally.restores_failed += 1
        self._describe(running, state)
        gave_up = RestoreGivenUp(backup=running.backup, reason=running.error)
        self._state.outbox.append(Report(report=gave_up))

    def _describe(self, running: _Restore, state: BackupProgress) -> None:
        is_done = state is BackupProgress.COMPLETED
        described = RestoreDescription(
            state=state,
            topics_restored=len(running.topics) if is_done else 0,
            groups_restored=len(running.groups) if is_done else 0,
            schedules_restored=len(running.schedules) if is_done else 0,
            schemas_restored=running.schemas.restored if is_done else 0,
            tenants_restored=running.access.tenants_restored if is_done else 0,
            acls_restored=running.access.acls_restored if is_done else 0,
            acls_skipped=running.access.acls_skipped if is_done else 0,
            skipped=running.skipped + running.schemas.skipped,
            error=running.error,
        )
        self._backups.record_restore(running.backup, described)


def _is_within(stated: PositionStated, end: Offset) -> bool:
    """Whether a position says nothing of offsets that its log does not have.

    Looked at before it is taken in: a range of 2^62 offsets would take all memory.
    """
    ranges = all(0 <= first <= following <= end for first, following in stated.settled)
    stretches = all(
        first >= 0 and first + 8 * len(octets) <= end + _STRETCH_MAX
        for first, octets in stated.scattered
    )
    offsets = [
        *(offset for offset, _ in stated.attempts),
        *(offset for offset, _ in stated.reasons),
        *stated.buried,
    ]
    are_within = all(0 <= offset < end for offset in offsets)
    return 0 <= stated.floor <= end and ranges and stretches and are_within
