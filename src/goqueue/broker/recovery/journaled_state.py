"""What the journals say, applied and stated: the durable half of the node's state.

Every change passes here when it is replayed; the parts that decide changes apply them through the
same machines. Stating everything gives changes from which an empty node becomes the same again:
that is a snapshot, and it is how a journal is kept short.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from goqueue.broker.group_partitions import GroupPartition
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.journal import Journal, JournalLimits
from goqueue.broker.journal_changes import (
    Change,
    Delivered,
    DeliveryReleased,
    GivenBack,
    MoveBegun,
    Numbered,
    PositionAdded,
    PositionChange,
    PositionCut,
    PositionMoved,
    ReceiptKeyStated,
    RestoreCommitted,
    RestoreEnded,
    RestoreStated,
    Settled,
    Started,
    TopicChange,
    TopicDeleted,
    TopicStated,
    state_position,
)
from goqueue.broker.journal_statement import Restatement, SnapshotWriter, Statement
from goqueue.broker.restore_journal import apply_restore
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.turns import Errand
from goqueue.groups import GroupDeleted, GroupStated, PartitionsRevoked
from goqueue.model import HOUR, MILLISECOND, Instant, LogId, Now, Timestamp
from goqueue.schedules import ScheduleDeleted, ScheduleStated, ScheduleTicked
from goqueue.schemas import (
    SchemaLevelStated,
    SchemaRemoved,
    SchemasNumbered,
    SchemaStated,
    SchemaVersionRemoved,
    SchemaVersionStated,
)
from goqueue.security import (
    AclDeleted,
    AclStated,
    AuditRecorded,
    AuditWritten,
    KeyDeleted,
    KeyRevoked,
    KeyStated,
    TenantDeleted,
    TenantStated,
    UsageStated,
)
from goqueue.transactions import Decided, TransactionChange

__all__ = ["JournaledState"]

# How long a statement waits for a disk that is behind.
_WAIT_NS = 500 * MILLISECOND
# A change costs so many units of the turn, and one for so many bytes of it.
_UNITS = 2
_UNIT_BYTES = 128

C = TypeVar("C")


_GroupsChange = (
    Numbered
    | MoveBegun
    | ReceiptKeyStated
    | GroupStated
    | GroupDeleted
    | PartitionsRevoked
    | ScheduleStated
    | ScheduleTicked
    | ScheduleDeleted
    | PositionChange
    | TransactionChange
)


class JournaledState:
    """Applies journaled changes, and states all that they amount to."""

    def __init__(
        self,
        state: NodeState,
        positions: Positions,
        coordinator: TransactionCoordinator,
        limits: JournalLimits,
    ) -> None:
        self._state = state
        self._limits = limits
        # By journal: what is being stated of it, a part in each turn.
        self._statements: dict[LogId, Statement] = {}
        self._coordinator = coordinator
        self._positions = positions
        self._started = Started(epoch=0)
        # When what was applied last happened, as far as its stamps are to be believed.
        self._applied_at = Timestamp(0)

    @property
    def epoch(self) -> int:
        """Which life of the node this is."""
        return self._started.epoch

    def apply(self, change: TopicChange | Change, at: Timestamp) -> None:
        """Become what a change says, whatever kind it is."""
        at = self._happened(at)
        match change:
            case Started():
                self._started = change
                self._state.catalog.reserve(change.topics_upto)
                self._state.catalog.last_restore = change.restored
            case TopicStated() | TopicDeleted():
                self._state.catalog.apply(change)
            case RestoreCommitted():
                self._state.catalog.commit_restore(change)
            case RestoreStated() | RestoreEnded():
                apply_restore(self._state, change)
            case (
                KeyStated()
                | KeyRevoked()
                | KeyDeleted()
                | AclStated()
                | AclDeleted()
                | TenantStated()
                | TenantDeleted()
                | UsageStated()
            ):
                self._state.security.apply(change)
            case (
                SchemasNumbered()
                | SchemaStated()
                | SchemaRemoved()
                | SchemaVersionStated()
                | SchemaVersionRemoved()
                | SchemaLevelStated()
            ):
                self._state.schemas.apply(change)
            case AuditRecorded() | AuditWritten():
                self._state.audit.apply(change)
            case _:
                self._apply_to_groups(change, at)

    def _happened(self, at: Timestamp) -> Timestamp:
        """When a change happened: not before those that were journaled earlier.

        In a life whose clock was weeks behind, stamps are weeks too old, and groups that were used
        then would be forgotten. One stamp that is too young moves the following by an hour at most.
        """
        before = self._applied_at
        if before == 0 or at < before + HOUR:
            self._applied_at = max(before, at)
        else:
            self._applied_at = Timestamp(before + HOUR)
        return max(before, at)

    def _apply_to_groups(self, change: _GroupsChange, at: Timestamp) -> None:
        match change:
            case Numbered():
                self._state.groups.reserve(change.groups_upto)
                self._state.next_move = max(self._state.next_move, change.moves_upto)
                self._state.transactions.producers.reserve(change.producers_upto)
                self._state.schedules.reserve(change.schedules_upto)
            case GroupStated():
                used_at = max(change.created_at, change.emptied_at, change.received_at)
                self._happened(Timestamp(used_at))
                self._state.groups.apply(change)
            case PartitionsRevoked():
                self._state.groups.apply(change)
            case GroupDeleted():
                self._state.groups.apply(change)
                self._state.group_partitions.remove_group(change.number)
            case ScheduleStated() | ScheduleTicked() | ScheduleDeleted():
                self._state.schedules.apply(change)
            case ReceiptKeyStated():
                self._state.receipt_key = change.key
            case MoveBegun():
                self._state.next_move = max(self._state.next_move, change.move + 1)
                self._state.open_moves[change.move] = (change.topic, change.partition)
            case Decided() if change.key.is_internal:
                self._state.open_moves.pop(change.key.move, None)
                self._state.next_move = max(self._state.next_move, change.key.move + 1)
                self._coordinator.apply(change, at)
            case Delivered() | DeliveryReleased() | GivenBack() | Settled():
                self._positions.apply(change, at)
            case PositionMoved() | PositionAdded():
                self._happened(Timestamp(change.position.updated_at))
                self._positions.apply(change, at)
            case PositionCut():
                self._positions.apply(change, at)
            case _:
                self._coordinator.apply(change, at)

    # Stating: a few changes at a time, each true when it is asked for, while others happen

    def state_topics(self) -> Iterator[Sequence[TopicChange]]:
        """All that the journal of topics amounts to."""
        catalog = self._state.catalog
        yield [
            Started(
                epoch=self._started.epoch,
                topics_upto=catalog.next_number,
                restored=catalog.last_restore,
            )
        ]
        # The topics and schemas of a cluster are in its metadata log.
        own = catalog.all if self._state.cluster is None else ()
        for number in [topic.number for topic in own]:
            topic = catalog.numbered(number)
            if topic is not None:
                yield [topic.stated]
        yield from self._state.security.changes(own_only=self._state.cluster is not None)
        if self._state.cluster is None:
            yield from self._state.schemas.changes()
        yield [self._state.audit.written]
        # One by one: after a while without its log there may be many.
        yield from ([each] for each in self._state.audit.state(self._state.journals.of_topics.id))

    def state_groups(self) -> Iterator[Sequence[Change]]:
        """All that the journal of groups amounts to.

        In this order: progress in a transaction means nothing without its group, and a decision
        that comes in between finds what it settles in the transaction or in the position.
        """
        state = self._state
        yield [
            Numbered(
                groups_upto=state.groups.next_number,
                moves_upto=state.next_move,
                producers_upto=state.transactions.producers.next_id,
                schedules_upto=state.schedules.next_number,
            )
        ]
        if state.receipt_key is not None:
            yield [ReceiptKeyStated(key=state.receipt_key)]
        for move, (topic, partition) in list(state.open_moves.items()):
            yield [MoveBegun(move=move, topic=topic, partition=partition)]
        if state.pending_restore is not None:
            yield [state.pending_restore]
        for number in [group.number for group in state.groups]:
            group = state.groups.numbered(number)
            if group is not None:
                yield [group.stated]
        for number in [schedule.number for schedule in state.schedules]:
            schedule = state.schedules.numbered(number)
            if schedule is not None:
                yield [schedule.stated]
        yield from ([each] for each in state.audit.state(state.journals.of_groups.id))
        yield from state.transactions.state_steps()
        for number in state.group_partitions.groups:
            for place in state.group_partitions.of_group(number):
                yield from self._state_position(place)

    def _state_position(self, place: GroupPartition) -> Iterator[Sequence[Change]]:
        group, log = place.group, place.log
        topic = self._state.catalog.get(log.topic)
        if topic is None or not self._is_there(place) or not place.position.says_something:
            return
        for change in state_position(place.position, group, topic.number, log.partition):
            yield [change]
            if not self._is_there(place):
                # Its group or its topic was deleted meanwhile.
                return

    def _is_there(self, place: GroupPartition) -> bool:
        return self._state.group_partitions.get(place.group, place.log) is place

    # Staying short

    @property
    def is_stating(self) -> bool:
        """Whether a statement is on its way."""
        return bool(self._statements)

    def keep_short(self, now: Now) -> None:
        """State a journal again when most of it is history, or keep a snapshot of it."""
        if self._state.not_ready is None:
            self._keep_short(self._state.journals.of_topics, self.state_topics, now)
            self.keep_groups_short(now)

    def keep_groups_short(self, now: Now) -> None:
        """The same for the journal of groups alone, which is all that a coordinator has."""
        self._keep_short(self._state.journals.of_groups, self.state_groups, now)

    def _keep_short(
        self, journal: Journal[C], steps: Callable[[], Iterator[Sequence[C]]], now: Now
    ) -> None:
        if journal.id in self._statements:
            return
        if journal.wants_restating:
            self._begin(journal.id, Restatement(journal, steps()), now)
        elif journal.wants_snapshot:
            self._begin(journal.id, SnapshotWriter(journal, steps(), now.wall), now)

    def snapshot_all(self, now: Now) -> None:
        """Make the next start fast: the node stops when these are complete."""
        topics, groups = self._state.journals.of_topics, self._state.journals.of_groups
        self._begin(topics.id, SnapshotWriter(topics, self.state_topics(), now.wall), now)
        self._begin(groups.id, SnapshotWriter(groups, self.state_groups(), now.wall), now)

    def _begin(self, journal: LogId, statement: Statement, now: Now) -> None:
        self._statements[journal] = statement
        self._state.alarms.set(Errand.STATEMENTS, now.instant)

    def resume(self, now: Now) -> None:
        """A journal has written some of what it was told: it may be told more."""
        if self._statements:
            self._state.alarms.bring_forward(Errand.STATEMENTS, now.instant)

    def continue_statements(self, now: Now) -> None:
        """Tell more of what is being stated, as much as the turn allows."""
        budget = self._state.budget
        left = min(budget.left, self._limits.turn_units)
        wait_ns = 0
        for journal, statement in list(self._statements.items()):
            while left > 0:
                if statement.is_behind:
                    wait_ns = _WAIT_NS
                    break
                size = statement.advance()
                if size is None:
                    del self._statements[journal]
                    break
                units = _UNITS + size // _UNIT_BYTES
                budget.spend(units)
                left -= units
        if self._statements:
            self._state.alarms.set(Errand.STATEMENTS, Instant(now.instant + wait_ns))
