"""One simulated life of a cluster in which bits of one broker's copies flip while it is down.

Damage is not repaired from another copy yet, so a follower that needs what is damaged stays behind;
what must hold is that damage stays where it is: a damaged record is never served, and never goes to
another copy as a good one. Every promise is on every good copy that is in sync.
"""

from random import Random

from goqueue.broker import HostedLog
from goqueue.model import SECOND, LogId, Offset, Refused
from goqueue.records import scan
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.cluster.quorum_run import QuorumSwarm
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.oracle import Violation
from goqueue.sim.sabotage import Sabotage
from goqueue.sim.trace import Trace
from goqueue.storage import DamageFound

__all__ = ["RotRun"]

_TOPIC = "orders"
_PARTITIONS = 2


class RotRun(ReplicationRun):
    """The run of one seed."""

    def __init__(self, seed: int, trace: Trace, steps: int = 12) -> None:
        chance = Random(seed * 23 + 9)  # noqa: S311 - chance that can be repeated is the point
        calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
        swarm = QuorumSwarm(brokers=3, **calm)
        copies = ReplicationSwarm(
            replicas=3,
            minimum=chance.choice((1, 2)),
            fills=False,
            deletes=False,
            small_segments=chance.random() < 0.5,
            # Whoever lost its copy gets all of it again, and meets the damage if its leader has it.
            loses_logs=True,
        )
        super().__init__(seed, trace, steps, swarm=swarm, copies=copies)
        self._rot = chance
        self._rotten = chance.choice(self.processes)
        self.checks.rotten = self._rotten.name
        self.flipped_total = 0

    def _begin_life(self, process: ClusterProcess) -> BrokerMachine:
        if process is self._rotten:
            for number in range(_PARTITIONS):
                files = self.disks[process.name].files
                harm = Sabotage(files, self._rot, LogId(_TOPIC, number)).flip_durable_bit()
                self.flipped_total += harm is not None
        return super()._begin_life(process)

    def _disturb(self) -> None:
        """Let one broker go for a while; what it lacks then comes from a disk."""
        down = [each for each in self.processes if not each.is_running]
        if down:
            down[0].begin()
        elif self._rot.random() < 0.7:
            chosen = self._rotten if self._rot.random() < 0.4 else self._rot.choice(self.processes)
            self.kill(chosen, loses_power=False)

    def heal(self) -> None:
        super().heal()
        self.time.after(SECOND, self._stop_publishers)

    def _may_lose(self, broker: str, number: int) -> bool:
        return broker != self._rotten.name and super()._may_lose(broker, number)

    def check_end(self) -> None:
        self.checks.check_healed(self.machines)
        for number in range(_PARTITIONS):
            self._check_copies(number)

    def _check_copies(self, number: int) -> None:
        """Whoever is in sync and has no damage has all; the others serve nothing else."""
        copies: dict[str, tuple[HostedLog, BrokerMachine]] = {}
        isr: tuple[str, ...] = ()
        for machine in self.machines:
            assert machine.node.cluster is not None
            hosted = machine.node.cluster.replicas.hosted.find(LogId(_TOPIC, number))
            assert hosted is not None
            copies[machine.process.name] = (hosted, machine)
            if hosted.leader is not None and hosted.leader.is_serving:
                isr = hosted.leader.image.isr
        whole = {name: self._read(*copies[name]) for name in isr if name != self._rotten.name}
        if not whole:
            raise Violation("liveness", f"no good copy of {number} is in sync: {isr}")
        if len(set(whole.values())) != 1:
            raise Violation("copies are equal", f"partition {number}: {sorted(whole)}")
        good = next(iter(whole.values()))
        self._check_content(number, good, Offset(0))
        for hosted, machine in copies.values():
            self._check_served(hosted, machine, good)

    def _check_served(self, hosted: HostedLog, machine: BrokerMachine, good: bytes) -> None:
        """A copy serves each record as a good copy has it, or not at all."""
        assert hosted.partition is not None
        log = hosted.partition.log
        columns = scan(good).columns
        if not columns.offsets:
            return
        ends = [*columns.positions[1:], len(good)]
        for offset, first, end in zip(columns.offsets, columns.positions, ends, strict=True):
            if offset >= log.high_watermark:
                return
            try:
                wanted = log.read(Offset(offset), 1)
                served = b"" if wanted is None else bytes(machine.storage.read(wanted))
            except (DamageFound, Refused):
                continue
            if not served.startswith(good[first:end]):
                where = f"{hosted.log_id} on {machine.process.name} at {offset}"
                raise Violation("damage is not served", where)
