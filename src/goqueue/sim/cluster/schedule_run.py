"""One simulated life of a cluster whose schedules tick while brokers fail.

Clients create schedules, pause, resume, run and delete them through any broker; the coordinator of
groups sends what is due, and is killed, cut off, paused and told to stop as any broker is. In the
end everything healed, all schedules are paused, and the topic is read: what the coordinator says it
has sent is there, once, in order, and nothing else.
"""

from random import Random

import msgspec

from goqueue.model import (
    MILLISECOND,
    SCHEDULE_HEADER,
    SECOND,
    TICK_HEADER,
    LogId,
    Offset,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    Command,
    CreateSchedule,
    CreateTopic,
    DeleteSchedule,
    Done,
    MissedPolicy,
    PauseSchedule,
    Read,
    Records,
    ResumeSchedule,
    RunSchedule,
    ScheduleDescription,
    ScheduledMessage,
    ScheduleRan,
    ScheduleSpec,
    TopicConfig,
)
from goqueue.records import Flag, decode, walk
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.quorum_run import Create, QuorumSwarm
from goqueue.sim.cluster.replication_run import ReplicationRun, ReplicationSwarm
from goqueue.sim.oracle import Violation
from goqueue.sim.trace import Trace

__all__ = ["ScheduleRun"]

_TICKS = "ticks"
_PARTITIONS = 2
_SCHEDULES = 3
_STEP_NS = 50 * MILLISECOND
_PATIENCE_STEPS = 200
_READ_BYTES = 1 << 20


class _Asked(msgspec.Struct, frozen=True):
    machine: BrokerMachine
    request: RequestId
    command: Command


class _Life:
    """One schedule from its creation to its end, and the client that looks after it."""

    def __init__(self, name: str, partition: int, every_ns: int) -> None:
        self.name = name
        self.partition = partition
        self.every_ns = every_ns
        self.is_created = False
        # How much it had sent when it was last known to be paused; None: it may tick.
        self.paused_at: int | None = None
        self.is_ending = False
        self.runs_asked = 0
        self.ran: dict[tuple[int, int], None] = {}
        self.asked: _Asked | None = None
        self.steps = 0


class ScheduleRun(ReplicationRun):
    """The run of one seed."""

    def __init__(
        self, seed: int, trace: Trace, steps: int = 16, *, create: Create | None = None
    ) -> None:
        chance = Random(seed * 31 + 9)  # noqa: S311 - chance that can be repeated is the point
        brokers = chance.choice((3, 3, 4))
        replicas = chance.choice((1, 3, 3))
        copies = ReplicationSwarm(
            replicas=replicas,
            minimum=min(2, replicas),
            fills=chance.random() < 0.3,
            deletes=False,
            small_segments=False,
            disk_errors=chance.random() < 0.2,
            majorities=chance.random() < 0.3,
        )
        swarm = msgspec.structs.replace(QuorumSwarm.draw(chance), wipes=False, brokers=brokers)
        super().__init__(seed, trace, steps, create=create, copies=copies, swarm=swarm)
        self._ticking = chance
        self._count = 0
        self._living = [self._begin_schedule() for _ in range(_SCHEDULES)]
        self._over: list[_Life] = []
        self._has_topic = False
        self._is_ending = False
        # How many ticks and runs were found at the end.
        self.ticks_total = self.runs_total = 0

    def _begin_schedule(self) -> _Life:
        self._count += 1
        every_ns = self._ticking.choice((100, 300, 1000)) * MILLISECOND
        return _Life(f"s{self._count}", self._ticking.randrange(_PARTITIONS), every_ns)

    # The clients

    def create_topic(self) -> None:
        super().create_topic()
        config = TopicConfig(
            replication_factor=self.copies.replicas, min_insync_replicas=self.copies.minimum
        )
        self.settle(CreateTopic(name=_TICKS, partitions=_PARTITIONS, config=config))
        self._has_topic = True
        self._tend()

    def _tend(self) -> None:
        """Let each client take a step, now and every while."""
        for life in list(self._living):
            self._step(life)
        self.time.after(_STEP_NS, self._tend)

    def _step(self, life: _Life) -> None:
        asked = life.asked
        if asked is None:
            if self._ticking.random() < 0.3 or self._is_ending:
                self._ask(life)
            return
        reply = asked.machine.replies.pop(asked.request, None)
        life.steps += 1
        if reply is None and not asked.machine.is_over and life.steps < _PATIENCE_STEPS:
            return
        life.asked = None
        self._learn(life, asked.command, reply)

    def _ask(self, life: _Life) -> None:
        machines = [each for each in self.machines if each.node.is_serving]
        command = self._next(life)
        if not machines or command is None:
            return
        if isinstance(command, RunSchedule):
            life.runs_asked += 1
        elif not isinstance(command, PauseSchedule | DeleteSchedule):
            life.paused_at = None
        machine = self._ticking.choice(machines)
        life.asked, life.steps = _Asked(machine, machine.ask(command), command), 0

    def _next(self, life: _Life) -> Command | None:
        random = self._ticking
        if not life.is_created:
            message = ScheduledMessage(value=life.name.encode(), partition=life.partition)
            spec = ScheduleSpec(
                name=life.name,
                topic=_TICKS,
                message=message,
                every_ns=life.every_ns,
                missed=random.choice(list(MissedPolicy)),
                missed_max=5,
                grace_ns=SECOND,
            )
            return CreateSchedule(spec=spec, may_replace=True)
        if self._is_ending:
            return PauseSchedule(name=life.name) if life.paused_at is None else None
        if life.is_ending:
            return DeleteSchedule(name=life.name)
        if life.paused_at is not None:
            life.is_ending = random.random() < 0.2
            return random.choice(
                (ResumeSchedule(name=life.name), PauseSchedule(name=life.name))
                if not life.is_ending
                else (DeleteSchedule(name=life.name),)
            )
        chosen = random.random()
        if chosen < 0.3:
            return RunSchedule(name=life.name)
        return PauseSchedule(name=life.name) if chosen < 0.5 else None

    def _learn(self, life: _Life, command: Command, reply: object) -> None:
        match command, reply:
            case CreateSchedule(), ScheduleDescription():
                life.is_created = True
            case PauseSchedule(), ScheduleDescription():
                if life.paused_at is not None and reply.sent != life.paused_at:
                    sent = f"{life.name}: {life.paused_at}, then {reply.sent}"
                    raise Violation("nothing is sent after the answer to a pause", sent)
                life.paused_at = reply.sent
            case RunSchedule(), ScheduleRan():
                place = reply.log.partition, int(reply.offset)
                if place in life.ran:
                    raise Violation("each run is a message of its own", f"{life.name} {place}")
                life.ran[place] = None
            case DeleteSchedule(), Done() | Refused(code="schedule_not_found"):
                self._living.remove(life)
                self._over.append(life)
                if not self._is_ending:
                    self._living.append(self._begin_schedule())

    # The end

    def end_publishing(self) -> None:
        super().end_publishing()
        self._is_ending = True
        for _ in range(60):
            self.advance(SECOND)
            if all(each.asked is None and each.paused_at is not None for each in self._living):
                break
        else:
            names = [each.name for each in self._living if each.paused_at is None]
            raise Violation("liveness", f"schedules are not paused: {names}")
        self.advance(SECOND)

    def check_end(self) -> None:
        super().check_end()
        ticks: dict[str, list[str]] = {}
        runs: dict[str, dict[tuple[int, int], None]] = {}
        for number in range(_PARTITIONS):
            self._read_partition(number, ticks, runs)
        lives = {each.name: each for each in (*self._living, *self._over)}
        for name in (*ticks, *runs):
            if name not in lives:
                raise Violation("only schedules send", name)
        for life in lives.values():
            self._check(life, ticks.get(life.name, []), runs.get(life.name, {}))

    def _check(self, life: _Life, ticks: list[str], runs: dict[tuple[int, int], None]) -> None:
        if len(set(ticks)) != len(ticks) or sorted(ticks) != ticks:
            raise Violation("a tick is sent once, in order", f"{life.name}: {ticks}")
        if life.paused_at is not None and len(ticks) != life.paused_at:
            sent = f"{life.name}: {len(ticks)}, not {life.paused_at}"
            raise Violation("what was sent is there", sent)
        for place in life.ran:
            if place not in runs:
                raise Violation("what was run is there", f"{life.name} {place}")
        if len(runs) > life.runs_asked:
            asked = f"{life.name}: {len(runs)} of {life.runs_asked}"
            raise Violation("what was run once is there once", asked)
        self.ticks_total += len(ticks)
        self.runs_total += len(runs)

    def _read_partition(
        self,
        number: int,
        ticks: dict[str, list[str]],
        runs: dict[str, dict[tuple[int, int], None]],
    ) -> None:
        """Take up all messages of a partition that readers see."""
        offset = 0
        while True:
            read = Read(
                topic=_TICKS, partition=number, offset=Offset(offset), bytes_max=_READ_BYTES
            )
            reply = self.settle(read)
            if not isinstance(reply, Records):
                raise Violation("liveness", f"{LogId(_TICKS, number)} cannot be read: {reply}")
            if not reply.data and reply.upto <= offset:
                if reply.stable != reply.high_watermark:
                    raise Violation("no transaction stays open", f"{number} {reply}")
                return
            for piece in reply.data:
                columns = walk(piece)
                for position, flags in zip(columns.positions, columns.flags, strict=True):
                    record = decode(piece, position)
                    is_aborted = any(first <= record.offset < end for first, end in reply.aborted)
                    if flags & Flag.CONTROL or is_aborted:
                        continue
                    headers = {key: value.decode() for key, value in record.headers}
                    name, tick = headers[SCHEDULE_HEADER], headers.get(TICK_HEADER)
                    if tick is None:
                        runs.setdefault(name, {})[number, int(record.offset)] = None
                    else:
                        ticks.setdefault(name, []).append(tick)
            offset = max(offset + 1, reply.upto)

    def settle(self, command: Command) -> object:
        """Ask brokers until one answers with anything but that it may be asked again."""
        reply: object = None
        for turn in range(40):
            machines = [each for each in self.machines if each.node.is_serving]
            if machines:
                machine = machines[turn % len(machines)]
                request = machine.ask(command)
                for _ in range(100):
                    if request in machine.replies or machine.is_over:
                        break
                    self.advance(50 * MILLISECOND)
                reply = machine.replies.pop(request, None)
                is_refused = isinstance(reply, Refused) and reply.code.is_retriable
                if reply is not None and not is_refused:
                    return reply
            self.advance(200 * MILLISECOND)
        return reply
