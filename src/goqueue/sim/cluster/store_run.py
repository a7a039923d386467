"""One simulated life of a cluster that keeps its metadata in an external store.

The faults of `QuorumRun` (processes, disks, the network between brokers), and those of the way to
the store: calls that are lost, answered by nobody or carried out seconds later; brokers that are
cut off from it; a store that stands still; a backup that is restored, while the power of all
brokers may fail, until the operator restores what was there. Parts are small, so that many records
have several; logs begin anew often.

At the end all faults are healed, and ten seconds later one broker decides, all images are equal,
and what clients were told holds.
"""

from collections.abc import Sequence
from random import Random

from goqueue.broker import ClusterConfig, Node
from goqueue.model import MILLISECOND, SECOND
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.cluster.quorum_run import Create, QuorumRun, QuorumSwarm
from goqueue.sim.cluster.simulated_etcd import EtcdWeather, SimulatedEtcd
from goqueue.sim.cluster.store_checks import StoreChecks, store_of
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["StoreRun"]

_LATE_NS = 8 * SECOND
_PART_BYTES = (200, 2000, 1 << 19)
_PAUSES_NS = (500 * MILLISECOND, 3 * SECOND, 12 * SECOND)


class StoreRun(QuorumRun):
    """The run of one seed."""

    checks: StoreChecks

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 40,
        *,
        create: Create | None = None,
        swarm: QuorumSwarm | None = None,
    ) -> None:
        self._way = chance = Random(seed * 23 + 9)  # noqa: S311 - chance that can be repeated
        self._part_bytes = chance.choice(_PART_BYTES)
        super().__init__(
            seed,
            trace,
            steps,
            create=create or self._create_node,
            checks=StoreChecks(),
            swarm=swarm,
        )
        self.etcd = SimulatedEtcd(self.time, Random(seed + 5))  # noqa: S311 - as above
        self.etcd.on_written = lambda: self.checks.written(self.etcd)
        self._bad = EtcdWeather(
            delay_ns_max=chance.choice((MILLISECOND, 20 * MILLISECOND, 300 * MILLISECOND)),
            lost_requests=chance.choice((0.0, 0.02, 0.2)),
            lost_replies=chance.choice((0.0, 0.02, 0.2)),
            late_requests=chance.choice((0.0, 0.02, 0.1)),
            lost_events=chance.choice((0.0, 0.5, 1.0)),
        )
        self._cuts_store = chance.random() < 0.5
        self._pauses_store = chance.random() < 0.5
        self._restores = chance.random() < 0.3
        self.restored_total = 0

    def _create_node(self, name: str, config: ClusterConfig) -> Node:
        changed = {each: getattr(config, each) for each in config.__struct_fields__}
        changed["store_part_bytes"] = self._part_bytes
        return Node(name, b"secret", cluster=ClusterConfig(**changed), sampling=0.0)

    def _begin_life(self, process: ClusterProcess) -> BrokerMachine:
        disk = self.disks[process.name]
        if self._crashed.pop(process.name, False):
            disk.files.lose_power()
        disk.files.restart()
        return BrokerMachine(
            process,
            disk,
            self._disk_weather,
            self.checks,
            create=self._create,
            store=self.etcd.call,
        )

    # Faults

    def _disturb(self) -> None:
        super()._disturb()
        chance = self._way
        draw = chance.random()
        if draw < 0.3:
            self.etcd.weather = self._bad
        elif draw < 0.4:
            self.etcd.heal()
        elif draw < 0.5 and self._cuts_store:
            self.etcd.cut(chance.choice(self.processes).name)
        elif draw < 0.55 and self._pauses_store and not self.etcd.is_paused:
            self._pause_store(chance.choice(_PAUSES_NS))
        elif draw < 0.65 and self._restores and self._may_restore():
            self._restore_backup()

    def _pause_store(self, duration_ns: int) -> None:
        self.etcd.is_paused = True

        def resume() -> None:
            self.etcd.is_paused = False

        self.time.after(duration_ns, resume)

    def _may_restore(self) -> bool:
        """Everybody has seen the newest version: who has not, knows no better than the backup."""
        newest = self.checks.newest_version()
        found = [store_of(each) for each in self.machines]
        return (
            len(found) == len(self.processes)
            and not any(each.is_paused for each in self.processes)
            and not self.etcd.is_paused
            and newest > 2
            and all(each is not None and each.image.version == newest for each in found)
        )

    def _restore_backup(self) -> None:
        """An operator restores what was there before the last changes, and sees the mistake."""
        self.etcd.heal()
        # What is on its way for long would be done a second time.
        self.advance(_LATE_NS)
        older = self.etcd.back_up()
        before = self.checks.newest_version()
        for _ in range(40):
            self._operate()
            self.advance(200 * MILLISECOND)
            if self.checks.newest_version() > before and self._may_restore():
                break
        else:
            return
        newest = self.etcd.back_up()
        self.etcd.restore(older)
        self.checks.backup_restored(self.etcd)
        self.restored_total += 1
        self._trace.note("backup", before)
        if self._way.random() < 0.5:
            for process in self.processes:
                if process.is_running:
                    self.kill(process, loses_power=self._way.random() < 0.5)
                    process.begin()
        self.advance(self._way.choice((2, 8)) * SECOND)
        self.etcd.restore(newest)
        self.checks.backup_replaced()

    def heal(self) -> None:
        self.etcd.heal()
        super().heal()

    def _has_rejoined(self, name: str) -> bool:
        directory = next(each.directory for each in self.processes if each.name == name)
        for machine in self.machines:
            metadata = store_of(machine)
            if metadata is not None and metadata.is_controller:
                known = metadata.image.brokers.get(name)
                return known is not None and known.registration.directory == directory
        return False

    # The end

    def _compare_logs(self) -> None:
        """All images were compared; what the store holds was, at each transaction."""
        found: Sequence[object] = [store_of(each) for each in self.machines]
        if None in found:
            raise Violation("liveness", "a broker did not start")
