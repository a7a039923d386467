"""The coordinator that this broker is, if it is one: created, driven and ended with the role.

Follows the role of the log `__consumer_offsets-0`, which only the committed image gives. A broker
that was asked for a group while there is no such log asks the controller to create it.
"""

from collections.abc import Callable, Collection

from goqueue.broker.caller_waits import CallerWaits
from goqueue.broker.catalog import Topic
from goqueue.broker.cluster import COORDINATOR_LOG, ClusterMember
from goqueue.broker.cluster.edge import ClusterEdge
from goqueue.broker.cluster.forward_parts import OneReply, Part, Request
from goqueue.broker.components import Components, NodeSettings
from goqueue.broker.coordinator.group_coordinator import (
    CoordinatorReach,
    GroupCoordinator,
)
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.log import Appended
from goqueue.model import (
    LOCAL,
    Code,
    Fetched,
    Found,
    Instant,
    LogId,
    Now,
    Refused,
    RequestId,
    RequestTopic,
    SchemaCompiled,
)
from goqueue.model.requests import AppendCopies, AppendMarker, Command, EndCopies, Reply

__all__ = ["Coordinators"]

Copying = AppendCopies | AppendMarker | EndCopies


class Coordinators:
    """Passes on what concerns the coordinator, while it is here."""

    def __init__(
        self,
        state: NodeState,
        member: ClusterMember,
        caller_waits: CallerWaits,
        settings: NodeSettings,
    ) -> None:
        self._state = state
        self._member = member
        self._caller_waits = caller_waits
        self._settings = settings
        self._reach = CoordinatorReach(
            append=self._append,
            forward=self._forward,
            request_dead_letters=self._request_dead_letters,
            require_copy=self._require_copy,
            keep_copies=self._keep_copies,
        )
        self._current: GroupCoordinator | None = None
        # Topics that were asked for since the copies that are needed were last counted.
        self._required: dict[int, None] = {}
        self._edge: ClusterEdge

    def connect(self, edge: ClusterEdge) -> None:
        """What the coordinator asks of leaders goes out by the edge."""
        self._edge = edge

    @property
    def current(self) -> GroupCoordinator | None:
        """The coordinator, if this broker leads its log."""
        return self._current

    @property
    def components(self) -> Components | None:
        """The parts of the coordinator, once it serves."""
        current = self._current
        return current.components if current is not None and current.is_serving else None

    # Commands

    def handler(self, *, is_repeatable: bool) -> Callable[[RequestId, Command, Now], None]:
        """A handler for commands about groups; refuses them where the coordinator is not."""

        def handle(request: RequestId, command: Command, now: Now) -> None:
            if self._current is None:
                raise self._refusal()
            self._current.handle(request, command, now, is_repeatable=is_repeatable)

        return handle

    def _refusal(self) -> Refused:
        topic = self._state.catalog.get(COORDINATOR_LOG.topic)
        if topic is None:
            if self._member.registered is not None:
                epoch = self._member.registered.epoch
                wanted = RequestTopic(broker_epoch=epoch, name=COORDINATOR_LOG.topic)
                self._member.line.ask(wanted)
            return Refused(Code.LEADER_UNAVAILABLE, reason="there is no group coordinator yet")
        try:
            self._member.check_leads(topic.number, COORDINATOR_LOG.partition, COORDINATOR_LOG)
        except Refused as refused:
            return refused
        return Refused(Code.LEADER_UNAVAILABLE, reason="the group coordinator is starting")

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Somebody has waited long enough, or is gone; False if nothing waited for that."""
        return self._current is not None and self._current.cancel(request, is_gone=is_gone)

    def end_all(self) -> None:
        """The broker stops."""
        if self._current is not None:
            self._current.end_all()

    # What the coordinator asks

    def _forward(self, command: Copying, log: LogId, now: Now) -> RequestId:
        """Pass a command on to the leader of a partition; it may be repeated."""
        request = self._edge.numbers.take_here()
        whole = Request(request, command, LOCAL, OneReply(), now.instant)
        part = Part(whole, command, log, is_repeatable=True)
        try:
            self._edge.forwarder.begin(whole, [part], now)
        except Refused as refused:
            self._state.outbox.answer(request, refused)
        return request

    def _require_copy(self, log: LogId) -> None:
        """Have a copy of each partition of a topic kept here."""
        topic = self._state.catalog.get(log.topic)
        if topic is not None and topic.number not in self._required:
            self._required[topic.number] = None
            self._member.replicas.observe(topic.number)

    def _keep_copies(self, topics: Collection[int]) -> None:
        """Keep copies of what groups read: of these topics, and of those asked for since."""
        replicas = self._member.replicas
        replicas.end_observing({*topics, *self._required})
        self._required.clear()

    def take_answer(self, request: RequestId, reply: Reply | Refused, now: Now) -> bool:
        """A leader answered; False if the coordinator did not ask."""
        return self._current is not None and self._current.take_answer(request, reply, now)

    def _request_dead_letters(self, origin: Topic, name: str) -> None:
        """Let the controller create a dead-letter topic."""
        registered = self._member.registered
        if registered is not None:
            epoch, number = registered.epoch, origin.number
            wanted = RequestTopic(broker_epoch=epoch, name=name, origin=number)
            self._member.line.ask(wanted)

    # Logs and topics

    def fetched(self, event: Fetched, now: Now) -> None:
        """Records were read; dropped if they are for a coordinator that has ended."""
        if self._current is not None:
            self._current.fetched(event, now)

    def found(self, event: Found, now: Now) -> None:
        """An offset was found; dropped if a coordinator that has ended looked for it."""
        if self._current is not None:
            self._current.found(event, now)

    def committed(self, partition: Partition, now: Now) -> None:
        """More of a copy of this broker is committed."""
        if self._current is not None:
            self._current.committed(partition.log_id, now)

    def compacted(self, log: LogId) -> None:
        if self._current is not None:
            self._current.compacted(log)

    def compiled(self, event: SchemaCompiled, now: Now) -> None:
        """A validator was made, for the coordinator or for its broker."""
        if self._current is not None:
            self._current.components.validation.compiled(event, now)

    def topic_opened(self, name: str, now: Now) -> None:
        if self._current is not None:
            self._current.topic_opened(name, now)

    def topic_removed(self, name: str, logs: list[LogId], now: Now) -> None:
        if self._current is not None:
            self._current.topic_removed(name, logs, now)

    # Time and turns

    def next_deadline(self) -> Instant | None:
        return None if self._current is None else self._current.next_deadline()

    def wake(self, now: Now) -> None:
        if self._current is not None:
            self._current.wake(now)

    def finish_turn(self, now: Now) -> bool:
        """Follow the role and end the turn; whether something was appended or sent."""
        self._follow_role()
        current = self._current
        if current is None:
            return False
        effects = current.finish_turn(now)
        self._state.outbox.extend(effects)
        return current.take_appended()

    def _follow_role(self) -> None:
        hosted = self._member.replicas.hosted.find(COORDINATOR_LOG)
        leader = None if hosted is None or hosted.is_resigned else hosted.leader
        epoch = leader.epoch if leader is not None and leader.is_serving else None
        current = self._current
        if current is not None and current.epoch != epoch:
            self._current = None
            self._state.coordinated = self._state
            self._state.counts.forget_groups()
            self._state.outbox.extend(current.end())
            self._required.clear()
            self._member.replicas.end_observing(())
        if self._current is None and epoch is not None:
            assert hosted is not None
            assert hosted.partition is not None
            self._current = GroupCoordinator(
                self._state,
                hosted.partition,
                epoch,
                self._reach,
                settings=self._settings,
                caller_waits=self._caller_waits,
            )
            self._state.coordinated = self._current.state

    def _append(self, batch: bytearray, now: Now) -> Appended:
        """Append to the log of the coordinator, if this broker still leads it."""
        topic = self._state.catalog.find(COORDINATOR_LOG.topic)
        partition = self._state.partition(topic, COORDINATOR_LOG.partition)
        return self._state.append(partition, batch, now)
