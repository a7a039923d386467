"""Brokers that forward to each other over links that the test cuts, by an image that it changes."""

from goqueue.broker.cluster.forward_parts import (
    OneReply,
    Part,
    PublishGather,
    PublishSlice,
    Request,
    RequestNumbers,
)
from goqueue.broker.cluster.forward_server import ForwardServer
from goqueue.broker.cluster.forwarder import Forwarder
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.state import NodeState
from goqueue.broker.turns import TurnBudget
from goqueue.cluster import (
    BrokerAddresses,
    BrokerRegistered,
    LeaderChange,
    LeadersChanged,
    MetadataImage,
    PartitionsAssigned,
    ReplicaAssignment,
    TopicStated,
)
from goqueue.model import (
    LOCAL,
    SECOND,
    Answer,
    Asked,
    Caller,
    ForwardCancel,
    ForwardChunk,
    ForwardCommand,
    ForwardRefusal,
    ForwardReply,
    Instant,
    LogId,
    Message,
    Now,
    PublishPart,
    Refused,
    RequestId,
    Send,
    Timestamp,
)
from goqueue.model.requests import Command, ProducerStamp, Publish, Reply, TopicConfig
from goqueue.records import build
from goqueue.tracing import Tracer

TOPIC = "orders"


class BenchBroker:
    """Both ends of forwarding on one broker; commands that run here wait for the test."""

    def __init__(self, bench: "ForwardBench", name: str) -> None:
        self._bench = bench
        self.name = name
        self.image = MetadataImage()
        self.controller: str | None = "a"
        self.state = NodeState(name, Tracer(1.0), TurnBudget())
        self.routes = Routes(name, lambda: self.image, lambda: self.controller)
        numbers = self.numbers = RequestNumbers()
        self.forwarder = Forwarder(self.state, self.routes, numbers)
        self.server = ForwardServer(self.state, self.routes, numbers, self._ask, self._cancel)
        self.asked: list[Asked] = []
        self.cancelled: list[RequestId] = []
        self.answers: dict[RequestId, Reply | Refused] = {}
        self.wakes_total = 0

    @property
    def asked_counts(self) -> list[int]:
        """How many messages each publish that runs here has."""
        commands = [asked.command for asked in self.asked]
        return [len(each.targets or ()) for each in commands if isinstance(each, Publish)]

    def run_here(self) -> None:
        self.forwarder.run_here(self._ask, self._bench.now)

    def wake_if_due(self) -> None:
        """One turn, if an alarm has come."""
        self.state.budget.begin()
        for _ in self.state.alarms.due(self._bench.now.instant, self.state.budget):
            self.wakes_total += 1
            self.forwarder.wake(self._bench.now)

    def _ask(self, asked: Asked, _: Now) -> None:
        self.asked.append(asked)

    def _cancel(self, request: RequestId) -> None:
        self.cancelled.append(request)

    # What its clients do

    def send(
        self,
        request: int,
        command: Command,
        log: LogId | None,
        *,
        is_repeatable: bool = True,
        caller: Caller = LOCAL,
    ) -> None:
        now = self._bench.now
        whole = Request(RequestId(request), command, caller, OneReply(), now.instant)
        part = Part(whole, command, log, is_repeatable=is_repeatable)
        self.forwarder.begin(whole, [part], now)
        self._bench.settle()

    def publish(self, request: int, counts: dict[int, int], *, sequence: int | None = None) -> None:
        """Publish so many messages to each partition."""
        stamp = (
            None if sequence is None else ProducerStamp(producer_id=1, epoch=0, sequence=sequence)
        )
        command = Publish(topic=TOPIC, batch=bytearray(), producer=stamp)
        slices = {
            number: PublishSlice(
                build([Message(value=b"%d" % each) for each in range(count)]), count
            )
            for number, count in counts.items()
        }
        targets = [number for number, count in counts.items() for _ in range(count)]
        is_sequenced = sequence is not None
        gather = PublishGather(targets, slices, {}, is_sequenced=is_sequenced)
        now = self._bench.now
        whole = Request(RequestId(request), command, LOCAL, gather, now.instant)
        by_leader: dict[str | None, dict[int, PublishSlice]] = {}
        for number, each in slices.items():
            by_leader.setdefault(self.routes.leader(LogId(TOPIC, number)), {})[number] = each
        parts = [
            Part(
                whole,
                command,
                LogId(TOPIC, next(iter(theirs))),
                is_repeatable=is_sequenced,
                slices=theirs,
            )
            for theirs in by_leader.values()
        ]
        self.forwarder.begin(whole, parts, now)
        self._bench.settle()

    # What runs here

    def answer(self, reply: Reply | Refused) -> None:
        """Answer the oldest command that runs on this broker."""
        asked = self.asked.pop(0)
        if not self.forwarder.take_answer(asked.request, reply, self._bench.now):
            self.server.take_answer(asked.request, reply)
        self._bench.settle()


class ForwardBench:
    """Brokers `a`, `b` and `c`; topic `orders` whose partitions 0, 1, 2 they lead in this order."""

    def __init__(self) -> None:
        self.now = Now(Instant(SECOND), Timestamp(10**18))
        self.brokers = {name: BenchBroker(self, name) for name in "abc"}
        self.lost: list[Send] = []
        self._is_settling = False
        # Messages from and to these brokers are lost, though their links are open.
        self.silent: set[str] = set()
        self._version = 0
        self._connected: set[tuple[str, str]] = set()
        self.change(
            *(
                BrokerRegistered(
                    broker=name,
                    directory=f"d-{name}",
                    incarnation=1,
                    addresses=BrokerAddresses(http=f"http://{name}"),
                )
                for name in "abc"
            ),
            TopicStated(name=TOPIC, number=1, partitions=3, config=TopicConfig(), created_at=0),
            PartitionsAssigned(
                topic=1,
                partitions=tuple(ReplicaAssignment(("a", "b", "c"), name) for name in "abc"),
            ),
        )
        for one in "abc":
            for other in "abc":
                if one != other:
                    self.connect(one, other)

    def __getitem__(self, name: str) -> BenchBroker:
        return self.brokers[name]

    def change(self, *changes: object, on: str = "abc") -> None:
        """Commit changes, which some brokers learn of now and others later."""
        self._version += 1
        for name in on:
            self.brokers[name].image.apply(changes, self._version)  # type: ignore[arg-type]  # any change, as the test names it
            self.brokers[name].forwarder.metadata_changed(self.now)
        self.settle()

    def elect(self, partition: int, leader: str | None, on: str = "abc") -> None:
        self.change(LeadersChanged(changes=(LeaderChange(1, partition, leader),)), on=on)

    def connect(self, one: str, other: str) -> None:
        self._connected.add((one, other))
        self.brokers[one].forwarder.connect(other, 1, self.now)
        self.settle()

    def disconnect(self, one: str, other: str) -> None:
        """The links of a pair end on both sides."""
        for here, there in ((one, other), (other, one)):
            self._connected.discard((here, there))
            self.brokers[here].forwarder.disconnect(there, 1, self.now)
            self.brokers[here].server.disconnect(there, 1)
        self.settle()

    def wait(self, ns: int) -> None:
        """Let time pass: a broker is woken when it wants to be, and at no other time."""
        until = self.now.instant + ns
        while due := [each for each in self._deadlines() if each <= until]:
            self._set_time(max(self.now.instant, *due[:1]))
            for broker in self.brokers.values():
                broker.wake_if_due()
            self.settle()
        self._set_time(until)

    def _deadlines(self) -> list[Instant]:
        """When brokers want to be woken, earliest first."""
        alarms = (broker.state.alarms.next_deadline() for broker in self.brokers.values())
        return sorted(each for each in alarms if each is not None)

    def _set_time(self, instant: int) -> None:
        passed = instant - self.now.instant
        self.now = Now(Instant(instant), Timestamp(self.now.wall + passed))

    def settle(self) -> None:
        """Deliver messages and run what is to run, until nothing moves."""
        if self._is_settling:
            return
        self._is_settling = True
        self._move()
        self._is_settling = False

    def _move(self) -> None:
        is_moving = True
        while is_moving:
            is_moving = False
            for broker in self.brokers.values():
                broker.run_here()
                for effect in broker.state.outbox.drain():
                    is_moving = True
                    if isinstance(effect, Answer):
                        assert effect.request not in broker.answers, "answered once"
                        broker.answers[effect.request] = effect.reply
                    elif isinstance(effect, Send):
                        self._deliver(broker.name, effect)

    def _deliver(self, sender: str, effect: Send) -> None:
        if {sender, effect.broker} & self.silent or (sender, effect.broker) not in self._connected:
            self.lost.append(effect)
            return
        receiver = self.brokers[effect.broker]
        data = tuple(bytes(each) for each in effect.data)
        message = effect.message
        match message:
            case ForwardCommand() | PublishPart():
                receiver.server.receive(sender, 1, message, data, self.now)
            case ForwardReply() | ForwardRefusal():
                receiver.forwarder.receive(sender, message, data, self.now)
            case ForwardCancel():
                receiver.server.receive_cancel(sender, message)
            case ForwardChunk(is_reply=True):
                receiver.forwarder.receive_chunk(sender, message, data)
            case ForwardChunk():
                receiver.server.receive_chunk(sender, message, data)
