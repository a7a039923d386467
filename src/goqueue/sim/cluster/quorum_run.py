"""One simulated life of a cluster of real nodes: elections, the metadata log and its faults.

Chaos, then everything heals; ten seconds later there is one controller, and all images are equal.
At the end the metadata logs of all disks are compared, record by record.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from goqueue.broker import ClusterConfig, Node
from goqueue.cluster import Voter
from goqueue.log import Log
from goqueue.model import HOUR, MILLISECOND, SECOND, LogId, Offset
from goqueue.model.requests import Command, ForgetBroker
from goqueue.sim.cluster.audit_checks import check_audit
from goqueue.sim.cluster.brokers import BrokerDisk, BrokerMachine, DiskWeather
from goqueue.sim.cluster.cluster_run import partition_shapes
from goqueue.sim.cluster.metadata_client import MetadataClient
from goqueue.sim.cluster.network import SimulatedNetwork
from goqueue.sim.cluster.packets import LinkWeather
from goqueue.sim.cluster.processes import ClusterProcess, ProcessClock
from goqueue.sim.cluster.quorum_checks import QuorumChecks, quorum_of
from goqueue.sim.cluster.virtual_time import VirtualTime
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["QuorumRun", "QuorumSwarm"]

_DRIFT_PPM_MAX = 50_000
_HEALED_NS = 10 * SECOND
# Where wall clocks begin: far from zero, which they must not go below.
_WALL_NS = 1_700_000_000 * SECOND
_PAUSES_NS = (50 * MILLISECOND, SECOND, 3 * SECOND, 8 * SECOND, 20 * SECOND)
_GAPS_NS = (MILLISECOND, 20 * MILLISECOND, 300 * MILLISECOND, 2 * SECOND, 4 * SECOND)
_ROOMS = (0, 60, 400, 5000)
_METADATA = LogId("__metadata", 0)

Create = Callable[[str, ClusterConfig], Node]


class QuorumSwarm(msgspec.Struct, frozen=True, kw_only=True):
    """Which faults a run has, and how many brokers."""

    brokers: int
    kills: bool
    power_losses: bool
    blackouts: bool
    wipes: bool
    stops: bool
    pauses: bool
    cuts: bool
    resets: bool
    jumps: bool
    slow_links: bool
    slow_disks: bool
    short_logs: bool
    full_disks: bool = False

    @classmethod
    def draw(cls, random: Random) -> "QuorumSwarm":
        names = [each for each in cls.__struct_fields__[1:] if each != "full_disks"]
        drawn = {name: random.random() < 0.5 for name in names}
        return cls(brokers=random.choice((2, 3, 3, 3, 3, 4, 5)), **drawn)


def _begin_once(process: ClusterProcess) -> None:
    """A fault may have come to its end before the first start: then the process runs already."""
    if not process.is_running:
        process.begin()


class QuorumRun:
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 40,
        *,
        create: Create | None = None,
        checks: QuorumChecks | None = None,
        swarm: QuorumSwarm | None = None,
    ) -> None:
        self._random = Random(seed)  # noqa: S311 - chance that can be repeated is the point
        self._steps = steps
        self._trace = trace
        self._create = create
        drawn = QuorumSwarm.draw(self._random)
        # Its own chance: what a seed means otherwise stays as it is remembered.
        self._space = Random(seed + 2)  # noqa: S311 - as above
        self._life = Random(seed + 3)  # noqa: S311 - as above
        self._formation = Random(seed + 4)  # noqa: S311 - as above
        fills = self._space.random() < 0.3
        self.swarm = swarm = swarm or msgspec.structs.replace(drawn, full_disks=fills)
        trace.note("swarm", swarm)
        self.time = VirtualTime()
        self.network = SimulatedNetwork(self.time, Random(seed + 1), trace)  # noqa: S311 - as above
        self.network.weather = self._draw_links()
        self._disk_weather = self._draw_disks()
        self.checks = checks or QuorumChecks()
        self.client = MetadataClient(self._life, lambda: self.machines, self.checks.newest_version)
        # Two blank brokers of three may form a second cluster, unless all are needed.
        self._quorum = swarm.brokers if swarm.wipes else None
        self._wiped: str | None = None
        # How often a wiped broker voted again while faults went on.
        self.rejoined_total = 0
        self.disks: dict[str, BrokerDisk] = {}
        self._crashed: dict[str, bool] = {}
        # Who was told to stop, and still runs.
        self._stopping: dict[str, None] = {}
        self.processes = [self._create_process(number, seed) for number in range(swarm.brokers)]
        addresses = tuple(each.address for each in self.processes)
        for process in self.processes:
            process.peers = tuple(each for each in addresses if each != process.address)

    def _draw_links(self) -> LinkWeather:
        random = self._random
        return LinkWeather(
            delay_ns_max=random.choice((100_000, MILLISECOND, 20 * MILLISECOND)),
            slow_share=random.choice((0.01, 0.1)) if self.swarm.slow_links else 0.0,
            slow_ns_max=random.choice((50 * MILLISECOND, 900 * MILLISECOND)),
            reset_share=random.choice((0.002, 0.02)) if self.swarm.resets else 0.0,
        )

    def _draw_repeats(self, weather: LinkWeather) -> LinkWeather:
        """Half of the worlds have repeated messages, some have thin wires."""
        chance = self._life
        return msgspec.structs.replace(
            weather,
            repeat_share=chance.choice((0.0, 0.0, 0.02, 0.2)),
            bytes_per_second=chance.choice((0, 0, 0, 20_000)),
        )

    def _draw_disks(self) -> DiskWeather:
        random = self._random
        return DiskWeather(
            delay_ns_max=random.choice((100_000, 3 * MILLISECOND)),
            slow_share=random.choice((0.05, 0.3)) if self.swarm.slow_disks else 0.0,
            slow_ns_max=random.choice((30 * MILLISECOND, 900 * MILLISECOND)),
            restate_bytes=random.choice((500, 3000)) if self.swarm.short_logs else 1 << 22,
        )

    def _create_process(self, number: int, seed: int) -> ClusterProcess:
        random = self._random
        name = f"broker-{number}"
        self.disks[name] = BrokerDisk(Random(seed * 31 + number))  # noqa: S311 - as above
        clock = ProcessClock(
            random.randrange(HOUR), random.randint(-_DRIFT_PPM_MAX, _DRIFT_PPM_MAX)
        )
        clock.jump(_WALL_NS + random.randrange(HOUR))
        return ClusterProcess(
            name,
            self.network,
            clock,
            self._begin_life,
            trace=self._trace,
            observe=lambda _process, _event: None,
        )

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
            quorum=self._quorum,
            create=self._create,
        )

    # The run

    def live(self) -> None:
        """The whole run; raises Violation."""
        self.begin()
        self.network.weather = self._draw_repeats(self.network.weather)
        calm_ns = self._random.choice((2, 4, 8)) * SECOND
        self.advance(self._draw_first_calm(calm_ns))
        for _ in range(self._steps):
            self._disturb()
            self._operate()
            self.advance(self._random.choice(_GAPS_NS))
        self.heal()
        self.advance(_HEALED_NS)
        self.checks.check_healed(self.machines)
        self._compare_logs()
        (cluster,) = self.checks.clusters
        self.client.check(self.checks.images(cluster))
        totals = (self.time.events_total, self.checks.elections_total, self.checks.versions_total)
        self._trace.note("end", totals)

    def _draw_first_calm(self, usual_ns: int) -> int:
        """How long nothing is disturbed: in some worlds not even while the cluster is formed."""
        chance = self._formation
        is_disturbed = chance.random() < 0.3
        return chance.choice((0, 300 * MILLISECOND, SECOND)) if is_disturbed else usual_ns

    def begin(self) -> None:
        """Let every process start within two seconds."""
        for process in self.processes:
            self.time.after(self._random.randrange(2 * SECOND), partial(_begin_once, process))

    @property
    def machines(self) -> list[BrokerMachine]:
        """The running brokers."""
        found = [each.machine for each in self.processes]
        return [each for each in found if isinstance(each, BrokerMachine)]

    def advance(self, duration_ns: int) -> None:
        """Let time pass."""
        self.time.run_until(self.time.now_ns + duration_ns)

    def heal(self) -> None:
        """End every fault, and let every process run; an operator forgets a wiped broker."""
        self.network.weather = LinkWeather()
        self.network.heal()
        self._disk_weather = DiskWeather(restate_bytes=self._disk_weather.restate_bytes)
        for machine in self.machines:
            machine.weather = self._disk_weather
        for disk in self.disks.values():
            disk.faults.free()
        for process in self.processes:
            if process.is_running and process.name in self._stopping:
                self.kill(process, loses_power=False)
            if not process.is_running:
                process.begin()
            elif process.is_paused:
                process.resume()
        if self._wiped is not None:
            self._forget_wiped(self._wiped)

    def _forget_wiped(self, name: str) -> None:
        """Ask until the old registration is gone; it may never have been there."""
        for _ in range(20):
            self.advance(SECOND)
            for machine in self.machines:
                member = machine.node.cluster
                metadata = None if member is None else member.metadata
                if metadata is None or not metadata.is_controller:
                    continue
                known = metadata.image.brokers.get(name)
                process = next(each for each in self.processes if each.name == name)
                if known is None or known.registration.directory == process.directory:
                    return
                machine.ask(ForgetBroker(node=name))

    def wipe(self, process: ClusterProcess) -> None:
        """Lose the disk of a process that does not run."""
        self._wiped = process.name
        self.disks[process.name].wipe()
        self._crashed.pop(process.name, None)
        process.wipe()

    def kill(self, process: ClusterProcess, *, loses_power: bool) -> None:
        """End a process; with its machine, what was not synced may be lost."""
        self._crashed[process.name] = loses_power
        self._stopping.pop(process.name, None)
        process.die(is_silent=loses_power)

    # Faults

    def _disturb(self) -> None:
        """One fault, or the end of one."""
        random = self._random
        process = random.choice(self.processes)
        draw = random.random()
        if self.swarm.full_disks:
            self._fill_some()
        if not process.is_running:
            if self.swarm.wipes and draw < 0.15 and self._may_wipe():
                self.wipe(process)
            if draw < 0.7:
                process.begin()
        elif process.is_paused:
            if draw < 0.5:
                process.resume()
        elif draw < 0.45:
            self._disturb_process(process, draw)
        else:
            self._disturb_network(process, draw)

    def _fill_some(self) -> None:
        """Leave little space on a disk, or give it back."""
        disk = self.disks[self._space.choice(list(self.disks))]
        draw = self._space.random()
        if draw < 0.2:
            disk.faults.fill(self._space.choice(_ROOMS))
        elif draw < 0.5:
            disk.faults.free()

    def _disturb_process(self, process: ClusterProcess, draw: float) -> None:
        swarm = self.swarm
        if draw < 0.12 and swarm.kills:
            self.kill(process, loses_power=False)
        elif draw < 0.24 and swarm.power_losses:
            self.kill(process, loses_power=True)
        elif draw < 0.27 and swarm.blackouts:
            for each in self.processes:
                if each.is_running:
                    self.kill(each, loses_power=True)
        elif draw < 0.34 and swarm.stops:
            self._stop(process)
        elif draw >= 0.34 and swarm.pauses:
            process.pause()
            self._resume_later(process, self._random.choice(_PAUSES_NS))

    def _disturb_network(self, process: ClusterProcess, draw: float) -> None:
        random, swarm = self._random, self.swarm
        if draw < 0.7 and swarm.cuts:
            self._cut()
        elif draw < 0.8 and swarm.resets:
            self.network.reset_some(random.choice((0.1, 0.5, 1.0)))
        elif draw < 0.85 and swarm.jumps:
            process.clock.jump(random.randint(-HOUR, HOUR))

    def _may_wipe(self) -> bool:
        """One disk at a time, and only where the others are a majority without it."""
        return self._wiped is None and self.swarm.brokers > 2

    # The operator, and clients

    def _operate(self) -> None:
        """Somebody changes topics; an operator forgets a wiped broker while faults go on."""
        self.client.step()
        if self._wiped is None:
            return
        draw = self._life.random()
        if draw < 0.3 and self.machines:
            self._life.choice(self.machines).ask(ForgetBroker(node=self._wiped))
        elif draw < 0.5 and self._has_rejoined(self._wiped):
            # From now on another disk may be lost.
            self._wiped = None
            self.rejoined_total += 1

    def _has_rejoined(self, name: str) -> bool:
        """Whether a broker votes again with its new disk, and enough others do."""
        directory = next(each.directory for each in self.processes if each.name == name)
        for machine in self.machines:
            metadata = quorum_of(machine)
            if metadata is not None and metadata.is_controller:
                voters = metadata.image.voters
                is_settled = not voters.is_joint and metadata.election.voters == voters
                return is_settled and len(voters.new) > 2 and Voter(name, directory) in voters
        return False

    def _stop(self, process: ClusterProcess) -> None:
        machine, host = process.machine, process.host
        if isinstance(machine, BrokerMachine):
            machine.stop()
            self._stopping[process.name] = None
        self.time.after(self._random.randrange(SECOND), partial(self._end, process, host))

    def _end(self, process: ClusterProcess, host: object) -> None:
        if process.host is host and host is not None:
            self.kill(process, loses_power=False)

    def _resume_later(self, process: ClusterProcess, delay_ns: int) -> None:
        host = process.host

        def resume() -> None:
            if process.host is host and process.is_paused:
                process.resume()

        self.time.after(delay_ns, resume)

    def _cut(self) -> None:
        if self._random.random() < 0.4:
            self.network.heal()
            return
        names = [each.address for each in self.processes]
        for source, destination in partition_shapes(names, self._random):
            self.network.cut(source, destination)

    # The disks

    def _compare_logs(self) -> None:
        """Below the lowest high watermark the logs of all brokers hold the same bytes.

        And what they say of who changed something is in the audit logs.
        """
        logs = {machine.process.name: self._metadata_log(machine) for machine in self.machines}
        start = max(log.start for log in logs.values())
        below = min(log.high_watermark for log in logs.values())
        held: dict[str, bytes] = {}
        for machine in self.machines:
            log = logs[machine.process.name]
            data, offset = bytearray(), start
            while offset < below:
                wanted = log.read(Offset(offset), 1 << 20, below=below)
                assert wanted is not None
                data += machine.storage.read(wanted)
                offset = wanted.below
            held[machine.process.name] = bytes(data)
        if len(set(held.values())) != 1:
            raise Violation("equal logs", f"they differ below {below}")
        for machine in self.machines:
            name = machine.process.name
            check_audit(name, held[name], partial(self._answer_of, machine))

    def _answer_of(self, machine: BrokerMachine, command: Command) -> object:
        request = machine.ask(command)
        self.advance(SECOND)
        return machine.replies.pop(request, None)

    def _metadata_log(self, machine: BrokerMachine) -> Log:
        metadata = quorum_of(machine)
        assert metadata is not None
        return metadata.log
