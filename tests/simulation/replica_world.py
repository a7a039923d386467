"""Three copies of one partition, their disks and a controller, without chance.

Everything that can happen is a method; a search decides when. The leader, the followers, their logs
and the rules of the ISR are the real ones; around them is as little as possible: what is on its way
between brokers, what a disk has not done yet, and the committed image, which each broker learns on
its own.

The world checks after each step: what any copy takes for committed every member of the committed
ISR has synced, with the same bytes (C6, C7, C8); nothing acknowledged is lost; no ISR is smaller
than the minimum (C9); nothing committed is cut (C10).
"""

import msgspec

from goqueue.broker import TurnBudget
from goqueue.broker.disk_reads import ReplicaFetch
from goqueue.broker.replication.partition_follower import PartitionFollower
from goqueue.broker.replication.partition_leader import ClusterView, PartitionLeader
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    IsrChanged,
    IsrMember,
    LeadersChanged,
    PartitionId,
    PartitionsAssigned,
    PartitionState,
    PartitionTable,
    ReplicaAssignment,
    TopicStated,
    Voter,
    check_isr_change,
    elect_leaders,
)
from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    SECOND,
    Fetch,
    Instant,
    IsrWish,
    LogId,
    LogsAcknowledged,
    LogsAdvanced,
    LogSettings,
    LogsSubscribed,
    Message,
    NodeEffect,
    Now,
    Offset,
    PeerMessage,
    ReplicaAppend,
    ReplicaDiverged,
    ReplicaReset,
    Reshape,
    SaveEpochs,
    SegmentFacts,
    Send,
    Sync,
    Synced,
    Timestamp,
    Truncate,
    Truncated,
    Write,
)
from goqueue.model.requests import TopicConfig
from goqueue.records import build
from goqueue.tracing import Tracer

__all__ = ["BROKERS", "STATES", "Broker", "ReplicaWorld", "Violation"]

BROKERS = ("a", "b", "c")
LOG = LogId("orders", 0)
WHERE = PartitionId(1, 0)
MINIMUM = 2
_BLANK = SegmentFacts(base=Offset(0), end=Offset(0), size=0, max_timestamp=Timestamp(0))
# All that time changes here is who lags: after a step of this size somebody does.
_LAG_NS = 4 * SECOND

# The memories of the brokers' nodes. A turn leaves nothing in what is used of them, so that all
# worlds share them.
STATES = {name: NodeState(name, Tracer(0.0), TurnBudget()) for name in BROKERS}


class Violation(AssertionError):
    """Something that must never happen."""


class Batch(msgspec.Struct, frozen=True):
    """Records in a file; the epoch is the one in which they were written."""

    first: Offset
    next: Offset
    data: bytes


class Packet(msgspec.Struct, frozen=True):
    """A message on its way, of one run of its sender to one run of its receiver."""

    sender: str
    sender_run: int
    to: str
    to_run: int
    message: PeerMessage
    data: tuple[bytes, ...]


class Image(msgspec.Struct, frozen=True):
    """What is committed as of one version."""

    state: PartitionState
    # The epochs of the brokers that are registered and not fenced.
    epochs: dict[str, int]


class _Noted(RecordedEnds):
    """Notes that are always as they have to be: files that vanish are another matter."""

    def may_confirm(self, _where: PartitionId, _log: Log) -> bool:
        return True

    def may_cut(self, _where: PartitionId, _target: Offset) -> bool:
        return True


class Broker:
    """One run of a broker with its copy."""

    def __init__(self, name: str, run: int, found: LogState, files: list[Batch]) -> None:
        self.name = name
        self.run = run
        self.log = Log(LOG, LogSettings(), found, Replica(ReplicaRole.FOLLOWER))
        self.files = files
        self.durable = found.end
        self.epochs = found.epochs
        # What a crash leaves of the high watermark.
        self.saved_committed = found.committed
        self.queue: list[Write | Sync | Reshape] = []
        self.leader: PartitionLeader | None = None
        self.follower: PartitionFollower | None = None
        # The version of the image that it knows, and its own epoch once that names this run.
        self.known = 0
        self.epoch: int | None = None
        self.wishes: list[IsrWish] = []
        self.view = ClusterView(STATES[name])
        self.view.ends = _Noted()

    @property
    def voter(self) -> Voter:
        return Voter(self.name, f"{self.name}-disk")

    def below(self, end: Offset) -> list[Batch]:
        """The batches below an offset, at which one of them ends."""
        return [each for each in self.files if each.next <= end]


class ReplicaWorld:
    """Three brokers in sync, of which `a` leads an empty partition."""

    def __init__(self) -> None:
        self.now = Now(Instant(SECOND), Timestamp(SECOND))
        self.table = PartitionTable()
        config = TopicConfig(replication_factor=3, min_insync_replicas=MINIMUM)
        stated = TopicStated(name=LOG.topic, number=1, partitions=1, config=config, created_at=0)
        self.version = len(BROKERS) + 1
        self.table.apply(stated, self.version)
        first = ReplicaAssignment(BROKERS, "a")
        self.table.apply(PartitionsAssigned(topic=1, partitions=(first,)), self.version)
        self.epochs = {name: number + 1 for number, name in enumerate(BROKERS)}
        self.images: list[Image] = []
        self._commit()
        self.packets: list[Packet] = []
        self.published = 0
        # All that any copy ever took for committed.
        self.committed: list[Batch] = []
        self.crashes = 0
        self.fences = 0
        self.lags = 0
        self.brokers = {name: Broker(name, 1, LogState(), []) for name in BROKERS}
        for name in BROKERS:
            self.learn(name)

    # The controller

    @property
    def state(self) -> PartitionState:
        """The partition as it is committed."""
        found = self.table.get(*WHERE)
        assert found is not None
        return found

    def _commit(self) -> None:
        self.images.append(Image(self.state, dict(self.epochs)))

    def decide(self, name: str) -> None:
        """The oldest wish of a broker reaches the controller."""
        wish = self.brokers[name].wishes.pop(0)
        members = tuple(IsrMember(*each) for each in wish.isr)
        change = IsrChanged(
            topic=wish.topic,
            partition=wish.partition,
            epoch=wish.epoch,
            version=wish.version,
            isr=members,
        )
        if check_isr_change(change, self.table, self.epochs, MINIMUM):
            self.version += 1
            self.table.apply(change, self.version)
            self._commit()

    def fence(self, name: str) -> None:
        """Nothing is heard of a broker, which runs on: others lead what it led."""
        self.fences += 1
        self.epochs.pop(name)
        self.version += 1
        self._elect()
        self._commit()

    def register(self, name: str) -> None:
        """A fenced run of a broker is heard again: it registers anew."""
        self.version += 1
        self.epochs[name] = self.version
        self._elect()
        self._commit()

    def _elect(self) -> None:
        """Whoever led in an earlier run, or is gone, leads no more."""
        live = [each for each, epoch in self.epochs.items() if epoch < self.version]
        if self.state.leader in live:
            return
        changes = elect_leaders(self.table, [WHERE], live or list(self.epochs))
        self.table.apply(LeadersChanged(changes=tuple(changes)), self.version)

    # What a broker does

    def learn(self, name: str) -> None:
        """A broker learns of the next committed change."""
        broker = self.brokers[name]
        image = self.images[broker.known]
        broker.known += 1
        broker.view.epochs.clear()
        broker.view.epochs.update(image.epochs)
        if broker.run == 1 or image.epochs.get(name, 0) > broker.run:
            broker.epoch = image.epochs.get(name)
        self._take_role(broker, image.state)
        self._settle(broker)

    def _take_role(self, broker: Broker, state: PartitionState) -> None:
        leader, follower, me = broker.leader, broker.follower, broker.name
        should_lead = state.leader == me and broker.epoch is not None and state.epoch > broker.epoch
        if leader is not None and leader.epoch == state.epoch and should_lead:
            leader.follow_image(state, MINIMUM, self.now.instant)
            return
        if leader is None and follower is not None and follower.epoch == state.epoch:
            return
        if leader is not None:
            leader.release()
        broker.leader = broker.follower = None
        if should_lead:
            self._lead(broker, state)
            return
        broker.log.assume_role(ReplicaRole.FOLLOWER, state.epoch)
        if state.leader is not None and state.leader != me:
            broker.follower = PartitionFollower(
                STATES[me],
                broker.log,
                WHERE,
                Voter(state.leader, f"{state.leader}-disk"),
                view=broker.view,
                image=state,
            )
            broker.follower.subscribe("")

    def _lead(self, broker: Broker, state: PartitionState) -> None:
        if broker.log.is_changing:
            return
        is_first = state.epoch == self.table.created_at(1)
        broker.leader = PartitionLeader(
            broker.view,
            broker.log,
            WHERE,
            image=state,
            minimum=MINIMUM,
            is_first=is_first,
            now=self.now,
        )
        broker.leader.invite()

    def publish(self, name: str) -> None:
        """A client publishes at a broker that takes itself for the leader."""
        broker = self.brokers[name]
        leader = broker.leader
        assert leader is not None
        self.published += 1
        leader.begin_epoch(self.now)
        batch = build([Message(value=b"%d" % self.published)])
        appended = broker.log.append(batch, self.now)
        STATES[name].outbox.extend(appended.effects)
        (data,) = (each.data for each in appended.effects if isinstance(each, Write))
        leader.appended(appended.first, appended.next, data, self.now.instant)
        self._settle(broker)

    def wish(self, name: str) -> None:
        """A leader sees that somebody should leave, or may join, its ISR; seconds may pass."""
        broker = self.brokers[name]
        assert broker.leader is not None
        if broker.leader.needs_attention:
            self.lags += 1
            self.now = Now(Instant(self.now.instant + _LAG_NS), Timestamp(self.now.wall + _LAG_NS))
        self._wish(broker)
        self._settle(broker)

    def _wish(self, broker: Broker) -> None:
        wish = None if broker.leader is None else broker.leader.wish(self.now.instant, SECOND)
        if wish is not None and wish not in broker.wishes:
            broker.wishes.append(wish)

    def tell(self, name: str) -> None:
        """A leader says how far its log is committed, to all if it misses something of them."""
        leader = self.brokers[name].leader
        assert leader is not None
        if leader.needs_attention:
            leader.tell_all()
        else:
            leader.tell_watermarks()
        self._settle(self.brokers[name])

    def ask_again(self, name: str) -> None:
        """A follower asks its leader anew: messages may have been lost."""
        broker = self.brokers[name]
        assert broker.follower is not None
        broker.follower.subscribe("")
        self._settle(broker)

    def deliver(self, number: int) -> None:
        """A message arrives; of a run that is over, or at one, it is lost."""
        packet = self.packets.pop(number)
        broker, sender = self.brokers[packet.to], self.brokers[packet.sender]
        if (packet.sender_run, packet.to_run) == (sender.run, broker.run):
            self._receive(broker, sender.voter, packet.message, packet.data)
            self._settle(broker)

    def _receive(
        self, broker: Broker, sender: Voter, message: PeerMessage, data: tuple[bytes, ...]
    ) -> None:
        match message:
            case LogsSubscribed(logs=(asked,)):
                if broker.leader is not None:
                    broker.leader.subscribed(sender, asked, self.now.instant)
            case LogsAcknowledged(logs=(ack,), broker_epoch=epoch):
                if broker.leader is not None and broker.view.epochs.get(sender.broker) == epoch:
                    broker.leader.acknowledged(sender, ack, epoch, self.now.instant)
                    broker.leader.advance()
                    if sender.broker not in broker.leader.image.isr:
                        self._wish(broker)
            case LogsAdvanced(logs=(news,), asked=asked_at):
                follower = _follower(broker, sender, news.epoch)
                if follower is not None:
                    follower.advanced(news, asked_at)
            case ReplicaAppend() | ReplicaDiverged() | ReplicaReset():
                follower = _follower(broker, sender, message.epoch)
                if follower is not None:
                    self._follow(follower, message, data)
            case _:
                raise AssertionError(f"nobody sends {message} here")

    def _follow(
        self,
        follower: PartitionFollower,
        message: ReplicaAppend | ReplicaDiverged | ReplicaReset,
        data: tuple[bytes, ...],
    ) -> None:
        refusal: object = None
        match message:
            case ReplicaAppend() if follower.take_repair(message, data):
                pass
            case ReplicaAppend():
                follower.append(message, data, self.now)
            case ReplicaDiverged():
                refusal = follower.diverged(message)
            case ReplicaReset():
                refusal = follower.reset(message)
        if refusal is not None:
            raise Violation(f"C10: something committed would have been cut: {refusal}")

    # Disks

    def sync(self, name: str) -> None:
        """A disk does all that it was told."""
        broker = self.brokers[name]
        queue, broker.queue = broker.queue, []
        for effect in queue:
            match effect:
                case Write():
                    batch = Batch(broker.log.start, effect.next_offset, bytes(effect.data))
                    first = broker.files[-1].next if broker.files else Offset(0)
                    broker.files.append(msgspec.structs.replace(batch, first=first))
                case Sync():
                    broker.durable = max(broker.durable, effect.upto)
                    broker.saved_committed = max(broker.saved_committed, effect.committed)
                    self._disk(broker, Synced(log=LOG, upto=effect.upto))
                case Reshape(change=SaveEpochs(epochs=epochs)):
                    broker.epochs = epochs
                case Reshape(change=Truncate(offset=offset)):
                    self._truncate(broker, offset)
                case _:
                    raise AssertionError(f"no log does {effect} here")
        self._settle(broker)

    def _truncate(self, broker: Broker, offset: Offset) -> None:
        broker.files = [each for each in broker.files if each.next <= offset]
        broker.durable = min(broker.durable, offset)
        active = _facts(broker.files)
        self._disk(broker, Truncated(log=LOG, offset=offset, active=active))

    def _disk(self, broker: Broker, event: Synced | Truncated) -> None:
        STATES[broker.name].outbox.extend(broker.log.handle(event, self.now))
        if broker.leader is not None:
            broker.leader.advance()
            broker.leader.resume(self.now.instant)
        elif broker.follower is not None:
            broker.follower.synced()
            if isinstance(event, Truncated):
                broker.follower.settled("")
        else:
            state = self.images[broker.known - 1].state
            if state.leader == broker.name:
                self._take_role(broker, state)

    def crash(self, name: str) -> None:
        """A broker loses its power and begins anew: what it had not synced is gone."""
        self.crashes += 1
        old = self.brokers[name]
        files = [each for each in old.files if each.next <= old.durable]
        end = files[-1].next if files else Offset(0)
        found = LogState(
            segments=(_facts(files),),
            epochs=tuple(each for each in old.epochs if each[1] < end or not end),
            committed=min(old.saved_committed, end),
        )
        self.register(name)
        # The run is named by the version before its registration: that and later ones name it.
        self.brokers[name] = Broker(name, self.version - 1, found, files)
        self.brokers[name].known = old.known

    # Between turns

    def _settle(self, broker: Broker) -> None:
        """Hand what a broker decided to its disk and to the network; check everything."""
        outbox = STATES[broker.name].outbox
        broker.view.streams.flush(broker.epoch or 0, self.now.instant)
        while effects := outbox.drain():
            for effect in effects:
                self._carry_out(broker, effect)
            broker.view.streams.flush(broker.epoch or 0, self.now.instant)
        self.check()

    def _carry_out(self, broker: Broker, effect: NodeEffect) -> None:
        match effect:
            case Write() | Sync() | Reshape():
                broker.queue.append(effect)
            case Send(broker=to, message=message, data=data):
                copies = tuple(bytes(each) for each in data)
                other = self.brokers[to]
                packet = Packet(broker.name, broker.run, to, other.run, message, copies)
                if packet not in self.packets:
                    self.packets.append(packet)
            case Fetch():
                self._fetch(broker, effect)
            case _:
                raise AssertionError(f"nobody asked for {effect}")

    def _fetch(self, broker: Broker, effect: Fetch) -> None:
        purpose = STATES[broker.name].fetches.pop(effect.token)
        assert isinstance(purpose, ReplicaFetch)
        wanted = effect.wanted
        parts = [each.data for each in broker.files if wanted.offset <= each.first < wanted.below]
        data = memoryview(b"".join(parts))
        broker.view.catch_up.done(purpose, len(data), self.now.instant)
        if broker.leader is not None:
            broker.leader.fetched(purpose, data, self.now.instant)

    # What must be true

    def check(self) -> None:
        isr = self.state.isr
        if len(isr) < MINIMUM:
            raise Violation(f"C9: the ISR is {isr}")
        for broker in self.brokers.values():
            self._check_committed(broker)
        for name in isr:
            self._check_member(name)

    def _check_committed(self, broker: Broker) -> None:
        """What a broker takes for committed is what others did, or is more."""
        end = broker.log.high_watermark
        own = broker.below(end)
        if (own[-1].next if own else 0) != end:
            raise Violation(f"C7: {broker.name} takes {end} for committed, and has {own}")
        shared = min(len(own), len(self.committed))
        if own[:shared] != self.committed[:shared]:
            raise Violation(f"C6: {broker.name} has {own}, committed is {self.committed}")
        if len(own) > shared:
            self.committed = own

    def _check_member(self, name: str) -> None:
        """A member of the committed ISR holds all that was ever committed, synced."""
        member = self.brokers[name]
        if member.below(member.durable)[: len(self.committed)] != self.committed:
            raise Violation(
                f"C8: {name} is in the ISR, and has synced {member.below(member.durable)} of"
                f" what is committed: {self.committed}"
            )


def _follower(broker: Broker, leader: Voter, epoch: int) -> PartitionFollower | None:
    """The follower that listens to this leader."""
    follower = broker.follower
    if follower is None or (follower.leader, follower.epoch) != (leader, epoch):
        return None
    return follower


def _facts(files: list[Batch]) -> SegmentFacts:
    if not files:
        return _BLANK
    size = sum(len(each.data) for each in files)
    return SegmentFacts(
        base=Offset(0), end=files[-1].next, size=size, max_timestamp=Timestamp(SECOND)
    )
