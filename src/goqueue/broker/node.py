"""The node: one function from an event and the time to effects.

Composes the machines: it calls each in turn, and they never call each other's callers. Whatever
the shell reports comes in here, whatever is to be done goes out from here.

Invariants
- A refusal changes nothing, and every command is answered exactly once.
- Nothing leaves that depends on a change which is not committed: each turn ends by handing its
  changes to the journals, which hold back what waits for them.
"""

from collections.abc import Callable
from typing import TypeVar

from goqueue.broker.alarms import (
    Errand,
    ForCensus,
    ForDelays,
    ForGroup,
    ForLog,
    ForQueue,
    ForRequest,
)
from goqueue.broker.consuming import (
    Carrying,
    Counting,
    Delivering,
    Membership,
    Moving,
    Positions,
    Probing,
    Redriving,
    Scouting,
    SeekingReset,
    Settling,
    Sifting,
    Surveying,
    Verifying,
)
from goqueue.broker.journals import JournalLimits
from goqueue.broker.memory import Memory
from goqueue.broker.messages import (
    Delaying,
    Firing,
    Publishing,
    Reading,
    SeekingRead,
    Topics,
)
from goqueue.broker.outbox import BeginServing, CarryOver, Later, Prune, PublishDelayed
from goqueue.broker.partitions import Partition, Publication
from goqueue.broker.starting import (
    GROUPS_LOG,
    TOPICS_LOG,
    Opened,
    Replaying,
    ReplayingDelays,
    Starting,
)
from goqueue.broker.state import NodeState
from goqueue.broker.upkeep import Upkeep
from goqueue.model import (
    Asked,
    Code,
    Compacted,
    Created,
    Damaged,
    Deleted,
    DiskEvent,
    Failed,
    Fetched,
    Filled,
    Found,
    Instant,
    Left,
    Loaded,
    NodeEffect,
    Now,
    Offset,
    Refused,
    RequestId,
    Synced,
    Truncated,
    Woke,
)
from goqueue.model.requests import (
    Ack,
    AlterTopic,
    CancelDelayed,
    Command,
    CommitOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeDelays,
    DescribeGroup,
    DescribeLag,
    DescribeNode,
    DescribeOffsets,
    DescribePartitions,
    DescribePriorities,
    DescribeReliability,
    DescribeTopic,
    Extend,
    FindDelayed,
    Heartbeat,
    Join,
    Leave,
    ListDelayed,
    ListGroups,
    ListTopics,
    Nack,
    NodeDescription,
    Poll,
    Publish,
    Published,
    Read,
    Redrive,
    Reject,
    ResetOffsets,
)

__all__ = ["Node", "NodeEvent"]

NodeEvent = (
    Asked
    | Left
    | Woke
    | Fetched
    | Found
    | Loaded
    | Opened
    | Synced
    | Failed
    | Filled
    | Damaged
    | Truncated
    | Compacted
    | Created
    | Deleted
)

_RETRY = Errand("journals")
_MOVES = Errand("moves")

C = TypeVar("C", bound=Command)
Take = Callable[[RequestId, C, Now], None]


class Node:
    """One broker node as a pure machine."""

    def __init__(self, node_id: str, secret: bytes, limits: JournalLimits | None = None) -> None:
        """`secret` seals receipts; with another one, those that were given out become invalid."""
        state = self._state = NodeState(node_id)
        self._topics = Topics(state)
        self._delaying = Delaying(state)
        self._publishing = Publishing(state, self._delaying)
        self._reading = Reading(state)
        self._counting = Counting(state)
        self._delivering = Delivering(state, self._counting)
        self._moving = Moving(state, self._topics, self._delivering)
        self._redriving = Redriving(state, self._moving)
        self._settling = Settling(state, self._delivering, self._moving)
        self._positions = Positions(state, self._delivering)
        self._membership = Membership(state, self._delivering, self._positions)
        self._memory = Memory(state, self._positions, self._moving)
        self._starting = Starting(state, self._memory, secret, limits or JournalLimits())
        self._upkeep = Upkeep(state, self._memory, self._delivering, self._delaying)
        self._takes = self._table()

    def start(self) -> list[NodeEffect]:
        """The first effects; the node serves once they and what follows from them is done."""
        self._starting.begin()
        return self._state.outbox.take()

    def stop(self, now: Now) -> list[NodeEffect]:
        """Take no more commands and let nobody wait; what is on its way still ends."""
        was_serving = self.is_serving
        self._state.not_ready = "stopping"
        if was_serving:
            self._reading.end_all()
            self._delivering.end_all()
            self._memory.snapshot_all()
            self._delaying.save_all()
        self._end_turn(now)
        return self._state.outbox.take()

    @property
    def is_serving(self) -> bool:
        """Whether commands are taken."""
        return self._state.not_ready is None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be committed in the journals."""
        state = self._state
        return not state.has_journals or (
            state.topics_journal.is_quiet and state.groups_journal.is_quiet
        )

    def next_deadline(self) -> Instant | None:
        """When the node wants `Woke`."""
        return self._state.alarms.next_deadline()

    def handle(self, event: NodeEvent, now: Now) -> list[NodeEffect]:
        """Learn one thing and decide what follows from it."""
        match event:
            case Asked():
                self._ask(event, now)
            case Synced() | Failed() | Filled() | Damaged() | Truncated() | Compacted():
                self._take_disk(event, now)
            case Fetched():
                self._fetched(event, now)
            case Woke():
                self._wake(now)
            case Found():
                self._found(event, now)
            case Left():
                self._left(event.request)
            case Created():
                self._created(event, None, now)
            case Deleted():
                self._topics.deleted(event.log)
            case Opened():
                self._starting.opened(event, now)
            case Loaded():
                self._starting.loaded(event.name, event.data, now)
        self._end_turn(now)
        return self._state.outbox.take()

    # Commands

    def _ask(self, event: Asked, now: Now) -> None:
        command = event.command
        not_ready = self._state.not_ready
        if not_ready is not None and not isinstance(command, DescribeNode):
            refusal = Refused(Code.BROKER_UNAVAILABLE, reason=not_ready)
            self._state.outbox.answer(event.request, refusal)
            return
        try:
            self._takes[type(command)](event.request, command, now)
        except Refused as refused:
            self._state.outbox.answer(event.request, refused)

    def _table(self) -> dict[type, Take[Command]]:
        """Which part takes which command."""
        table: dict[type, Take[Command]] = {}

        def take(command: type[C], how: Take[C]) -> None:
            table[command] = how  # type: ignore[assignment]  # looked up by the same type

        take(CreateTopic, self._topics.create)
        take(AlterTopic, lambda request, command, _: self._topics.alter(request, command))
        take(DeleteTopic, self._delete_topic)
        take(ListTopics, lambda request, _, __: self._topics.list_all(request))
        take(DescribeTopic, lambda request, asked, _: self._topics.describe(request, asked))
        take(
            DescribePartitions,
            lambda request, asked, _: self._topics.describe_partitions(request, asked),
        )
        take(Publish, self._publishing.publish)
        take(Read, self._reading.read)
        take(ListDelayed, self._delaying.list_pending)
        take(FindDelayed, self._delaying.find)
        take(CancelDelayed, self._delaying.cancel)
        take(DescribeDelays, lambda request, asked, _: self._delaying.describe(request, asked))
        take(Join, self._membership.join)
        take(Heartbeat, self._membership.heartbeat)
        take(Leave, self._membership.leave)
        take(ListGroups, lambda request, _, __: self._membership.list_all(request))
        take(DescribeGroup, lambda request, asked, _: self._membership.describe(request, asked))
        take(DeleteGroup, lambda request, asked, _: self._membership.delete(request, asked))
        take(Poll, self._delivering.poll)
        take(CommitOffsets, self._positions.commit)
        take(DescribeOffsets, lambda request, asked, _: self._positions.describe(request, asked))
        take(ResetOffsets, self._positions.reset)
        take(DescribeLag, lambda request, asked, _: self._positions.lag(request, asked))
        take(Ack, self._settling.ack)
        take(Nack, self._settling.nack)
        take(Reject, self._settling.reject)
        take(Extend, self._settling.extend)
        take(Redrive, self._redriving.redrive)
        take(DescribeReliability, lambda request, _, __: self._redriving.reliability(request))
        take(DescribePriorities, lambda request, _, now: self._counting.describe(request, now))
        take(DescribeNode, self._describe)
        return table

    def _delete_topic(self, request: RequestId, command: DeleteTopic, now: Now) -> None:
        logs = self._state.catalog.find_for_writing(command.name).logs
        self._topics.delete(request, command)
        gone = Refused(Code.TOPIC_NOT_FOUND, topic=command.name)
        for log in logs:
            partition = self._state.partitions.remove(log)
            self._delaying.forget(log)
            self._counting.forget(log)
            if partition is not None:
                self._reading.refuse_all(partition, gone)
                for publication, published in partition.taken_back(Offset(0), Code.TOPIC_NOT_FOUND):
                    self._published(publication, published, now)
        self._positions.forget_topic(logs)
        self._membership.rebalance(command.name, now)

    def _describe(self, request: RequestId, _: DescribeNode, __: Now) -> None:
        state = self._state
        failed = tuple(each.log_id for each in state.partitions if each.log.failure is not None)
        reply = NodeDescription(
            node_id=state.node_id,
            not_ready=state.not_ready,
            failed_logs=failed,
            topics=self._topics.described(),
        )
        state.outbox.answer(request, reply)

    def _left(self, request: RequestId) -> None:
        if not self._reading.give_up(request, is_gone=True):
            self._delivering.give_up(request, is_gone=True)

    # The disk

    def _take_disk(self, event: DiskEvent, now: Now) -> None:
        state = self._state
        if event.log == GROUPS_LOG:
            self._release(state.groups_journal.take(event, now), now)
            state.alarms.bring_forward(_RETRY, state.groups_journal.next_deadline())
            self._reading.wake(state.internal[event.log], now)
        elif event.log == TOPICS_LOG:
            self._release(state.topics_journal.take(event, now), now)
            state.alarms.bring_forward(_RETRY, state.topics_journal.next_deadline())
            self._reading.wake(state.internal[event.log], now)
        else:
            partition = state.partitions.get(event.log)
            if partition is not None:
                self._take_partition(partition, event, now)
            elif isinstance(event, Failed):
                self._topics.deleted(event.log, event.reason)

    def _take_partition(self, partition: Partition, event: DiskEvent, now: Now) -> None:
        if isinstance(event, Failed):
            self._created(Created(log=event.log), event.reason, now)
        known = partition.log.damaged
        self._state.outbox.extend(partition.log.take(event, now))
        self._state.arm_flush(partition)
        if isinstance(event, Damaged) and partition.log.damaged == known:
            # It is set aside when the writes on their way are done: until then to look again
            # would only find the same.
            return
        if isinstance(event, Filled):
            outcomes = list(partition.taken_back(event.offset, Code.STORAGE_FULL))
            self._delaying.taken_back(partition, event.offset, Code.STORAGE_FULL, now)
        elif isinstance(event, Failed):
            outcomes = list(partition.taken_back(Offset(0), Code.STORAGE_FAILED))
            self._delaying.taken_back(partition, Offset(0), Code.STORAGE_FAILED, now)
        else:
            outcomes = list(partition.committed())
            self._delaying.committed(partition, now)
        for publication, published in outcomes:
            self._published(publication, published, now)
        if isinstance(event, Compacted):
            self._delivering.relearn(partition)
        if partition.readers:
            self._reading.wake(partition, now)
        self._delivering.wake(partition, now)

    def _published(self, publication: Publication, published: Published, now: Now) -> None:
        if publication.move is not None:
            self._moving.settled(publication.move, published.placed[0].refused, now)
        elif publication.request is not None:
            self._state.outbox.answer(publication.request, published)

    def _created(self, event: Created, failure: str | None, now: Now) -> None:
        topic = self._topics.created(event.log, failure)
        if topic is not None:
            self._membership.rebalance(topic.name, now)
            self._moving.resume(now)

    def _fetched(self, event: Fetched, now: Now) -> None:
        purpose = self._state.purposes.pop(event.token)
        match purpose:
            case Surveying():
                self._delivering.surveyed(purpose, event.data, now)
            case Carrying():
                self._moving.carried(purpose, event.data, now)
            case Scouting():
                self._counting.scouted(purpose, event.data, now)
            case Firing():
                self._delaying.fetched(purpose, event.data, now)
            case Sifting():
                self._redriving.sifted(purpose, event.data, now)
            case Probing():
                self._positions.probed(purpose, event.data, now)
            case Verifying():
                self._moving.verified(purpose, event.data, now)
            case Replaying():
                self._starting.replayed(purpose, event.data, now)
            case ReplayingDelays():
                self._starting.delays_replayed(purpose, event.data, now)
            case _:
                raise AssertionError(f"nobody asked for {purpose}")

    def _found(self, event: Found, now: Now) -> None:
        purpose = self._state.purposes.pop(event.token)
        if isinstance(purpose, SeekingRead):
            self._reading.found(purpose, event.offset, now)
        else:
            assert isinstance(purpose, SeekingReset)
            self._positions.found(purpose, event.offset, now)

    # Time

    def _wake(self, now: Now) -> None:
        for subject in self._state.alarms.due(now.instant):
            match subject:
                case ForRequest(request):
                    if not self._reading.give_up(request):
                        self._delivering.give_up(request)
                case ForQueue(group, log):
                    self._settling.expire(group, log, now)
                case ForGroup(group):
                    self._membership.expire(group, now)
                case ForLog(log):
                    partition = self._state.partitions.get(log)
                    if partition is not None:
                        self._state.outbox.extend(partition.log.expire(now))
                        self._state.arm_flush(partition)
                case ForCensus(log):
                    self._counting.scout(log)
                case ForDelays(log):
                    self._delaying.wake(log, now)
                case Errand("upkeep"):
                    self._upkeep.do_a_share(now)
                case Errand("moves"):
                    self._moving.resume(now)
                case _:
                    self._retry_journals(now)

    def _retry_journals(self, now: Now) -> None:
        for journal in (self._state.topics_journal, self._state.groups_journal):
            journal.expire(now)
            self._state.alarms.bring_forward(_RETRY, journal.next_deadline())

    # Turns

    def _end_turn(self, now: Now) -> None:
        """Hand what was decided to the journals, and take the steps that need not wait."""
        if not self._state.has_journals:
            return
        journals = (self._state.topics_journal, self._state.groups_journal)
        self._finish_parts(now)
        while any(journal.has_notes for journal in journals):
            for journal in journals:
                self._release(journal.flush(now), now)
            self._finish_parts(now)

    def _finish_parts(self, now: Now) -> None:
        """What one part found out and another has to do."""
        self._settling.bury_exhausted(now)
        self._redriving.moved()

    def _release(self, released: list[Later], now: Now) -> None:
        for later in released:
            match later:
                case CarryOver(number):
                    self._moving.carry(number, now)
                case Prune(journal=journal, offset=offset):
                    is_groups = journal == GROUPS_LOG
                    state = self._state
                    (state.groups_journal if is_groups else state.topics_journal).drop_below(offset)
                case BeginServing():
                    self._begin_serving(now)
                case PublishDelayed(request, command):
                    self._publish_delayed(request, command, now)
                case _:
                    self._state.outbox.append(later)

    def _publish_delayed(self, request: RequestId, command: Publish, now: Now) -> None:
        topic = self._state.catalog.get(command.topic)
        if topic is not None:
            topic.may_delay = True
        try:
            self._publishing.publish(request, command, now)
        except Refused as refused:
            self._state.outbox.answer(request, refused)

    def _begin_serving(self, now: Now) -> None:
        state = self._state
        if state.not_ready == "stopping":
            return
        state.not_ready = None
        for group in state.groups:
            group.hear_all(now)
            state.alarms.set(ForGroup(group.number), group.next_deadline())
        self._delaying.arm_all(now)
        self._membership.catch_up(now)
        self._moving.verify_all(now)
        self._upkeep.begin(now)
