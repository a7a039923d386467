"""The edge of a cluster: any broker accepts any request, and has it served where it belongs.

Commands about topics go to the controller, messages to the leaders of their partitions; what this
broker leads it serves itself, at no cost. A publish for several leaders is routed here and split;
if the topic has schemas, its values are checked before anything is sent. A description asks every
leader about its partitions; one without a leader is listed with the code `leader_unavailable`,
never left out.

Who may do what is decided twice: here, before anything is sent, and by the broker that serves it,
for the caller that this one names over the proven link.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from goqueue.broker.cluster.cluster_commands import CONTROLLER_COMMANDS, COORDINATOR_COMMANDS
from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.cluster_schemas import ClusterSchemas
from goqueue.broker.cluster.command_shapes import only_target, with_copies
from goqueue.broker.cluster.delayed_parts import DelayCommand, split_by_leaders
from goqueue.broker.cluster.forward_parts import (
    LIFTED_BY_METADATA,
    Gather,
    OneReply,
    Part,
    PublishGather,
    PublishSlice,
    RecordsDeletedGather,
    Request,
    RequestNumbers,
    WatchGather,
)
from goqueue.broker.cluster.forward_server import ForwardServer
from goqueue.broker.cluster.forwarder import Forwarder
from goqueue.broker.cluster.level_gate import LevelGate
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.cluster.partition_reports import PartitionReports
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.cluster.topic_look_ups import TopicLookUps
from goqueue.broker.disk_reads import ForwardFetch
from goqueue.broker.metrics.request_metrics import RequestMetrics
from goqueue.broker.publish import Publisher
from goqueue.broker.state import NodeState
from goqueue.model import (
    Answer,
    Asked,
    Code,
    ForwardCancel,
    ForwardChunk,
    ForwardCommand,
    ForwardMessage,
    ForwardRefusal,
    ForwardReply,
    LogId,
    NodeEffect,
    Now,
    PeerConnected,
    PeerDisconnected,
    PeerEvent,
    PeerLane,
    PeerMessageReceived,
    PublishPart,
    Refused,
    RequestId,
    Serve,
)
from goqueue.model.requests import (
    CancelDelayed,
    Command,
    CreateTopic,
    DeleteRecords,
    DescribeDelays,
    DescribePartitions,
    DescribeTopic,
    FindDelayed,
    ListDelayed,
    Publish,
    Published,
    Read,
    Reply,
    Watch,
)

__all__ = ["ClusterEdge"]

Handler = Callable[[RequestId, Command, Now], None]


class ClusterEdge:
    """Decides for each request of a client who serves it."""

    def __init__(
        self,
        state: NodeState,
        member: ClusterMember,
        publisher: Publisher,
        *,
        ask: Callable[[Asked, Now], None],
        cancel: Callable[[RequestId], None],
        metrics: RequestMetrics,
        answered: Callable[[RequestId, Reply | Refused, Now], bool],
        led: Callable[[list[LogId], Now], None],
    ) -> None:
        """`ask` runs a command on this broker, `cancel` ends one whose caller is gone.

        `answered` takes the answers to what this broker asked by itself, and `led` learns which
        logs it serves from now on.
        """
        self._state = state
        self._member = member
        self._publisher = publisher
        self._ask = ask
        # What others serve they count.
        self._metrics = metrics
        self._answered = answered
        self._led = led
        # Whether an answer was taken by this broker itself since the last look.
        self._has_news = False
        # Whether the last call of `take` found answers to commands that ran for others.
        self.has_taken = False
        self.routes = Routes(
            state.node_id,
            image=lambda: None if member.metadata is None else member.metadata.image,
            controller=lambda: _controller_of(member),
        )
        numbers = self.numbers = RequestNumbers()
        self.forwarder = Forwarder(state, self.routes, numbers)
        self.server = ForwardServer(state, self.routes, numbers, ask, cancel)
        self.look_ups = TopicLookUps(self.forwarder, self.routes, numbers, state)
        self.reports = PartitionReports(state, self.routes)
        # The version and the controller that waiting requests were last tried with.
        self._known: tuple[int, str | None] = (0, None)

    # Commands of clients

    def around(self, here: dict[type, Handler], schemas: ClusterSchemas) -> dict[type, Handler]:
        """The handlers of clients' commands, around those that serve a command on this broker."""
        here[DescribePartitions] = self.reports.around(here[DescribePartitions])
        edge = dict(here)
        for command in CONTROLLER_COMMANDS:
            edge[command] = self._by_controller(here[command])
        edge |= schemas.around(here, self._by_controller)
        for kind, is_repeatable in COORDINATOR_COMMANDS.items():
            edge[kind] = self._by_coordinator(here[kind], is_repeatable=is_repeatable)
        handle: dict[type, Callable[[RequestId, Command, Now, Handler], None]] = {
            Read: self._read,
            Watch: self._watch,
            Publish: self._publish,
            DeleteRecords: self._delete_records,
            DescribePartitions: self._describe_partitions,
            DescribeTopic: self._describe_topic,
            ListDelayed: self._ask_about_delays,
            FindDelayed: self._ask_about_delays,
            CancelDelayed: self._ask_about_delays,
            DescribeDelays: self._ask_about_delays,
        }
        for kind, how in handle.items():
            edge[kind] = self._around(how, here[kind])
        gate = LevelGate(self.routes)
        return {kind: gate.around(kind, handler) for kind, handler in edge.items()}

    def _around(
        self, how: Callable[[RequestId, Command, Now, Handler], None], here: Handler
    ) -> Handler:
        def handle(request: RequestId, command: Command, now: Now) -> None:
            self._check_serves(request)
            asked = Asked(request=request, command=command, caller=self._state.caller)
            if self.look_ups.begin(asked, now):
                self.disown(request)
            else:
                how(request, command, now, here)

        return handle

    def _check_serves(self, request: RequestId) -> None:
        """Refuse before this broker knows its cluster; and its own clients when it has left it."""
        self._member.check_joined()
        if self._member.departure.is_over and request > 0:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="stopping")

    def _by_controller(self, here: Handler, is_repeatable: bool = False) -> Handler:
        def handle(request: RequestId, command: Command, now: Now) -> None:
            if isinstance(command, CreateTopic):
                command = with_copies(command, self.routes.active_count)
            if self.routes.controller == self.routes.me:
                try:
                    here(request, command, now)
                except Refused as refused:
                    if refused.code not in LIFTED_BY_METADATA:
                        raise
                else:
                    return
            self._forward_one(request, command, None, now, is_repeatable=is_repeatable)

        return handle

    def _by_coordinator(self, here: Handler, *, is_repeatable: bool) -> Handler:
        def handle(request: RequestId, command: Command, now: Now) -> None:
            self._check_serves(request)
            is_here = self._leads(COORDINATOR_LOG) or self.routes.partition(COORDINATOR_LOG) is None
            # Where there is no coordinator yet, this broker asks for one and waits.
            if not (is_here and self._run_here(here, request, command, now)):
                self._forward_one(
                    request, command, COORDINATOR_LOG, now, is_repeatable=is_repeatable
                )

        return handle

    def _forward_one(
        self,
        request: RequestId,
        command: Command,
        log: LogId | None,
        now: Now,
        *,
        is_repeatable: bool,
    ) -> None:
        whole = self._request(request, command, OneReply(), now)
        self._begin(whole, [Part(whole, command, log, is_repeatable=is_repeatable)], now)

    def _request(self, request: RequestId, command: Command, gather: Gather, now: Now) -> Request:
        return Request(request, command, self._state.caller, gather, now.instant)

    def _begin(self, request: Request, parts: list[Part], now: Now) -> None:
        self.forwarder.begin(request, parts, now)
        self.disown(request.id)

    def disown(self, request: RequestId) -> None:
        """Others serve a request, or it is asked again: it does not count as begun here."""
        self._metrics.cancel(request)
        self._state.audit.cancel(request)

    def _leads(self, log: LogId) -> bool:
        return self.routes.leader(log) == self.routes.me

    def _run_here(self, here: Handler, request: RequestId, command: Command, now: Now) -> bool:
        """Serve a command that this broker should lead; False if it does not, or not yet."""
        try:
            here(request, command, now)
        except Refused as refused:
            if refused.code not in LIFTED_BY_METADATA:
                raise
            return False
        return True

    def _read(self, request: RequestId, command: Command, now: Now, here: Handler) -> None:
        assert isinstance(command, Read)
        log = LogId(command.topic, command.partition)
        if self.routes.partition(log) is None:
            # No such topic or partition, or a log of this broker's own.
            here(request, command, now)
        elif not (self._leads(log) and self._run_here(here, request, command, now)):
            self._forward_one(request, command, log, now, is_repeatable=True)

    def _watch(self, request: RequestId, command: Command, now: Now, here: Handler) -> None:
        assert isinstance(command, Watch)
        by_leader = self.routes.by_leader(command.topic, command.offsets)
        if by_leader is None or set(by_leader) == {self.routes.me}:
            if self._run_here(here, request, command, now) or by_leader is None:
                return
        whole = self._request(request, command, WatchGather(), now)
        parts = [
            Part(
                whole,
                msgspec.structs.replace(
                    command, offsets={number: command.offsets[number] for number in numbers}
                ),
                LogId(command.topic, numbers[0]),
                is_repeatable=True,
            )
            for numbers in by_leader.values()
        ]
        self._begin(whole, parts, now)

    def _delete_records(
        self, request: RequestId, command: Command, now: Now, here: Handler
    ) -> None:
        assert isinstance(command, DeleteRecords)
        topic = self.routes.topic(command.topic)
        wanted = command.before
        if wanted is None and topic is not None:
            wanted = dict.fromkeys(range(topic.partitions))
        by_leader = None if not wanted else self.routes.by_leader(command.topic, wanted)
        if by_leader is None or wanted is None or set(by_leader) == {self.routes.me}:
            if self._run_here(here, request, command, now) or by_leader is None or wanted is None:
                return
        whole = self._request(request, command, RecordsDeletedGather(command.topic), now)
        parts = [
            Part(
                whole,
                msgspec.structs.replace(
                    command, before={number: wanted[number] for number in numbers}
                ),
                LogId(command.topic, numbers[0]),
                is_repeatable=False,
            )
            for numbers in by_leader.values()
        ]
        self._begin(whole, parts, now)

    # Publishing

    def _publish(self, request: RequestId, command: Command, now: Now, here: Handler) -> None:
        assert isinstance(command, Publish)
        topic = self.routes.topic(command.topic)
        if topic is None:
            here(request, command, now)
            return
        if self._publisher.needs_validation(command, topic.config):
            self._validate(request, command, now, here)
            return
        only = only_target(command.targets, topic.partitions)
        if only is not None and self._leads(LogId(command.topic, only)):
            if self._run_here(here, request, command, now):
                return
        # A record that the topic does not take is found here: its leader is sent the others.
        has_sequence = command.producer is not None and command.producer.sequence is not None
        routed = self._publisher.route(command, has_sequence=has_sequence, now=now)
        if only is None and len(routed.parts) == 1:
            (number,) = routed.parts
            is_whole = routed.targets.count(number) == len(routed.targets)
            if is_whole and self._leads(LogId(command.topic, number)):
                aimed = msgspec.structs.replace(command, targets=routed.targets)
                if self._run_here(here, request, aimed, now):
                    return
        self._publish_parts(request, command, routed.targets, routed.parts, now)

    def _validate(self, request: RequestId, command: Publish, now: Now, here: Handler) -> None:
        """Leave out the values that do not conform, or refuse all, before anything is sent."""
        caller = self._state.caller

        def go_on(request: RequestId, command: Publish, now: Now) -> None:
            before, self._state.caller = self._state.caller, caller
            try:
                self._publish(request, command, now, here)
            finally:
                self._state.caller = before

        self._publisher.validate(request, command, go_on, now)

    def _publish_parts(
        self,
        request: RequestId,
        command: Publish,
        targets: list[int],
        parts: dict[int, bytearray],
        now: Now,
    ) -> None:
        if not parts:
            violations = command.violations or {}
            empty = Published(targets=targets, placed=(), timestamp=now.wall, violations=violations)
            self._state.access.note_principal()
            self._state.outbox.answer(request, empty)
            return
        dues: dict[int, list[int]] = {}
        if command.dues is not None:
            for target, due in zip(targets, command.dues, strict=True):
                dues.setdefault(target, []).append(due)
        counts = Counter(targets)
        slices = {
            number: PublishSlice(
                data, counts[number], tuple(dues[number]) if number in dues else None
            )
            for number, data in parts.items()
        }
        self._split(request, command, targets, slices, now)

    def _split(
        self,
        request: RequestId,
        command: Publish,
        targets: list[int],
        slices: dict[int, PublishSlice],
        now: Now,
    ) -> None:
        """One part for each leader; the batch itself is no longer needed."""
        is_sequenced = command.producer is not None and command.producer.sequence is not None
        violations = command.violations or {}
        gather = PublishGather(targets, slices, violations, is_sequenced=is_sequenced)
        bare = msgspec.structs.replace(
            command, batch=bytearray(), targets=None, refused=None, violations=None
        )
        whole = self._request(request, bare, gather, now)
        by_leader: dict[str | None, dict[int, PublishSlice]] = {}
        for number, each in slices.items():
            leader = self.routes.leader(LogId(command.topic, number))
            by_leader.setdefault(leader, {})[number] = each
        parts = [
            Part(
                whole,
                bare,
                LogId(command.topic, next(iter(theirs))),
                is_repeatable=is_sequenced,
                slices=theirs,
            )
            for theirs in by_leader.values()
        ]
        self._begin(whole, parts, now)

    # Delayed messages

    def _ask_about_delays(
        self, request: RequestId, command: Command, now: Now, here: Handler
    ) -> None:
        """The leaders answer; where there is none to ask, this broker says why."""
        assert isinstance(command, DelayCommand)
        split = split_by_leaders(command, self.routes)
        if not split.parts:
            here(request, command, now)
            return
        whole = self._request(request, command, split.gather, now)
        parts = [Part(whole, each, log, is_repeatable=True) for log, each in split.parts.items()]
        self._begin(whole, parts, now)

    # Descriptions

    def _describe_partitions(
        self, request: RequestId, command: Command, now: Now, here: Handler
    ) -> None:
        assert isinstance(command, DescribePartitions)
        if not self._describe(request, command.topic, now, is_topic=False):
            here(request, command, now)

    def _describe_topic(
        self, request: RequestId, command: Command, now: Now, here: Handler
    ) -> None:
        assert isinstance(command, DescribeTopic)
        if not self._describe(request, command.name, now, is_topic=True):
            here(request, command, now)

    def _describe(self, request: RequestId, topic: str, now: Now, *, is_topic: bool) -> bool:
        """Ask the leaders of a topic about their partitions; False if there is no such topic."""
        stated = self.routes.topic(topic)
        by_leader = (
            None if stated is None else self.routes.by_leader(topic, range(stated.partitions))
        )
        if stated is None or by_leader is None:
            return False
        gather = self.reports.gather(stated, is_topic=is_topic)
        whole = self._request(request, DescribePartitions(topic=topic), gather, now)
        parts = [
            Part(
                whole,
                DescribePartitions(topic=topic, only=tuple(numbers)),
                LogId(topic, numbers[0]),
                is_repeatable=True,
            )
            for leader, numbers in by_leader.items()
            if leader is not None or is_topic
        ]
        if parts:
            self._begin(whole, parts, now)
        else:
            self._state.access.note_principal()
            self._state.outbox.answer(request, gather.result())
        return True

    # Peers

    def handle_peer(self, event: PeerEvent, now: Now) -> bool:
        """An event of a forwarding link; False: it belongs to another part of the node."""
        match event:
            case PeerConnected(lane=PeerLane.FORWARDING):
                self.forwarder.connect(event.broker, event.incarnation, now)
            case PeerDisconnected(lane=PeerLane.FORWARDING):
                if not event.is_refused:
                    self.forwarder.disconnect(event.broker, event.incarnation, now)
                    self.server.disconnect(event.broker, event.incarnation)
            case PeerMessageReceived() if isinstance(event.message, ForwardMessage):
                if self.routes.is_member(event.broker, event.incarnation):
                    self._receive(event, event.message, now)
                elif isinstance(event.message, ForwardCommand | PublishPart):
                    # The image may not show its run yet: nothing was done, it asks again.
                    self.server.refuse_stranger(event.broker, event.message.number)
            case _:
                return False
        return True

    def _receive(self, event: PeerMessageReceived, message: ForwardMessage, now: Now) -> None:
        broker = event.broker
        match message:
            case ForwardCommand() | PublishPart():
                self.server.receive(broker, event.incarnation, message, event.data, now)
            case ForwardReply() | ForwardRefusal():
                self.forwarder.receive(broker, message, event.data, now)
            case ForwardCancel():
                self.server.receive_cancel(broker, message)
            case ForwardChunk():
                if message.is_reply:
                    self.forwarder.receive_chunk(broker, message, event.data)
                else:
                    self.server.receive_chunk(broker, message, event.data)

    # Turns

    def wake(self, now: Now) -> None:
        """A deadline has come."""
        self.forwarder.wake(now)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """The caller of a request is gone. False if it is not ours."""
        if is_gone and self.look_ups.cancel(request):
            return True
        return self.forwarder.cancel(request, is_gone=is_gone)

    def end_all(self) -> None:
        """The node stops."""
        self.look_ups.end_all()
        self.forwarder.end_all()

    def fetched(self, purpose: ForwardFetch, data: memoryview | None, now: Now) -> None:
        """Records for another broker were read."""
        reply = self.server.fetched(purpose, data, now)
        if reply is not None:
            self._metrics.served(purpose.request, reply, now)

    def finish_turn(self, now: Now) -> bool:
        """Follow the metadata, and serve parts that this broker leads; whether there were any."""
        known = (self.routes.version, self.routes.controller)
        ready = self._member.replicas.take_ready()
        if ready:
            self._led(ready, now)
        if ready or known != self._known:
            self._known = known
            self.forwarder.metadata_changed(now)
        self.look_ups.ask_again(self._ask, now)
        return self.forwarder.run_here(self._ask, now)

    @property
    def can_run(self) -> bool:
        """Whether more parts can be run here in this turn."""
        return self.forwarder.has_to_run and not self._state.budget.is_spent

    def take_news(self) -> bool:
        """Whether this broker took an answer itself since the last call: it may go on now."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def take(self, effects: Sequence[NodeEffect], now: Now) -> list[NodeEffect]:
        """The effects without the answers to commands that ran for others; those go to them."""
        kept: list[NodeEffect] = []
        self.has_taken = False
        for effect in effects:
            kind = type(effect)
            if kind is Answer:
                assert isinstance(effect, Answer)
                if effect.request < 0:
                    self.has_taken = True
                    self._take_answer(effect, now)
                    continue
            elif kind is Serve:
                assert isinstance(effect, Serve)
                if effect.request < 0:
                    self.has_taken = True
                    self._take_serve(effect, kept, now)
                    continue
            kept.append(effect)
        return kept

    def _take_serve(self, effect: Serve, kept: list[NodeEffect], now: Now) -> None:
        if self.server.serves(effect.request):
            reply = self.server.take_serve(effect)
            if reply is not None:
                self._metrics.served(effect.request, reply, now)
        else:
            request = self.forwarder.take_serve(effect.request)
            self._metrics.cancel(effect.request)
            if request is not None:
                kept.append(msgspec.structs.replace(effect, request=request))

    def _take_answer(self, effect: Answer, now: Now) -> None:
        request, reply = effect.request, effect.reply
        is_taken = self._answered(request, reply, now)
        self._has_news |= is_taken
        is_taken = (
            is_taken
            or self.forwarder.take_answer(request, reply, now)
            or self.look_ups.take_answer(request, reply, now)
        )
        if not is_taken:
            self.server.take_answer(request, reply)


def _controller_of(member: ClusterMember) -> str | None:
    """The broker that leads the metadata log, as far as this one knows."""
    leader = None if member.metadata is None else member.metadata.election.leader
    return None if leader is None else leader.broker
