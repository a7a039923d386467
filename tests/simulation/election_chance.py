"""Elections by chance: what happens next follows from a seed, and some of it lies in wait.

In most phases little goes wrong, so that there is a leader when something does.
"""

from goqueue.cluster import LeaderGone, LeadershipEnded, TimerFired
from goqueue.model import MILLISECOND, Instant
from tests.simulation.election_world import ElectionWorld

__all__ = ["ChanceWorld"]


class ChanceWorld(ElectionWorld):
    """A world in which things happen by chance."""

    def run(self, phases: int) -> None:
        """Let things happen."""
        for _ in range(phases):
            if self.random.random() < 0.5:
                self.cuts.clear()
                for name in self.disks:
                    if name not in self.processes:
                        self._start_some()
            draw = self.random.random()
            if draw < 0.35:
                self._ambush_leader()
            elif draw < 0.45:
                self._ambush_voters()
            self._run_phase(self.random.choice([20, 100, 300]))

    def _ambush_leader(self) -> None:
        """A voter hears its leader no more, then others do not; their replies come late, or they
        start anew and forgot whom they heard. Or the leader hands over and hears nobody any more.
        """
        leader = next(self.leaders_now(), None)
        names = [] if leader is None else [each.broker for each in leader.voters.all()]
        if leader is None or leader.me.broker not in names or len(names) < 3:
            return
        name = leader.me.broker
        lonely, *others = self.random.sample([each for each in names if each != name], 2)
        self.cuts = {(name, lonely)}
        self._settle(self.random.randint(8, 16))
        self._replicate_some()
        trap = self.random.choice(["late", "restart", "transfer"])
        while self.packets:
            if trap == "late" and self.packets[0].to == leader.me:
                self.late.append(self.packets.pop(0))
            else:
                self.deliver(0)
        running = [each for each in others if each in self.processes]
        if trap == "transfer" and running:
            self.handle(name, LeadershipEnded(self.processes[running[0]].me))
            self.cuts = {(each, name) for each in (lonely, *others)}
        else:
            self.cuts.update((name, each) for each in others)
        if trap == "restart":
            for each in running:
                self.crash(each)
                self.start(each)
        self._settle(16)

    def _settle(self, rounds: int) -> None:
        """Rounds in which everything arrives and is synced, except what is late."""
        for _ in range(rounds):
            self._replicate_some()
            self._deliver_all()
            if self.random.random() < 0.1:
                self._deliver_late()
            self._let_pass(self.random.choice([50, 150]))

    def _deliver_all(self) -> None:
        for _ in range(3):
            for name in list(self.processes):
                self.sync(name)
            for _ in range(len(self.packets)):
                self.deliver(0)

    def _ambush_voters(self) -> None:
        """While the voters change, the old ones no longer hear the leader nor the new ones."""
        self.cuts.clear()
        self._settle(3)
        leader = next(self.leaders_now(), None)
        if leader is None:
            return
        before = {voter.broker for voter in leader.voters.new}
        self.change_voters(leader.me.broker)
        apart = before - {leader.me.broker}
        for one in apart:
            for other in self.disks:
                if other not in apart:
                    self.cuts.update({(one, other), (other, one)})
        self._settle(40)

    def _run_phase(self, steps: int) -> None:
        actions = {
            self._deliver_some: self.random.choice([60, 200]),
            self._sync_some: 40,
            self._replicate_some: 10,
            self._propose_some: 3,
            self._pass_time: self.random.choice([20, 60]),
            self._lose_some: self.random.choice([0, 0, 10]),
            self._change_some_voters: self.random.choice([0, 0, 3]),
            self._hand_over: self.random.choice([0, 0, 1]),
            self._crash_some: self.random.choice([0, 0, 2]),
            self._start_some: self.random.choice([0, 4]),
            self._restart_some: self.random.choice([0, 2]),
            self._delay_some: self.random.choice([0, 10]),
            self._deliver_late: self.random.choice([0, 2]),
            self._cut_some: self.random.choice([0, 2]),
        }
        for action in self.random.choices(list(actions), list(actions.values()), k=steps):
            action()

    def _some(self) -> str | None:
        return self.random.choice(list(self.processes)) if self.processes else None

    def _deliver_some(self) -> None:
        if self.packets:
            number = self.random.randrange(len(self.packets))
            self.deliver(number, keeps=self.random.random() < 0.05)

    def _lose_some(self) -> None:
        if self.packets:
            self.packets.pop(self.random.randrange(len(self.packets)))

    def _delay_some(self) -> None:
        if self.packets:
            self.late.append(self.packets.pop(self.random.randrange(len(self.packets))))

    def _deliver_late(self) -> None:
        if self.late:
            self.packets.append(self.late.pop(self.random.randrange(len(self.late))))
            self.deliver(len(self.packets) - 1)

    def _sync_some(self) -> None:
        name = self._some()
        if name is not None:
            self.sync(name)

    def _replicate_some(self) -> None:
        for leader in list(self.leaders_now()):
            self.replicate(leader.me.broker)
        del self.packets[: max(0, len(self.packets) - 60)]

    def _propose_some(self) -> None:
        for leader in list(self.leaders_now()):
            self.propose(leader.me.broker)

    def _change_some_voters(self) -> None:
        for leader in list(self.leaders_now()):
            self.change_voters(leader.me.broker)

    def _hand_over(self) -> None:
        to = self._some()
        for leader in list(self.leaders_now()):
            if to is not None and to != leader.me.broker:
                self.handle(leader.me.broker, LeadershipEnded(self.processes[to].me))

    def _crash_some(self) -> None:
        name = self._some()
        if name is not None:
            gone = self.processes[name].me
            self.crash(name)
            if self.now // MILLISECOND % 2:
                # Its connections break, and nothing listens where it was.
                for each in list(self.processes):
                    self.handle(each, LeaderGone(gone))

    def _restart_some(self) -> None:
        name = self._some()
        if name is not None:
            self.crash(name)
            self.start(name)

    def _start_some(self) -> None:
        down = [name for name in self.disks if name not in self.processes]
        if down:
            name = self.random.choice(down)
            # Only one, ever: two disks are more than a majority of three can lose.
            if not self._wiped and self.random.random() < 0.2:
                self.wipe(name)
            self.start(name)

    def _cut_some(self) -> None:
        """Some brokers no longer reach some others; the way back may be open."""
        names = list(self.disks)
        leaders = [leader.me.broker for leader in self.leaders_now()]
        if self.random.random() < 0.5:
            # One broker alone no longer hears a leader, and may reach all others.
            self.cuts.add((self.random.choice(leaders or names), self.random.choice(names)))
            return
        alone = self.random.sample(names, self.random.randint(1, len(names) - 1))
        for one in alone:
            for other in names:
                if other not in alone:
                    self.cuts.update({(one, other), (other, one)})

    def _pass_time(self) -> None:
        passed = self.random.choice([1, 10, self._tempo])
        if self.random.random() < 0.02:
            passed = 1500
        self._let_pass(passed)

    def _let_pass(self, passed: int) -> None:
        """Milliseconds pass, and the timers fire that are due."""
        self.now = Instant(self.now + passed * MILLISECOND)
        for name in list(self.processes):
            if self.processes[name].quorum.next_deadline() <= self.now:
                self.handle(name, TimerFired())
