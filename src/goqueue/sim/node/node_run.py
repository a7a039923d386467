"""One simulated life of a node: clients, crashes and repairs, all drawn from one seed.

The node and the storage are the real ones; only the disk, the clocks, the clients and the order of
events are simulated. At the end faults stop, and everything that was promised must come true.
"""

from collections.abc import Callable
from random import Random

from goqueue.broker import GROUPS_LOG, TOPICS_LOG, TURN_UNITS
from goqueue.model import HOUR, MILLISECOND, SECOND, Instant, Left, LogId, Now, Timestamp
from goqueue.model.requests import (
    DescribeNode,
    GroupProtocol,
    Mode,
    NodeDescription,
    Start,
)
from goqueue.sim.disk import Crashed
from goqueue.sim.node.crowd import Crowd
from goqueue.sim.node.run_end import RunEnd
from goqueue.sim.node.stock import Stock
from goqueue.sim.node.swarm import NodeSwarm
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.sabotage import Sabotage
from goqueue.sim.trace import Trace
from goqueue.sim.truth.groups import GroupTruth
from goqueue.storage import SNAPSHOTS

__all__ = ["NodeRun"]

_Action = Callable[[], None]
_MODES = {
    "streams": Mode.PARTITIONED,
    "split": Mode.PARTITIONED,
    "shared": Mode.SHARED,
    "keyed": Mode.KEY_ORDERED,
}
_PAUSES_NS = (0, 1, 50 * MILLISECOND, 400 * MILLISECOND, SECOND, 2 * SECOND, 7 * SECOND)
# Longer than a lease, than what is remembered of producers, of groups and of keys.
_SLEEPS_NS = (HOUR, 13 * HOUR, 25 * HOUR, 8 * 24 * HOUR)
_JUMP_S_MAX = 7200
_WEEKS_S = 21 * 24 * 3600
_TURN_UNITS = (4, 20, TURN_UNITS)
_COOPERATIVE_SHARE = 0.8
_WAKES_MAX = 1000
_STARTS_MAX = 200


class NodeRun:
    """The run of one seed."""

    def __init__(  # noqa: PLR0913  # each says which world a seed means
        self,
        seed: int,
        trace: Trace,
        steps: int = 300,
        *,
        jumps_clock: bool | None = None,
        is_plain: bool = False,
        has_transactions: bool = True,
        has_receives: bool = True,
        has_schedules: bool = False,
        has_tenants: bool = False,
        has_cooperation: bool = False,
        has_schemas: bool = False,
    ) -> None:
        """`jumps_clock` decides about jumps of the wall clock instead of the seed.

        Then nothing depends on it, so that the outcomes can be compared. A plain run has neither
        delays, priorities nor transactions: it is what its seed meant before there were any. So is
        one without receives. With schedules, tenants, cooperative groups or schemas it is another
        run than its seed means.
        """
        self._steps = steps
        # Chance that can be repeated is the point; clocks have their own, so that they disturb
        # nothing else.
        self._random = Random(seed)  # noqa: S311 - not for secrets
        self._clock_random = Random(seed + 1)  # noqa: S311 - not for secrets
        swarm = NodeSwarm.draw(self._random)
        if not is_plain:
            swarm = swarm.with_late(Random(seed + 2))  # noqa: S311 - not for secrets
        if not is_plain and has_transactions:
            swarm = swarm.with_transactions(Random(seed + 3))  # noqa: S311 - not for secrets
        turn_units_max = TURN_UNITS
        if not is_plain:
            # So few that the messages of a short run exceed them.
            turn_units_max = Random(seed + 4).choice(_TURN_UNITS)  # noqa: S311 - not for secrets
            swarm = swarm.with_extremes(Random(seed + 5))  # noqa: S311 - not for secrets
        if not is_plain and has_receives:
            swarm = swarm.with_receives(Random(seed + 9))  # noqa: S311 - not for secrets
        if jumps_clock is not None:
            swarm = swarm.with_clock(jumps=jumps_clock)
        chosen = (has_schedules, has_tenants, has_cooperation, has_schemas)
        self._swarm = swarm = swarm.with_choice(*chosen)
        pages = Random(seed + 6) if swarm.page_tears else None  # noqa: S311 - not for secrets
        sizes = Random(seed + 7)  # noqa: S311 - not for secrets
        ticks = Random(seed + 8)  # noqa: S311 - not for secrets
        self._world = World(
            self._random, trace, swarm, turn_units_max, ticks=ticks, pages=pages, sizes=sizes
        )
        self._crowd = Crowd(self._world)
        self._stock = Stock(self._world, self._crowd)
        self._is_serving = False
        self._starts = 0
        self._is_power_lost = False
        trace.note("swarm", swarm)
        self._form_groups(Random(seed + 10))  # noqa: S311 - not for secrets
        self._crowd.form_groups()
        self._begin()

    def _form_groups(self, protocols: Random) -> None:
        swarm = self._swarm
        for name, mode in _MODES.items():
            start = Start.LATEST if self._random.random() < 0.15 else Start.EARLIEST
            if swarm.streams or name != "streams":
                group = self._world.groups[name] = GroupTruth(name, mode, start)
                if swarm.cooperation and protocols.random() < _COOPERATIVE_SHARE:
                    group.protocol = GroupProtocol.COOPERATIVE

    @property
    def outcomes(self) -> str:
        """One hash over all answers."""
        return self._world.outcomes

    def live(self) -> None:
        """The whole run."""
        actions = self._actions()
        for _ in range(self._steps):
            self._step(self._random.choice(actions) if self._is_serving else self._move_on)
        self._world.faults.calm()
        self._world.trace.note("heal", None)
        RunEnd(self._world, self._crowd, self).prove()

    def _step(self, action: _Action) -> None:
        self._world.trace.note("do", action.__name__)
        try:
            action()
            self._world.catch_up()
            if not self._swarm.slow_disk or self._random.random() < 0.5:
                self._move_on()
                self._world.catch_up()
            if not self._is_serving:
                self._look_whether_serving()
        except Crashed as crash:
            self._world.trace.note("crashed", str(crash))
            self.crash(is_power_lost=self._is_power_to_be_lost())
        if self._world.process.halted is not None:
            self._halted()

    def _actions(self) -> list[_Action]:
        swarm, crowd = self._swarm, self._crowd
        publishers, members = crowd.publishers, crowd.members
        movers, settlers = crowd.movers, crowd.settlers
        actions: list[_Action] = [publishers.create] * 3 + [publishers.publish] * 8
        actions += [publishers.read] * 3 + [members.join_any] * 4 + [members.heartbeat] * 4
        actions += [members.poll_any] * 14 + [settlers.ack_any] * 8 + [settlers.nack] * 6
        actions += [settlers.reject] * 2 + [settlers.extend] * 2
        actions += [settlers.release] * 2
        actions += [members.leave, movers.describe]
        actions += [self._move_on] * 6 + [self._pass_time] * 5
        optional: list[tuple[bool, _Action]] = [
            (swarm.power_loss or swarm.process_kill, self._crash_now),
            (swarm.crash_inside, self._arm_crash),
            (swarm.sync_errors, self._world.faults.arm_sync_error),
            (swarm.write_errors, self._world.faults.arm_write_error),
            (swarm.name_errors, self._arm_name_error),
            (swarm.full_disk, self._change_space),
            # It is there in any case, so that the rest does not depend on it.
            (True, self._jump_clock),
            (swarm.clean_stops, self._stop_cleanly),
            (swarm.long_pauses, self._sleep),
            (swarm.streams or swarm.commits_in_queues, movers.commit),
            (swarm.resets, movers.reset),
            (swarm.redrives, publishers.redrive),
            (swarm.redrives, publishers.redrive),
            (swarm.redrives, settlers.reject),
            (swarm.redrives, settlers.reject),
            (swarm.topics_deleted, publishers.delete),
            (swarm.topics_deleted, publishers.delete),
            (swarm.groups_deleted, members.delete_group),
            (swarm.alterations, publishers.alter),
            (swarm.impatience, self._walk_away),
        ]
        if swarm.delays:
            delayers = crowd.delayers
            actions += [delayers.cancel] * 4 + [delayers.find] * 2 + [delayers.list_any]
            squeezes = [self._change_space] * 2 + [delayers.cancel_on_a_full_disk]
            actions += squeezes if swarm.full_disk else []
        if swarm.masses:
            actions += crowd.masses.actions()
        if swarm.receives:
            actions += [crowd.receivers.receive_any] * 10
            actions += [crowd.requesters.ask] * 2 + [crowd.requesters.reply] * 2
            actions += [crowd.receivers.watch_any] * 2
        if swarm.schedules:
            actions += crowd.schedulers.actions() * 2
        if swarm.schemas:
            actions += crowd.registrars.actions() * 4
        if crowd.tenants is not None:
            actions += crowd.tenants.actions()
        if crowd.cooperators is not None:
            cooperators = crowd.cooperators
            actions += [cooperators.revoke_any] * 8 + [members.heartbeat] * 16
            actions += [cooperators.replace_any] * 2 + [members.join_any] * 4
            actions += [movers.commit] * 8 + [self._linger] * 2
        actions += crowd.transactional_actions()
        return actions + [action for is_on, action in optional if is_on]

    # What moves by itself

    def _move_on(self) -> None:
        """Advance some of the work that is under way."""
        world, process = self._world, self._world.process
        turns = (
            lambda: process.disk_turn(self._random.randint(1, 4)),
            lambda: process.report_turn(world.now),
            lambda: process.late_turn(world.now),
            lambda: process.open_turn(world.now),
            process.background_turn,
        )
        turns_max = 6 if self._is_serving else 40
        for _ in range(self._random.randint(1, turns_max)):
            if process.halted is None:
                self._random.choice(turns)()
        if not self._is_serving:
            self.pass_time(self._random.choice([0, 300 * MILLISECOND]))

    def _pass_time(self) -> None:
        self.pass_time(self._random.choice(_PAUSES_NS))
        world = self._world
        is_at_rest = world.process.is_idle and world.process.node.is_quiet
        if is_at_rest and world.process.halted is None and not world.faults.is_full:
            world.callers.check_patience(world.now)

    def _linger(self) -> None:
        """Members stay, and give up nothing."""
        assert self._crowd.cooperators is not None
        for _ in range(self._random.randint(1, 12)):
            self._crowd.cooperators.beat_all()
            self._world.catch_up()
            self._move_on()
            self.pass_time(2 * SECOND)

    def pass_time(self, elapsed: int) -> None:
        """Advance the clock, and wake the node at its deadlines."""
        world = self._world
        target = Instant(world.now.instant + elapsed)
        for _ in range(_WAKES_MAX):
            deadline = world.process.deadline
            if deadline is None or deadline > target or world.process.halted is not None:
                break
            self._set_time(max(deadline, world.now.instant))
            world.process.wake(world.now)
        else:
            raise Violation("never-rests", f"{_WAKES_MAX} wakes within {elapsed} ns")
        self._set_time(target)

    def _set_time(self, instant: int) -> None:
        now = self._world.now
        elapsed = instant - now.instant
        self._world.now = Now(Instant(instant), Timestamp(now.wall + elapsed))

    def _jump_clock(self) -> None:
        if not self._swarm.clock_jumps:
            return
        now = self._world.now
        jump_max = _JUMP_S_MAX
        if self._swarm.week_jumps and self._clock_random.random() < 0.5:
            # Dead letters are kept for two weeks of the wall clock; nothing else is forgotten.
            self._world.dead_letters.is_strict = False
            jump_max = _WEEKS_S
        jump = self._clock_random.randint(-jump_max, jump_max) * SECOND
        self._world.now = Now(now.instant, Timestamp(now.wall + jump))

    def _sleep(self) -> None:
        """Suspend the machine; on resume everything that became due arrives at once."""
        if self._random.random() < 0.5:
            return
        self._age()
        world = self._world
        self._set_time(world.now.instant + self._random.choice(_SLEEPS_NS))
        world.excused_until = Instant(world.now.instant + SECOND)
        for group in world.groups.values():
            group.excuse(world.excused_until)
        self.pass_time(0)

    def _age(self) -> None:
        """Advance the clock by days while nothing is in flight."""
        self._world.process.settle(self._world.now)
        self._world.ages += 1
        # Dead letters are kept for two weeks.
        self._world.dead_letters.is_strict = False

    def _walk_away(self) -> None:
        """Cancel a waiting request."""
        world = self._world
        calls = world.callers.waiting
        if calls:
            request = self._random.choice(calls).request
            world.callers.leave(request)
            world.process.take(Left(request=request), world.now)

    # What goes wrong

    def _change_space(self) -> None:
        faults = self._world.faults
        if faults.is_full:
            faults.free()
        else:
            faults.fill(self._random.choice([0, 30, 300, 3000]))

    def _arm_name_error(self) -> None:
        self._world.faults.arm_name_error(self._random.randint(1, 4))

    def _arm_crash(self) -> None:
        if self._random.random() < 0.4:
            self._world.faults.arm_crash(self._random.randint(1, 30))

    def _crash_now(self) -> None:
        if self._random.random() < 0.4:
            self.crash(is_power_lost=self._is_power_to_be_lost())

    def _is_power_to_be_lost(self) -> bool:
        if self._swarm.power_loss and self._swarm.process_kill:
            return self._random.random() < 0.5
        return self._swarm.power_loss

    def _halted(self) -> None:
        """The process halted itself: start it again."""
        if not self._is_serving and self._random.random() < 0.5:
            self._world.faults.calm()
        self.crash(is_power_lost=False)

    def _stop_cleanly(self) -> None:
        world, process = self._world, self._world.process
        process.stop(world.now)
        process.settle(world.now)
        if process.halted is None and process.node.is_quiet:
            try:
                process.storage.close()
            except OSError as error:
                world.trace.note("cannot close", str(error))
        self.crash(is_power_lost=False)

    def crash(self, *, is_power_lost: bool) -> None:
        """The process dies, and is started again."""
        world = self._world
        world.trace.note("crash", is_power_lost)
        world.callers.lose_all()
        if is_power_lost:
            self._lose_power()
        self._spoil()
        world.files.restart()
        world.faults.disarm_crash()
        if self._swarm.crash_inside and self._random.random() < 0.3:
            self._arm_crash()
        self._begin()

    def _spoil(self) -> None:
        """Damage files that the node can do without: caches, and one of two recovery points."""
        random, files = self._random, self._world.files
        if self._swarm.snapshots_lost and random.random() < 0.5:
            # At times those of the delays alone: they may be older than what the journals say.
            is_partial = self._swarm.delays and random.random() < 0.5
            self.lose_snapshots("delays-" if is_partial else "")
        logs = [TOPICS_LOG, GROUPS_LOG]
        logs += [
            LogId(topic.name, number)
            for topic in self._world.ledger.topics.values()
            for number in range(topic.partitions)
        ]
        sabotage = Sabotage(files, random, random.choice(logs))
        if self._swarm.index_trouble:
            sabotage.spoil_index()
        if self._swarm.point_rot and random.random() < 0.5:
            sabotage.spoil_point_slot()

    def _lose_power(self) -> None:
        self._is_power_lost = True
        self._world.files.lose_power()

    def lose_snapshots(self, kind: str = "") -> None:
        """Delete the snapshots with this prefix."""
        for path in self._world.files.paths():
            if path.startswith(f"{SNAPSHOTS}/{kind}"):
                self._world.files.delete(path)

    def _begin(self) -> None:
        """Start the process, repeatedly if it crashes."""
        self._is_serving = False
        while True:
            self._starts += 1
            if self._starts > _STARTS_MAX:
                self._world.faults.calm()
            try:
                self._world.process.begin(bytes(range(32)))
            except Crashed:
                if self._is_power_to_be_lost():
                    self._lose_power()
                self._world.files.restart()
            else:
                return

    # Coming back

    def serve(self) -> None:
        """Let the node start without further faults."""
        world = self._world
        for _ in range(50):
            world.process.settle(world.now)
            if world.process.halted is not None:
                self.crash(is_power_lost=False)
                self._world.faults.calm()
                continue
            if not self._is_serving:
                self._look_whether_serving()
            if self._is_serving:
                return
            self.pass_time(SECOND)
        raise Violation("does-not-heal", "the node does not serve")

    def _look_whether_serving(self) -> None:
        if self._world.process.halted is not None:
            return
        described = self._world.ask_in_turns(DescribeNode())
        if isinstance(described, NodeDescription) and described.not_ready is None:
            self._is_serving = True
            self._stock.take(described, is_power_lost=self._is_power_lost)
            self._is_power_lost = False
