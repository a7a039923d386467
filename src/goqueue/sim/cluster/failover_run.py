"""One simulated life of a cluster whose leaders fail at the worst moments.

Chance alone seldom meets what needs several things at once: a leader that dies in its first
milliseconds, a change of an ISR whose outcome stays unknown, a message that comes long after its
moment. So this world waits for such moments, and strikes. Epochs are short, one disk may be slow,
messages of the replication lane come again later, and in half of the runs the last copies are made
when nobody publishes any more.

What must hold is what `ReplicationRun` says.
"""

from random import Random

import msgspec

from goqueue.cluster import PartitionId
from goqueue.model import MILLISECOND, SECOND, RequestIsrs
from goqueue.sim.cluster.brokers import BrokerMachine, DiskWeather
from goqueue.sim.cluster.processes import ClusterProcess
from goqueue.sim.cluster.quorum_run import Create, QuorumSwarm
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.trace import Trace

__all__ = ["FailoverRun"]

_STRIKES_MAX = 12
_LED_DELAYS_NS = (0, 2 * MILLISECOND, 20 * MILLISECOND, 200 * MILLISECOND, SECOND)
_WISH_DELAYS_NS = (0, 100_000, MILLISECOND, 5 * MILLISECOND)
_DOWN_NS = (30 * MILLISECOND, 500 * MILLISECOND, 4 * SECOND)
_BURST_NS = SECOND
_LONG_NS = 9 * SECOND
_DELAYED_NS = (700 * MILLISECOND, 1500 * MILLISECOND)
# What an ambush does.
_KILL, _POWER_LOSS, _PAUSE, _SILENCE, _ISOLATE, _FILL, _LONG_DEATH, _SHORT_PAUSE = range(8)
_STRIKES = (_KILL, _POWER_LOSS, _PAUSE, _SILENCE, _ISOLATE, _FILL, _FILL)
_AWAY_NS = (600 * MILLISECOND, 4500 * MILLISECOND, 6 * SECOND)
_FULL_NS = (300 * MILLISECOND, SECOND)
_SLOW = DiskWeather(slow_share=0.6, slow_ns_max=700 * MILLISECOND)


class FailoverRun(ReplicationRun):
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        trace: Trace,
        steps: int = 20,
        *,
        create: Create | None = None,
        copies: ReplicationSwarm | None = None,
        strikes_max: int = _STRIKES_MAX,
    ) -> None:
        chance = Random(seed * 19 + 7)  # noqa: S311 - chance that can be repeated is the point
        calm = dict.fromkeys(QuorumSwarm.__struct_fields__[1:], False)
        # Ambushes do the rest: with more at once, most runs store next to nothing.
        drawn = {each: chance.random() < 0.4 for each in ("stops", "resets", "power_losses")}
        swarm = QuorumSwarm(brokers=chance.choice((3, 3, 4)), **calm | drawn)
        super().__init__(
            seed, trace, steps, create=create, swarm=swarm, copies=copies or _draw(chance)
        )
        self._ambush = chance
        self._strikes_max = strikes_max
        self._strikes = 0
        self._is_healed = False
        self._slow = chance.choice(self.processes).name if chance.random() < 0.4 else None
        self._ends_quietly = chance.random() < 0.5
        late_share = chance.choice((0.0, 0.1, 0.7))
        self.network.weather = msgspec.structs.replace(self.network.weather, late_share=late_share)
        self.checks.on_led = self._led
        self.checks.on_wish = self._wished

    def heal(self) -> None:
        # Without a burst, who is behind now gets the end of the log after the last append.
        self.time.after(0 if self._ends_quietly else _BURST_NS, self._stop_publishers)
        self._is_healed = True
        self._slow = None
        super().heal()

    def _begin_life(self, process: ClusterProcess) -> BrokerMachine:
        machine = super()._begin_life(process)
        if process.name == self._slow:
            machine.weather = _SLOW
        return machine

    # Ambushes

    def _disturb(self) -> None:
        super()._disturb()
        leaders = [each for each in self.machines if self._leads(each, 0) or self._leads(each, 1)]
        if leaders and self._strikes_now(0.4):
            leader = self._ambush.choice(leaders)
            self._strike_later(leader.process, 0, self._ambush.choice(_STRIKES))

    def _led(self, machine: BrokerMachine) -> None:
        """Somebody leads: seldom for long."""
        random = self._ambush
        if not self._strikes_now(0.6):
            return
        process, delay = machine.process, random.choice(_LED_DELAYS_NS)
        self._strike_later(process, delay, random.choice(_STRIKES))

    def _wished(self, machine: BrokerMachine, message: RequestIsrs, controller: str) -> None:
        """A leader asks for another ISR: its outcome becomes unknown, or a member of it goes."""
        random = self._ambush
        if not self._strikes_now(0.5):
            return
        joining = self._joining(machine, message)
        if joining:
            self._delay_wish(machine.process, controller)
            kind = random.choice((_KILL, _SHORT_PAUSE))
            self._strike_later(joining[0], random.choice(_WISH_DELAYS_NS), kind)
        elif any(len(wish.isr) == 1 for wish in message.wishes):
            # The last one that has everything goes, for longer than the others.
            self._strike_later(machine.process, random.choice(_LED_DELAYS_NS), _LONG_DEATH)
        else:
            names = [name for wish in message.wishes for name, _ in wish.isr]
            process = random.choice([each for each in self.processes if each.name in names])
            self._strike_later(process, random.choice(_WISH_DELAYS_NS), random.choice(_STRIKES))

    def _joining(self, machine: BrokerMachine, message: RequestIsrs) -> list[ClusterProcess]:
        """Who joins an ISR by what a leader asks for."""
        member = machine.node.cluster
        assert member is not None
        names: set[str] = set()
        for wish in message.wishes:
            hosted = member.replicas.hosted.get(PartitionId(wish.topic, wish.partition))
            if hosted is not None and hosted.leader is not None:
                names |= {name for name, _ in wish.isr} - set(hosted.leader.image.isr)
        return [each for each in self.processes if each.name in names]

    def _delay_wish(self, leader: ClusterProcess, controller: str) -> None:
        """Let what a leader says reach the controller later."""
        asked = next(each for each in self.processes if each.name == controller)
        self.network.cut(leader.address, asked.address)
        self.time.after(self._ambush.choice(_DELAYED_NS), self.network.heal)

    def _strikes_now(self, share: float) -> bool:
        if self._is_healed or self._strikes >= self._strikes_max or self._ambush.random() >= share:
            return False
        gone = sum(not each.is_running or each.is_paused for each in self.processes)
        if gone > 1 or (gone and self._ambush.random() < 0.5):
            return False
        self._strikes += 1
        return True

    def _strike_later(self, process: ClusterProcess, delay_ns: int, kind: int) -> None:
        host = process.host

        def strike() -> None:
            is_same = process.host is host and host is not None and not process.is_paused
            if is_same and not self._is_healed:
                self._strike(process, kind)

        self.time.after(delay_ns, strike)

    def _strike(self, process: ClusterProcess, kind: int) -> None:
        random = self._ambush
        if kind in {_KILL, _POWER_LOSS, _LONG_DEATH}:
            self.kill(process, loses_power=kind == _POWER_LOSS)
            down_ns = _LONG_NS if kind == _LONG_DEATH else random.choice(_DOWN_NS)
            self.time.after(down_ns, lambda: self._begin_again(process))
        elif kind in {_PAUSE, _SHORT_PAUSE}:
            process.pause()
            away_ns = 2 * SECOND if kind == _SHORT_PAUSE else random.choice(_AWAY_NS)
            self._resume_later(process, away_ns)
        elif kind == _FILL:
            faults = self.disks[process.name].faults
            faults.fill(random.randrange(400))
            self.time.after(random.choice(_FULL_NS), faults.free)
        else:
            others = [each for each in self.processes if each is not process]
            for other in others:
                self.network.cut(process.address, other.address)
                if kind == _ISOLATE:
                    self.network.cut(other.address, process.address)
            self.time.after(random.choice(_AWAY_NS), self.network.heal)

    def _begin_again(self, process: ClusterProcess) -> None:
        if not process.is_running:
            process.begin()


def _draw(random: Random) -> ReplicationSwarm:
    replicas = random.choice((2, 3, 3, 3))
    return ReplicationSwarm(
        replicas=replicas,
        minimum=random.randint(1, replicas - 1),
        fills=random.random() < 0.3,
        deletes=random.random() < 0.2,
        small_segments=random.random() < 0.3,
        flushes_late=random.random() < 0.4,
        majorities=random.random() < 0.2,
    )
