"""Clients of schedules: they create, pause, resume, run and delete them, and read what comes.

Schedules publish to a topic of their own, which nobody else uses: every message in it is a tick, or
was asked for. What a client was not told, because the node died, is in doubt until the end of the
run, or until it asks again.
"""

from collections.abc import Callable

from goqueue.model import HOUR, SECOND, Code, Offset, Record, Refused
from goqueue.model.requests import (
    CreateSchedule,
    CreateTopic,
    DeleteSchedule,
    DescribeSchedule,
    Done,
    ListSchedules,
    MissedPolicy,
    PauseSchedule,
    Read,
    Records,
    Reply,
    ResumeSchedule,
    RunSchedule,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleList,
    ScheduleRan,
    ScheduleSpec,
    TopicConfig,
    TopicDescription,
)
from goqueue.sim.clients.publishers import is_aborted, records_in
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import is_hidden
from goqueue.sim.truth.schedules import CRON, ZONE, ScheduleTruth, schedule_of

__all__ = ["TICKS_TOPIC", "Schedulers"]

TICKS_TOPIC = "ticks"
_SCHEDULES_MAX = 6
_INTERVALS_NS = (2 * SECOND, 5 * SECOND, 13 * SECOND)
_LONG_GRACE_NS = 7 * 24 * HOUR
_GRACE_NS = 60 * SECOND
# Answers after which it is certain that nothing was changed.
_SURE_REFUSALS = frozenset({Code.STORAGE_FULL, Code.LOG_BUSY})


class Schedulers:
    """Those who have schedules."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self._truths: dict[str, ScheduleTruth] = {}
        self._has_topic = False
        self._count = 0
        # In which life of the node the topic was last asked for.
        self._asked_in = 0

    def actions(self) -> list[Callable[[], None]]:
        """What they do, as often as it is named."""
        actions: list[Callable[[], None]] = [self._create] * 4 + [self._toggle] * 3
        return [*actions, self._run, self._delete, self._list]

    # Creating

    def _create(self) -> None:
        if not self._has_topic:
            self._create_topic()
            return
        if len(self._living()) >= _SCHEDULES_MAX:
            return
        self._count += 1
        swarm = self._world.swarm
        # Where clocks jump by hours, as they do at the end of a run with delays, ticks are missed:
        # how many of them are sent is bounded then.
        is_steady = not swarm.clock_jumps and not swarm.has_ages and not swarm.delays
        is_cron = self._random.random() < 0.4
        every_ns = None if is_cron else self._random.choice(_INTERVALS_NS)
        name = f"s{self._count}"
        truth = ScheduleTruth(
            name, every_ns, is_complete=is_steady, moment=self._world.ledger.peaks.moment
        )
        self._truths[name] = truth
        spec = ScheduleSpec(
            name=name,
            topic=TICKS_TOPIC,
            message=ScheduledMessage(value=name.encode(), partition=0),
            every_ns=every_ns,
            cron=CRON if is_cron else None,
            time_zone=ZONE if is_cron else "UTC",
            missed=self._random.choice(list(MissedPolicy)),
            missed_max=3,
            grace_ns=_LONG_GRACE_NS if is_steady else _GRACE_NS,
        )
        self._world.ask(CreateSchedule(spec=spec), lambda reply: _learn(truth, reply))

    def _create_topic(self) -> None:
        # One of this life may be on its way, and be lost with it.
        is_first = self._asked_in != self._world.life
        self._asked_in = self._world.life

        def done(reply: Reply | Refused | None) -> None:
            exists = isinstance(reply, Refused) and reply.code is Code.TOPIC_EXISTS
            self._has_topic |= (exists and is_first) or isinstance(reply, TopicDescription)

        config = TopicConfig(retention_hours=-1)
        self._world.ask(CreateTopic(name=TICKS_TOPIC, partitions=1, config=config), done)

    def _living(self) -> list[ScheduleTruth]:
        known = [each for each in self._truths.values() if each.created_at is not None]
        return [each for each in known if not each.is_deleted]

    def _choose(self) -> ScheduleTruth | None:
        living = self._living()
        return self._random.choice(living) if living else None

    # Pause, resume, run, delete

    def _toggle(self) -> None:
        truth = self._choose()
        if truth is None:
            return
        if truth.is_paused:
            self._read_end(lambda end: self._resume(truth, end))
        elif truth.is_complete and not truth.was_paused and self._random.random() < 0.7:
            # Most of those that must not miss a tick are left alone.
            return
        else:
            self._pause(truth)

    def _pause(self, truth: ScheduleTruth) -> None:
        truth.was_paused = True
        truth.is_paused = None
        truth.changes_asked += 1
        asked = truth.changes_asked

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, ScheduleDescription) and asked == truth.changes_asked:
                truth.is_paused = True
                self._world.later(lambda: self._read_end(lambda end: _note_pause(truth, end)))

        self._world.ask(PauseSchedule(name=truth.name), done)

    def _resume(self, truth: ScheduleTruth, end: int) -> None:
        """Nothing came from the answer to the pause until now."""
        if truth.paused_from is not None and truth.is_paused:
            truth.pauses.append((truth.paused_from, end))
        truth.paused_from = None
        truth.is_paused = None
        truth.changes_asked += 1
        asked = truth.changes_asked

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, ScheduleDescription) and asked == truth.changes_asked:
                truth.is_paused = False

        def resume() -> None:
            self._world.ask(ResumeSchedule(name=truth.name), done)

        self._world.later(resume)

    def _run(self) -> None:
        truth = self._choose()
        if truth is None:
            return
        truth.runs_asked += 1

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, ScheduleRan):
                truth.runs[reply.offset] = None

        self._world.ask(RunSchedule(name=truth.name), done)

    def _delete(self) -> None:
        truth = self._choose()
        if truth is None or self._random.random() < 0.5:
            return
        truth.is_deleted = True

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Done):
                self._world.later(lambda: self._read_end(lambda end: _note_gone(truth, end)))
            elif isinstance(reply, Refused) and reply.code in _SURE_REFUSALS:
                truth.is_deleted = False

        self._world.ask(DeleteSchedule(name=truth.name), done)

    def _read_end(self, then: Callable[[int], None]) -> None:
        """Hand on where the log of ticks ends now, as readers see it."""

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, Records):
                then(reply.high_watermark)

        command = Read(topic=TICKS_TOPIC, partition=0, offset=Offset(0), bytes_max=1)
        self._world.ask(command, done)

    def _list(self) -> None:
        known = dict.fromkeys(each.name for each in self._living())

        def done(reply: Reply | Refused | None) -> None:
            if not isinstance(reply, ScheduleList):
                return
            names = [each.spec.name for each in reply.schedules]
            if names != sorted(names):
                raise Violation("list-out-of-order", f"{names}")
            gone = [name for name in known if name not in names and self._is_sure(name)]
            if gone:
                raise Violation("schedule-lost", f"{gone}")

        self._world.ask(ListSchedules(limit=1000), done)

    def _is_sure(self, name: str) -> bool:
        return not self._truths[name].is_deleted

    # The end

    def wait_for_due(self, rest: Callable[[], None], rounds: int) -> None:
        """Everything that is due comes."""
        late: list[ScheduleDescription] = []
        for _ in range(rounds):
            rest()
            reply = self._world.ask_now(ListSchedules(limit=1000))
            assert isinstance(reply, ScheduleList)
            now = self._world.now.wall
            late = [each for each in reply.schedules if (each.next_tick or now + 1) <= now]
            if not late:
                return
        raise Violation("tick-stuck", f"{late}")

    def check_all(self) -> None:
        """Judge every message that can be read."""
        self._learn_doubtful()
        if not self._has_topic:
            return
        found: dict[str | None, list[Record]] = {}
        for record in self._read_all():
            found.setdefault(schedule_of(record), []).append(record)
        peaks, now = self._world.ledger.peaks, self._world.now.wall
        for truth in self._truths.values():
            records = found.pop(truth.name, [])
            truth.check(records, peaks.highest_since(truth.moment), now)
        if found:
            raise Violation("never-published", f"{list(found)} in {TICKS_TOPIC}")

    def _learn_doubtful(self) -> None:
        """Schedules whose creation was not answered are there, or are not."""
        for truth in self._truths.values():
            reply = self._world.ask_now(DescribeSchedule(name=truth.name))
            is_there = isinstance(reply, ScheduleDescription)
            if not is_there and truth.created_at is not None and not truth.is_deleted:
                raise Violation("schedule-lost", truth.name)
            if is_there and truth.gone_from is not None:
                raise Violation("schedule-back", truth.name)
            if is_there and truth.created_at is None:
                _learn(truth, reply)
            elif is_there:
                truth.is_deleted = False

    def _read_all(self) -> list[Record]:
        records: list[Record] = []
        offset = 0
        while True:
            command = Read(topic=TICKS_TOPIC, partition=0, offset=Offset(offset))
            reply = self._world.ask_now(command)
            if not isinstance(reply, Records):
                raise Violation("cannot-read", f"{command}: {reply}")
            found = records_in(reply.data)
            if not found:
                return records
            offset = found[-1].offset + 1
            records += [
                each for each in found if not is_hidden(each) and not is_aborted(each, reply)
            ]


def _learn(truth: ScheduleTruth, reply: Reply | Refused | None) -> None:
    if isinstance(reply, ScheduleDescription):
        truth.created_at = reply.created_at
        truth.start = reply.spec.start


def _note_pause(truth: ScheduleTruth, end: int) -> None:
    if truth.is_paused:
        truth.paused_from = end


def _note_gone(truth: ScheduleTruth, end: int) -> None:
    truth.gone_from = end if truth.gone_from is None else truth.gone_from
