"""One simulated life of a cluster: processes, a network and their faults, drawn from one seed.

Chaos, then everything heals, then ten seconds later everything must be connected.
"""

from collections.abc import Callable
from random import Random

import msgspec

from goqueue.cluster import PeerRegistry
from goqueue.model import HOUR, MILLISECOND, SECOND
from goqueue.sim.cluster.beacon import Beacon
from goqueue.sim.cluster.link_checks import LinkChecks
from goqueue.sim.cluster.network import SimulatedNetwork
from goqueue.sim.cluster.packets import LinkWeather
from goqueue.sim.cluster.processes import ClusterProcess, Machine, ProcessClock
from goqueue.sim.cluster.virtual_time import VirtualTime
from goqueue.sim.trace import Trace

__all__ = ["ClusterRun", "ClusterSwarm", "partition_shapes"]

_DRIFT_PPM_MAX = 50_000
_HEALED_NS = 10 * SECOND
_PAUSES_NS = (50 * MILLISECOND, SECOND, 6 * SECOND, 20 * SECOND, 60 * SECOND)
_GAPS_NS = (MILLISECOND, 50 * MILLISECOND, 500 * MILLISECOND, 3 * SECOND)

Create = Callable[[ClusterProcess], Machine]


class ClusterSwarm(msgspec.Struct, frozen=True, kw_only=True):
    """Which faults a run has, and how many brokers."""

    brokers: int
    kills: bool
    power_losses: bool
    wipes: bool
    pauses: bool
    cuts: bool
    resets: bool
    jumps: bool
    slow: bool

    @classmethod
    def draw(cls, random: Random) -> "ClusterSwarm":
        def chance() -> bool:
            return random.random() < 0.6

        return cls(
            brokers=random.choice((2, 3, 3, 3, 4, 5)),
            kills=chance(),
            power_losses=chance(),
            wipes=chance(),
            pauses=chance(),
            cuts=chance(),
            resets=chance(),
            jumps=chance(),
            slow=chance(),
        )


def partition_shapes(names: list[str], random: Random) -> list[tuple[str, str]]:
    """The cuts of a partition of some shape: from whom to whom nothing passes."""
    shape = random.choice(("one-way", "pair", "alone", "deaf", "halves", "bridge", "ring"))
    first, second, *rest = random.sample(names, len(names))
    pairs = [(a, b) for a in names for b in names if a != b]
    match shape:
        case "one-way":
            return [(first, second)]
        case "pair":
            return [(first, second), (second, first)]
        case "alone":
            return [pair for pair in pairs if first in pair]
        case "deaf":
            return [pair for pair in pairs if pair[1] == first]
        case "halves":
            half = {first, *rest[: len(rest) // 2]}
            return [pair for pair in pairs if (pair[0] in half) != (pair[1] in half)]
        case "bridge":
            # Two sides that reach each other only through the first.
            side = {second, *rest[::2]}
            return [
                pair
                for pair in pairs
                if first not in pair and (pair[0] in side) != (pair[1] in side)
            ]
        case _:
            order = sorted(names)
            near = {(order[i - 1], order[i]) for i in range(len(order))}
            return [pair for pair in pairs if pair not in near and pair[::-1] not in near]


class ClusterRun:
    """The run of one seed: `create` makes the machine of a process, `checks` judge its events."""

    def __init__(  # each says which world a seed means
        self,
        seed: int,
        trace: Trace,
        steps: int = 60,
        *,
        create: Create = Beacon,
        checks: LinkChecks | None = None,
        registry_type: type[PeerRegistry[object]] | None = None,
    ) -> None:
        self._random = Random(seed)  # noqa: S311 - chance that can be repeated is the point
        self._steps = steps
        self._trace = trace
        self.swarm = swarm = ClusterSwarm.draw(self._random)
        trace.note("swarm", swarm)
        self.time = VirtualTime()
        self.network = SimulatedNetwork(
            self.time,
            Random(seed + 1),  # noqa: S311 - not for secrets
            trace,
            registry_type or PeerRegistry,  # type: ignore[arg-type]  # of ends, which it only keeps
        )
        self.network.weather = self._draw_weather()
        self.checks = checks or LinkChecks()
        self.processes = [self._create_process(number, create) for number in range(swarm.brokers)]
        addresses = [each.address for each in self.processes]
        for process in self.processes:
            # Sometimes with its own address, which leads nowhere; a few know only some others.
            others = [each for each in addresses if each != process.address]
            process.peers = tuple(addresses if self._random.random() < 0.2 else others)

    def _draw_weather(self) -> LinkWeather:
        random = self._random
        return LinkWeather(
            delay_ns_max=random.choice((100_000, MILLISECOND, 20 * MILLISECOND)),
            slow_share=random.choice((0.01, 0.1)) if self.swarm.slow else 0.0,
            slow_ns_max=random.choice((50 * MILLISECOND, 900 * MILLISECOND)),
            reset_share=random.choice((0.002, 0.02)) if self.swarm.resets else 0.0,
        )

    def _create_process(self, number: int, create: Create) -> ClusterProcess:
        random = self._random
        clock = ProcessClock(
            random.randrange(HOUR), random.randint(-_DRIFT_PPM_MAX, _DRIFT_PPM_MAX)
        )
        clock.jump(random.randrange(HOUR))
        return ClusterProcess(
            f"broker-{number}",
            self.network,
            clock,
            create,
            trace=self._trace,
            observe=self.checks.observe,
        )

    def live(self) -> None:
        """The whole run; raises Violation."""
        for process in self.processes:
            self.time.after(self._random.randrange(2 * SECOND), process.begin)
        self.advance(2 * SECOND)
        for _ in range(self._steps):
            self._disturb()
            self.advance(self._random.choice(_GAPS_NS))
        self.heal()
        self.advance(_HEALED_NS)
        self.checks.check_healed(self.processes)
        self._trace.note("end", (self.time.events_total, self.checks.messages_total))

    def advance(self, duration_ns: int) -> None:
        """Let time pass."""
        self.time.run_until(self.time.now_ns + duration_ns)

    def heal(self) -> None:
        """End every fault, and let every process run."""
        self.network.weather = LinkWeather()
        self.network.heal()
        for process in self.processes:
            if not process.is_running:
                process.begin()
            elif process.is_paused:
                process.resume()

    def _disturb(self) -> None:
        """One fault, or the end of one."""
        random, swarm = self._random, self.swarm
        process = random.choice(self.processes)
        draw = random.random()
        if not process.is_running:
            if swarm.wipes and draw < 0.1:
                process.wipe()
            if draw < 0.7:
                process.begin()
        elif process.is_paused:
            if draw < 0.5:
                process.resume()
        elif draw < 0.15 and swarm.kills:
            process.die()
        elif draw < 0.22 and swarm.power_losses:
            process.die(is_silent=True)
        elif draw < 0.35 and swarm.pauses:
            process.pause()
            self._resume_later(process, random.choice(_PAUSES_NS))
        elif draw < 0.6 and swarm.cuts:
            self._cut()
        elif draw < 0.7 and swarm.resets:
            self.network.reset_some(random.choice((0.1, 0.5, 1.0)))
        elif draw < 0.75 and swarm.jumps:
            process.clock.jump(random.randint(-HOUR, HOUR))

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
