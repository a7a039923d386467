"""One simulated life of a cluster whose clients write in transactions.

Like `ReplicationRun`, with clients beside the publishers: some write to several partitions, others
copy what the publishers wrote, with their offsets or acks in the same transaction. The coordinator
and the leaders are killed, cut off, paused and told to stop as any broker is. After everything
healed the copiers go on until there is nothing left; then the ledger judges what readers see.
"""

from random import Random

import msgspec

from goqueue.broker import ClusterConfig, Node
from goqueue.model import MILLISECOND, SECOND, LogId, Message, Offset
from goqueue.model.requests import (
    AppendCopies,
    Command,
    CreateTopic,
    Isolation,
    Read,
    Records,
    TopicConfig,
)
from goqueue.records import build
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.copy_ledger import Attempt, CopyLedger
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.cluster.quorum_run import Create, QuorumSwarm
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.cluster.transaction_clients import (
    COPIES,
    PARTITIONS,
    Copier,
    CopyReader,
    QueueCopier,
    Surroundings,
    TransactionClient,
    following,
    visible,
)
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["TransactionRun"]

_TOPIC = "orders"
_STEP_NS = 25 * MILLISECOND
_DRAIN_STEPS = 60
# How often a client looks at its answer, or goes on.
_STEP_SHARE = 0.3
# How often a role is disturbed beside all else, and how often it only stands still.
_ROLE_SHARE = 0.35
_PAUSED_SHARE = 0.3
_COORDINATOR = LogId("__consumer_offsets", 0)
# Far above the numbers of moves that a coordinator gives.
_STRAY_FROM = 1 << 50


class TransactionRun(ReplicationRun):
    """The run of one seed."""

    def __init__(
        self, seed: int, trace: Trace, steps: int = 16, *, create: Create | None = None
    ) -> None:
        chance = Random(seed * 23 + 9)  # noqa: S311 - chance that can be repeated is the point
        copies = ReplicationSwarm(
            replicas=3,
            minimum=2,
            fills=chance.random() < 0.3,
            deletes=False,
            small_segments=chance.random() < 0.3,
            disk_errors=chance.random() < 0.2,
            majorities=chance.random() < 0.3,
        )
        swarm = QuorumSwarm.draw(chance)
        # Groups need a copy of what they read where they are coordinated.
        swarm = msgspec.structs.replace(swarm, wipes=False, brokers=3)
        super().__init__(seed, trace, steps, create=create or _create, copies=copies, swarm=swarm)
        self._clients_chance = chance
        self._roles = Random(seed * 29 + 3)  # noqa: S311 - as above
        # What is to be copied comes slowly, beside all else.
        self.publishers = [each for each in self.publishers if each.is_idempotent]
        self.ledger = CopyLedger()
        self._strays = 0
        around = Surroundings(self.ledger, chance, lambda: self.machines, self._check_ended)
        self.copiers = [
            Copier(f"copier-{number}", f"copy-{number % PARTITIONS}", _source(number), around)
            # Two for each partition: one of them is fenced.
            for number in range(2 * PARTITIONS)
        ]
        self.clients: list[TransactionClient] = [
            *self.copiers,
            *(TransactionClient(f"writer-{n}", f"writer-{n % 2}", around) for n in range(3)),
            QueueCopier("queue", "queue", _TOPIC, around),
        ]
        self.readers = [CopyReader(around) for _ in range(2)]

    def create_topic(self) -> None:
        super().create_topic()
        config = TopicConfig(replication_factor=3, min_insync_replicas=2)
        for _ in range(60):
            for machine in self.machines:
                member = machine.node.cluster
                if member is None or member.metadata is None or not machine.node.is_serving:
                    continue
                if member.metadata.image.topic(COPIES) is not None:
                    return
                if member.metadata.is_controller:
                    machine.ask(CreateTopic(name=COPIES, partitions=PARTITIONS, config=config))
            self.advance(500 * MILLISECOND)
        raise Violation("liveness", "the topic of the copies was not created")

    def begin_publishing(self) -> None:
        self.time.after(_STEP_NS, self.begin_publishing)
        if self._clients_chance.random() < _STEP_SHARE:
            self._clients_chance.choice(self.publishers).step()
        for client in self.clients:
            if self._clients_chance.random() < _STEP_SHARE:
                client.step()
        if self._clients_chance.random() < _STEP_SHARE:
            self._clients_chance.choice(self.readers).step()
        if not self.clients[0].is_draining:
            self._kill_some()
            self._stray()

    def _disturb_hard(self) -> None:
        super()._disturb_hard()
        if self._roles.random() < _ROLE_SHARE:
            self._disturb_role()

    def _disturb_role(self) -> None:
        """Kill whoever coordinates, or leads copies, or let it stand still until it is replaced."""
        if not all(each.is_running and not each.is_paused for each in self.processes):
            return
        logs = (_COORDINATOR, LogId(COPIES, self._roles.randrange(PARTITIONS)))
        process = self._leader(self._roles.choice(logs))
        if process is None or process.name in self._stopping:
            return
        if self._roles.random() < _PAUSED_SHARE:
            process.pause()
            self._resume_later(process, self._roles.choice((5, 8)) * SECOND)
        else:
            self.kill(process, loses_power=self._roles.random() < 0.5)
            delay_ns = self._roles.choice((300, 1000, 3000)) * MILLISECOND
            self.time.after(delay_ns, lambda: None if process.is_running else process.begin())

    def _leader(self, log: LogId) -> ClusterProcess | None:
        """The process that leads a partition, as some broker knows."""
        for machine in self.machines:
            member = machine.node.cluster
            topic = None if member is None else member.replicas.image.topic(log.topic)
            if member is None or topic is None:
                continue
            state = member.replicas.image.partition(topic.number, log.partition)
            if state is not None and state.leader is not None:
                return next(each for each in self.processes if each.name == state.leader)
        return None

    def _kill_some(self) -> None:
        """A program is killed now and then."""
        if self._clients_chance.random() < 0.002:
            self._clients_chance.choice(self.clients).kill()

    def _stray(self) -> None:
        """A leader has a transaction that nobody knows, as an unclean election may leave it."""
        if self._strays >= 3 or self._clients_chance.random() >= 0.002:
            return
        for machine in self.machines:
            member = machine.node.cluster
            if member is None or not machine.node.is_serving:
                continue
            topic = member.replicas.image.topic(_COORDINATOR.topic)
            state = None if topic is None else member.replicas.image.partition(topic.number, 0)
            if state is None:
                continue
            self._strays += 1
            copies = AppendCopies(
                topic=COPIES,
                partition=self._clients_chance.randrange(PARTITIONS),
                move=_STRAY_FROM + self._strays,
                epoch=state.epoch,
                count=1,
                at=machine.process.now().wall,
                batch=bytes(build([Message(value=b"stray|own|0")])),
            )
            machine.ask(copies)

    def _check_ended(self, attempt: Attempt) -> None:
        """C19: who was told that a transaction ended finds its marker at every participant."""
        producer, number = attempt.transaction
        for log in attempt.partitions:
            found = [
                hosted
                for machine in self.machines
                if machine.node.cluster is not None
                for hosted in [machine.node.cluster.replicas.hosted.find(log)]
                if hosted is not None and hosted.leader is not None and hosted.leader.is_serving
            ]
            newest = max(
                found, key=lambda each: each.leader.epoch if each.leader else 0, default=None
            )
            if newest is None or newest.partition is None:
                continue
            if not newest.partition.log.producers.has_ended(producer, number):
                raise Violation("every participant has its marker", f"{attempt.name} {log}")

    # The end

    def end_publishing(self) -> None:
        super().end_publishing()
        for client in self.clients:
            client.is_draining = True
        for _ in range(_DRAIN_STEPS):
            self.advance(SECOND)
            done = {each.source: True for each in self.copiers if each.is_done}
            if len(done) == PARTITIONS:
                break
        else:
            raise Violation("liveness", "the copiers do not come to an end")
        for client in self.clients:
            client.is_stopped = True
        for _ in range(_DRAIN_STEPS):
            self.advance(SECOND)
            if all(client.is_idle for client in self.clients) and self._is_stable():
                break
        else:
            raise Violation("no transaction stays open", "readers still wait")

    def _is_stable(self) -> bool:
        """Whether no leader has a transaction open."""
        for machine in self.machines:
            member = machine.node.cluster
            assert member is not None
            for number in range(PARTITIONS):
                hosted = member.replicas.hosted.find(LogId(COPIES, number))
                if hosted is None or hosted.leader is None or hosted.partition is None:
                    continue
                marks = hosted.partition.log.watermarks
                if marks.stable != marks.committed:
                    return False
        return True

    def check_end(self) -> None:
        super().check_end()
        machine = self.machines[0]
        found = {
            number: self._read_all(machine, LogId(COPIES, number)) for number in range(PARTITIONS)
        }
        sources = {
            f"{number}:{offset}"
            for number in range(PARTITIONS)
            for offset in self._read_all(machine, LogId(_TOPIC, number))
        }
        self.ledger.check_end(found, sources)

    def _read_all(self, machine: BrokerMachine, log: LogId) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        offset = Offset(0)
        while True:
            command = Read(
                topic=log.topic,
                partition=log.partition,
                offset=offset,
                isolation=Isolation.READ_COMMITTED,
            )
            reply = self._ask(machine, command)
            if not isinstance(reply, Records):
                raise Violation("liveness", f"{log} cannot be read: {reply}")
            found.update(visible(reply))
            if following(reply) <= offset:
                return found
            offset = following(reply)

    def _ask(self, machine: BrokerMachine, command: Command) -> object:
        request = machine.ask(command)
        for _ in range(100):
            if request in machine.replies:
                return machine.replies.pop(request)
            self.advance(50 * MILLISECOND)
        return None


def _source(number: int) -> LogId:
    return LogId(_TOPIC, number % PARTITIONS)


def _create(name: str, config: ClusterConfig) -> Node:
    """A node with its own secret, as every node has."""
    return Node(name, name.encode(), cluster=config, sampling=0.0)
