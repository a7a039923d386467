"""One broker of a simulated cluster: its process on its machine, with a clock of its own.

A process begins, pauses, dies and begins again; each run of it is an *incarnation*, whose number
its disk keeps. What it runs is a `Machine`: it is told of events, asked for its next deadline, and
acts through the process. A machine that has died is never called again.

Clocks differ in offset and rate, and the wall clock jumps; instants never go back.
"""

from collections.abc import Callable
from typing import Protocol

from goqueue.model import (
    ConnectPeers,
    Instant,
    Now,
    PeerEvent,
    PeerIdentity,
    Send,
    Timestamp,
)
from goqueue.sim.cluster.network import Host, SimulatedNetwork
from goqueue.sim.trace import Trace

__all__ = ["ClusterProcess", "Machine", "ProcessClock"]

_MILLION = 1_000_000


class ProcessClock:
    """The clocks of one machine: how far they are off, and how fast they run."""

    def __init__(self, offset_ns: int = 0, drift_ppm: int = 0) -> None:
        self._offset_ns = offset_ns
        self._drift_ppm = drift_ppm
        self._wall_offset_ns = 0

    def instant(self, now_ns: int) -> Instant:
        """What the monotonic clock shows."""
        return Instant(self._offset_ns + now_ns * (_MILLION + self._drift_ppm) // _MILLION)

    def wall(self, now_ns: int) -> Timestamp:
        return Timestamp(self.instant(now_ns) + self._wall_offset_ns)

    def jump(self, by_ns: int) -> None:
        """Set the wall clock."""
        self._wall_offset_ns += by_ns

    def until(self, deadline: Instant, now_ns: int) -> int:
        """How long it is, in the time of the world, until the clock shows an instant."""
        missing = deadline - self.instant(now_ns)
        return max(0, -(-missing * _MILLION // (_MILLION + self._drift_ppm)))


class Machine(Protocol):
    """What a process runs."""

    def begin(self) -> None:
        """The process has started."""
        ...

    def take(self, event: PeerEvent) -> None:
        """Something came from the network."""
        ...

    def wake(self) -> None:
        """The deadline has passed."""
        ...

    def next_deadline(self) -> Instant | None: ...


class ClusterProcess:
    """One broker: `create` makes the machine of each of its lives.

    `observe` hears of every event before the machine does, with the incarnation that it reached.
    """

    def __init__(
        self,
        name: str,
        network: SimulatedNetwork,
        clock: ProcessClock,
        create: "Callable[[ClusterProcess], Machine]",
        *,
        trace: Trace,
        observe: "Callable[[ClusterProcess, PeerEvent], None]",
    ) -> None:
        self.name = name
        self.address = f"{name}:7000"
        self.peers: tuple[str, ...] = ()
        self.clock = clock
        self.directory = _directory_of(name, 0)
        self.incarnation = 0
        self._wipes = 0
        self._network = network
        self._time = network.time
        self._create = create
        self._trace = trace
        self._observe = observe
        self.host: Host | None = None
        self.machine: Machine | None = None
        self._armed_for: Instant | None = None

    @property
    def is_running(self) -> bool:
        return self.host is not None

    @property
    def is_paused(self) -> bool:
        return self.host is not None and self.host.is_paused

    def now(self) -> Now:
        now_ns = self._time.now_ns
        return Now(self.clock.instant(now_ns), self.clock.wall(now_ns))

    def identity(self) -> PeerIdentity:
        """Who this run of the broker is."""
        return PeerIdentity(
            broker=self.name,
            directory=self.directory,
            incarnation=self.incarnation,
            address=self.address,
            peers=self.peers,
        )

    def send(self, effect: ConnectPeers | Send) -> None:
        """Carry out an effect of the machine."""
        assert self.host is not None
        self.host.carry_out(effect)

    def later(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Let the machine do something later in this life."""
        host = self.host
        assert host is not None

        def act() -> None:
            action()
            self._arm()

        self._time.after(delay_ns, lambda: host.when_running(act))

    # ---- lives -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the process."""
        assert self.host is None, "a process runs once"
        self.incarnation += 1
        self._trace.note("begin", f"{self.name} {self.directory[:6]} {self.incarnation}")
        self.host = Host(
            self._network,
            self.address,
            self.peers,
            self._take,
            lambda: self.clock.wall(self._time.now_ns),
        )
        self.machine = self._create(self)
        self._armed_for = None
        self.machine.begin()
        self._arm()

    def die(self, *, is_silent: bool = False) -> None:
        """Kill the process, or with `is_silent` take the power of its machine."""
        assert self.host is not None
        self._trace.note("power loss" if is_silent else "kill", self.name)
        host, self.host, self.machine = self.host, None, None
        host.die(is_silent=is_silent)

    def wipe(self) -> None:
        """Lose the disk: what begins next is another broker with the same name."""
        assert self.host is None
        self._wipes += 1
        self.directory = _directory_of(self.name, self._wipes)
        self.incarnation = 0
        self._trace.note("wipe", self.name)

    def pause(self) -> None:
        assert self.host is not None
        self._trace.note("pause", self.name)
        self.host.pause()

    def resume(self) -> None:
        assert self.host is not None
        self._trace.note("resume", self.name)
        self.host.resume()

    # ---- events ------------------------------------------------------------------------------

    def _take(self, event: PeerEvent) -> None:
        assert self.machine is not None
        self._observe(self, event)
        self.machine.take(event)
        self._arm()

    def _arm(self) -> None:
        """Wake the machine at its deadline."""
        host, machine = self.host, self.machine
        if host is None or machine is None:
            return
        deadline = machine.next_deadline()
        if deadline is None or deadline == self._armed_for:
            return
        self._armed_for = deadline

        def wake() -> None:
            if self._armed_for == deadline:
                self._armed_for = None
                machine.wake()
                self._arm()

        delay = self.clock.until(deadline, self._time.now_ns)
        self._time.after(delay, lambda: host.when_running(wake))


def _directory_of(name: str, wipes: int) -> str:
    number = int.from_bytes(name.encode(), "big") * 1000 + wipes
    return f"{number:032x}"[-32:]
