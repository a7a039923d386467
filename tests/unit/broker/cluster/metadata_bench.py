"""Several copies of the metadata log on a bench: the test moves time, messages and disks by hand.

Real logs over real storage in memory; nothing moves by itself. A broker that the test does not wake
and to which it delivers nothing is as good as crashed.
"""

from collections import deque

from goqueue.broker import TurnBudget
from goqueue.broker.cluster.broker_state import BROKER_STATE_LOG, BrokerStateJournal
from goqueue.broker.cluster.cluster_config import METADATA_LOG, METADATA_SETTINGS, ClusterConfig
from goqueue.broker.cluster.metadata_records import MetadataRecord, decode_records
from goqueue.broker.cluster.quorum_metadata import QuorumMetadata
from goqueue.broker.disk_reads import ClusterFetch, ReplicaFetch
from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.broker.state import NodeState
from goqueue.cluster import BrokerAddresses, Voter, Voters
from goqueue.log import Log, Replica, ReplicaRole
from goqueue.model import (
    SECOND,
    Answer,
    Effect,
    Fetch,
    Instant,
    LeadershipOffer,
    Now,
    Reshape,
    Send,
    Sync,
    Timestamp,
    VoteReply,
    VoteRequest,
    Write,
)
from goqueue.model.peer_messages import PeerMessage
from goqueue.storage import Storage
from goqueue.tracing import Tracer
from tests.unit.storage.memory_files import Content, MemoryFiles

__all__ = ["Bench", "BenchBroker"]

_WALL = 1_700_000_000 * SECOND
_VOTES = (VoteRequest, VoteReply)


class BenchBroker:
    """One broker: its disk, its ballots and its copy of the log."""

    def __init__(self, bench: "Bench", name: str, content: Content | None = None) -> None:
        self._bench = bench
        self._files = MemoryFiles(content)
        self.me = Voter(name, f"{name}-disk")
        self.state = NodeState(name, Tracer(0.0), TurnBudget())
        self.storage = Storage(self._files, reserve_bytes=0, ticks=lambda: 0)
        config = ClusterConfig(
            directory=self.me.directory,
            addresses=BrokerAddresses(peers=f"{name}:7000"),
            peers=(),
            seed=ord(name[-1]),
        )
        own = self.storage.open(BROKER_STATE_LOG, JOURNAL_SETTINGS).state
        self.own = BrokerStateJournal(self.state.outbox, own)
        found = self.storage.open(METADATA_LOG, METADATA_SETTINGS).state
        self.log = Log(METADATA_LOG, METADATA_SETTINGS, found, Replica(ReplicaRole.FOLLOWER))
        self.metadata = QuorumMetadata(
            self.state, config, self.own, log=self.log, records=self._read(), now=self.now
        )
        # While it is held, nothing that is written to the metadata log becomes durable.
        self.is_disk_held = False
        # The same for the own state of the broker.
        self.is_state_held = False
        self._held: list[Effect] = []
        self.answers: list[Answer] = []

    @property
    def now(self) -> Now:
        return Now(Instant(self._bench.now_ns), Timestamp(_WALL + self._bench.now_ns))

    def _read(self) -> list[MetadataRecord]:
        """Learn the own state, and read the records of the metadata log."""
        offset = self.own.log.start
        while (wanted := self.own.next_read(offset)) is not None:
            purpose = ClusterFetch(BROKER_STATE_LOG, wanted.below)
            offset = self.own.replay(purpose, self.storage.read(wanted))
        records: list[MetadataRecord] = []
        offset = self.log.start
        while (wanted := self.log.read_for_follower(offset, 1 << 20)) is not None:
            records.extend(decode_records(self.storage.read(wanted)))
            offset = records[-1].version
        return records

    def content(self) -> Content:
        """What is on the disk; nothing that is held back."""
        return self._files.copy()

    def wake(self) -> None:
        self.metadata.wake(self.now)
        self.carry_out()

    def release_disk(self) -> None:
        """Carry out what the disk held back."""
        self.is_disk_held = False
        held, self._held = self._held, []
        self._work(held)
        self.carry_out()

    def carry_out(self) -> None:
        """Carry out effects and what follows from them, until nothing does."""
        while effects := self.state.outbox.drain():
            work: list[Effect] = []
            for effect in effects:
                match effect:
                    case Send():
                        self._bench.queue(self.me.broker, effect)
                    case Fetch():
                        purpose = self.state.fetches.pop(effect.token)
                        assert isinstance(purpose, ReplicaFetch)
                        data = self.storage.read(effect.wanted)
                        self.metadata.fetched(purpose, data, self.now)
                    case Answer():
                        self.answers.append(effect)
                    case Write() | Sync() | Reshape():
                        work.append(effect)
                    case _:
                        raise AssertionError(effect)
            self._work(work)

    def _work(self, effects: list[Effect]) -> None:
        held = {METADATA_LOG: self.is_disk_held, BROKER_STATE_LOG: self.is_state_held}
        self._held += [each for each in effects if held[each.log]]
        effects = [each for each in effects if not held[each.log]]
        for event in self.storage.carry_out(effects):
            if event.log == METADATA_LOG:
                self.metadata.handle_disk(event, self.now)
                continue
            durable = self.own.handle(event, self.now)
            if durable is not None:
                self.metadata.broker_state_durable(durable, self.now)

    def receive(self, sender: Voter, effect: Send) -> None:
        message: PeerMessage = effect.message
        if isinstance(message, VoteRequest | VoteReply | LeadershipOffer):
            self.metadata.handle_vote(sender, message, self.now)
        else:
            data = tuple(map(bytes, effect.data))
            self.metadata.handle_replica(sender, message, data, self.now)  # type: ignore[arg-type]  # no others are sent here
        self.carry_out()


class Bench:
    """Brokers that all know each other, and the messages between them."""

    def __init__(self, names: str) -> None:
        self.now_ns = 10 * SECOND
        self.brokers = {name: BenchBroker(self, name) for name in names}
        self._queues: dict[tuple[str, str], deque[Send]] = {}
        self._voters = Voters(tuple(broker.me for broker in self.brokers.values()))
        for broker in self.brokers.values():
            self._begin(broker)

    def _begin(self, broker: BenchBroker) -> None:
        for other in self.brokers.values():
            if other is not broker:
                broker.metadata.connect(other.me)
        broker.metadata.form(self._voters, broker.now)
        broker.carry_out()

    def crash(self, name: str) -> BenchBroker:
        """End a broker, with all that is on its way, and start it on what its disk holds."""
        self.drop()
        broker = self.brokers[name] = BenchBroker(self, name, self.brokers[name].content())
        self._begin(broker)
        return broker

    def sent(self, sender: str, to: str) -> list[PeerMessage]:
        """What is on its way from one broker to another."""
        return [each.message for each in self._queues.get((sender, to), ())]

    def queue(self, sender: str, effect: Send) -> None:
        self._queues.setdefault((sender, effect.broker), deque()).append(effect)

    def drop(self) -> None:
        """Lose every message that is on its way."""
        self._queues.clear()

    def exchange(self, names: str, rounds: int = 50) -> None:
        """Deliver what these brokers say to each other, and what follows from it."""
        for _ in range(rounds):
            if not self.deliver_next(names):
                return
        raise AssertionError("they never come to an end")

    def deliver_next(self, names: str) -> bool:
        """Deliver one message that one of these brokers sent to another; False if there is none."""
        ready = [pair for pair, queue in self._queues.items() if queue and set(pair) <= set(names)]
        if not ready:
            return False
        sender, receiver = min(ready)
        effect = self._queues[sender, receiver].popleft()
        self.brokers[receiver].receive(self.brokers[sender].me, effect)
        return True

    def elect(self, name: str, others: str) -> BenchBroker:
        """Let time pass, and let one broker be elected by others; nobody else hears of it."""
        broker = self.brokers[name]
        for _ in range(5):
            # One that led finds out first that nobody followed it; one that was away learns the
            # term of the others from their refusal.
            self.now_ns += 10 * SECOND
            broker.wake()
            self._deliver_votes(name, others)
            if broker.metadata.epoch_leader is not None:
                return broker
        raise AssertionError(broker.metadata.election.role)

    def beat(self, name: str) -> None:
        """Let a leader say that it leads."""
        self.now_ns += SECOND // 2
        self.brokers[name].wake()

    def _deliver_votes(self, name: str, others: str) -> None:
        for _ in range(4):
            for pair in [
                *((name, other) for other in others),
                *((other, name) for other in others),
            ]:
                queue = self._queues.get(pair, deque())
                votes = [each for each in queue if isinstance(each.message, _VOTES)]
                self._queues[pair] = deque(each for each in queue if each not in votes)
                for vote in votes:
                    self.brokers[pair[1]].receive(self.brokers[pair[0]].me, vote)
