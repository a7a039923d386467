"""One simulated life of a cluster whose partitions move while brokers fail.

Operators move partitions to other brokers, with and without a limit, cancel that, and let others
lead. Whoever is concerned fails at the worst moments: when the target is committed, when a learner
is in sync, when another replica leads, when the replicas have changed. Brokers are told to stop,
and let others lead first.

What must hold is what `ReplicationRun` says, and in the end: nothing moves any more, the preferred
replica leads every partition, and no broker keeps a file of what it is no replica of.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from goqueue.broker import ClusterConfig, Node
from goqueue.cluster import MetadataImage, PartitionId, PartitionState
from goqueue.model import MILLISECOND, SECOND, LogId, RequestId
from goqueue.model.requests import (
    CancelReassignment,
    ListReassignments,
    ReassignmentDescription,
    ReassignmentList,
    StartReassignment,
    TransferLeader,
    WantedMove,
)
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.cluster.quorum_run import Create, QuorumSwarm
from goqueue.sim.cluster.replication_checks import ReplicationChecks
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace
from goqueue.storage import log_directory

__all__ = ["ReassignmentChecks", "ReassignmentRun"]

_TOPIC = "orders"
_PARTITIONS = 2
_BALANCE_NS = 2 * SECOND
_STRIKES_MAX = 10
_STRIKE_DELAYS_NS = (0, 0, MILLISECOND, 20 * MILLISECOND, 300 * MILLISECOND)
_DOWN_NS = (30 * MILLISECOND, 500 * MILLISECOND, 4 * SECOND)
_RATES = (0, 0, 30_000, 200_000)
_TIMEOUTS_S = (3600, 3600, 3600, 2)
# How long a healed cluster may take to end all moves, and to let preferred replicas lead.
_SETTLED_NS = 10 * SECOND
# How long a broker may take to leave that nobody pauses.
_DEPARTURE_NS_MAX = 10 * SECOND


class ReassignmentChecks(ReplicationChecks):
    """Notices each step of a move when the first broker knows of it."""

    def __init__(self) -> None:
        super().__init__()
        self.on_step: Callable[[BrokerMachine, PartitionId, PartitionState], None] | None = None
        self._steps: dict[PartitionId, int] = {}
        self._moving: dict[PartitionId, None] = {}

    def turned(self, machine: BrokerMachine) -> None:
        super().turned(machine)
        member = machine.node.cluster
        if member is None or member.metadata is None or self.on_step is None:
            return
        image = member.metadata.image
        for where in _partitions(image):
            state = image.table.get(*where)
            if state is None or state.version <= self._steps.get(where, 0):
                continue
            was_moving = where in self._moving
            self._steps[where] = state.version
            if state.target:
                self._moving[where] = None
            else:
                self._moving.pop(where, None)
            if state.target or was_moving:
                self.on_step(machine, where, state)


def _partitions(image: MetadataImage) -> list[PartitionId]:
    topic = image.topic(_TOPIC)
    if topic is None:
        return []
    return [PartitionId(topic.number, number) for number in range(topic.partitions)]


def _create_node(name: str, config: ClusterConfig) -> Node:
    return Node(name, b"secret", cluster=config, sampling=0.0)


def _create_balanced(create: Create, name: str, config: ClusterConfig) -> Node:
    return create(name, msgspec.structs.replace(config, balance_after_ns=_BALANCE_NS))


class ReassignmentRun(ReplicationRun):
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 24,
        *,
        create: Create | None = None,
    ) -> None:
        chance = Random(seed * 23 + 17)  # noqa: S311 - chance that can be repeated is the point
        swarm = msgspec.structs.replace(
            QuorumSwarm.draw(chance), wipes=False, blackouts=False, brokers=chance.choice((4, 4, 5))
        )
        # A copy that begins later does not know producers whose records were all deleted before.
        copies = msgspec.structs.replace(
            ReplicationSwarm.draw(chance, swarm.brokers),
            deletes=False,
            flushes_late=chance.random() < 0.2,
        )
        super().__init__(
            seed,
            trace,
            steps,
            create=partial(_create_balanced, create or _create_node),
            swarm=swarm,
            copies=copies,
            checks=ReassignmentChecks(),
        )
        late_share = chance.choice((0.0, 0.1, 0.5))
        self.network.weather = msgspec.structs.replace(self.network.weather, late_share=late_share)
        self._operator = chance
        self._strikes = 0
        self._is_healed = False
        # What was asked, by machine; and which reassignments there are.
        self._asked: list[tuple[BrokerMachine, RequestId]] = []
        self._known: list[str] = []
        self.completed_total = 0
        assert isinstance(self.checks, ReassignmentChecks)
        self.checks.on_step = self._stepped

    # The operator

    def _disturb(self) -> None:
        super()._disturb()
        self._hear()
        machines = [each for each in self.machines if each.node.is_serving]
        if not machines:
            return
        random, draw = self._operator, self._operator.random()
        machine = random.choice(machines)
        if draw < 0.45:
            self._move(machine)
        elif draw < 0.55 and self._known:
            self._ask(machine, CancelReassignment(id=random.choice(self._known)))
        elif draw < 0.65:
            node = random.choice(self.processes).name
            number = random.randrange(_PARTITIONS)
            self._ask(machine, TransferLeader(topic=_TOPIC, partition=number, node=node))

    def _move(self, machine: BrokerMachine) -> None:
        random = self._operator
        names = [each.name for each in self.processes]
        count = random.randint(self.copies.minimum, min(3, len(names)))
        numbers = random.sample(range(_PARTITIONS), random.choice((1, 1, _PARTITIONS)))
        moves = tuple(
            WantedMove(_TOPIC, number, tuple(random.sample(names, count))) for number in numbers
        )
        command = StartReassignment(
            moves=moves,
            bytes_per_second=random.choice(_RATES),
            timeout_s=random.choice(_TIMEOUTS_S),
        )
        self._ask(machine, command)

    def _ask(
        self,
        machine: BrokerMachine,
        command: StartReassignment | CancelReassignment | TransferLeader,
    ) -> None:
        self._trace.note("operator", f"{machine.process.name} {command}")
        self._asked.append((machine, machine.ask(command)))

    def _hear(self) -> None:
        """Learn which reassignments there are."""
        asked, self._asked = self._asked, []
        for machine, request in asked:
            reply = machine.replies.pop(request, None)
            if isinstance(reply, ReassignmentDescription):
                if reply.id not in self._known:
                    self._known.append(reply.id)
            elif reply is None and not machine.is_over:
                self._asked.append((machine, request))

    # Strikes

    def _stepped(self, machine: BrokerMachine, where: PartitionId, state: PartitionState) -> None:
        """A partition took a step of its move: whoever is concerned fails."""
        random = self._operator
        self._trace.note("step", f"{where} {state}")
        if self._is_healed or self._strikes >= _STRIKES_MAX or random.random() >= 0.3:
            return
        if sum(not each.is_running or each.is_paused for each in self.processes) > 0:
            return
        self._strikes += 1
        concerned = {*state.copies, state.leader, machine.process.name}
        names = sorted(each for each in concerned if each is not None)
        victim = random.choice(names)
        process = next(each for each in self.processes if each.name == victim)
        loses_power = random.random() < 0.5
        delay = random.choice(_STRIKE_DELAYS_NS)
        self.time.after(delay, partial(self._strike, process, process.host, loses_power))

    def _strike(self, process: ClusterProcess, host: object, loses_power: bool) -> None:
        if process.host is host and host is not None and not self._is_healed:
            self.kill(process, loses_power=loses_power)
            self.time.after(self._operator.choice(_DOWN_NS), partial(self._begin_again, process))

    def _begin_again(self, process: ClusterProcess) -> None:
        if not process.is_running:
            process.begin()

    def heal(self) -> None:
        self._is_healed = True
        super().heal()

    # Planned stops

    def _stop(self, process: ClusterProcess) -> None:
        machine = process.machine
        if not isinstance(machine, BrokerMachine) or self._operator.random() < 0.3:
            super()._stop(process)
            return
        self._stopping[process.name] = None
        machine.leave()
        self._await_departure(process, machine, self.time.now_ns)

    def _await_departure(
        self, process: ClusterProcess, machine: BrokerMachine, since_ns: int
    ) -> None:
        """Stop a broker when others lead, as the pump does."""
        if machine.is_over:
            return
        if process.is_paused:
            since_ns = self.time.now_ns
        elif machine.node.may_stop:
            super()._stop(process)
            return
        if self.time.now_ns - since_ns > _DEPARTURE_NS_MAX:
            raise Violation("liveness", f"{process.name} does not leave")
        again = partial(self._await_departure, process, machine, since_ns)
        self.time.after(20 * MILLISECOND, again)

    # The end

    def check_end(self) -> None:
        self.advance(_SETTLED_NS)
        for machine in self.machines:
            assert machine.node.cluster is not None
            self._check_settled(machine, machine.node.cluster.replicas.image)
        self._check_described()
        super().check_end()

    def _check_settled(self, machine: BrokerMachine, image: MetadataImage) -> None:
        """Nothing moves, preferred replicas lead, and there are no files of anything else."""
        if image.reassignments.moving:
            raise Violation("liveness", f"moves do not end: {image.reassignments.running}")
        for where in _partitions(image):
            state = image.table.get(*where)
            assert state is not None
            if state.target:
                raise Violation("a move that is over leaves no target", f"{where}: {state}")
            if state.leader != state.replicas[0]:
                raise Violation("liveness", f"{state.leader} leads {where}: {state.replicas}")
            directory = f"{log_directory(LogId(_TOPIC, where.partition))}/"
            paths = [each for each in machine.disk.files.paths() if each.startswith(directory)]
            if paths and machine.process.name not in state.replicas:
                raise Violation("no copies are left behind", f"{machine.process.name}: {paths}")

    def _check_described(self) -> None:
        """Every broker describes what became of every reassignment, and equally."""
        heard: list[ReassignmentList] = []
        for machine in self.machines:
            request = machine.ask(ListReassignments())
            self.advance(100 * MILLISECOND)
            reply = machine.replies.pop(request, None)
            if not isinstance(reply, ReassignmentList):
                raise Violation("reassignments are described", f"{reply}")
            heard.append(reply)
        if any(each != heard[0] for each in heard):
            raise Violation("reassignments are described equally", f"{heard}")
        for each in heard[0].reassignments:
            self.completed_total += each.state == "completed"
            for move in each.partitions:
                if move.state == "completed" and move.catchup_percent != 100:
                    raise Violation("what is completed is whole", f"{move}")
