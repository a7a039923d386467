"""A process with one node: the real node over the real storage, with queues in between.

Carries out effects as the event pump and the disk thread do, but only when told to, so a run
chooses the order of everything: how many submissions share a sync, when a report arrives, how long
a read takes. Knows nothing about clients.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from goqueue.broker import TURN_UNITS, JournalLimits, Node, NodeEvent, Opened, fill
from goqueue.model import (
    LOCAL,
    SECOND,
    Answer,
    Asked,
    BackupEvent,
    BackupJob,
    CallStore,
    CheckSchema,
    Code,
    CompileSchema,
    ConnectPeers,
    DiskEvent,
    Effect,
    Fetch,
    Fetched,
    Find,
    FindBackups,
    Found,
    Halt,
    HoldSegments,
    Instant,
    Left,
    Load,
    Loaded,
    LogId,
    NodeEffect,
    Now,
    Offset,
    Open,
    Refused,
    Report,
    RequestId,
    RunBackupJob,
    Save,
    Send,
    Serve,
    Slice,
    Sweep,
    Synced,
    Woke,
)
from goqueue.model.requests import Reply
from goqueue.schedules import Zones
from goqueue.schemas import SchemaChecker
from goqueue.sim.disk import DiskClock, SimulatedFileSystem
from goqueue.sim.node.swarm import NodeSwarm
from goqueue.sim.node.turns import TurnLimits, check_turn
from goqueue.sim.trace import Trace
from goqueue.sim.truth.schedules import SimulatedZones
from goqueue.storage import BackupJobs, DamageFound, Storage

__all__ = ["Process", "Tell"]

Tell = Callable[[RequestId, Reply | Refused], None]
_Work = Effect | Save | Sweep | HoldSegments
_RESERVE_BYTES = 1000
# So many steps of a job on backups come together.
_JOB_STEPS = 5
_SHORT = JournalLimits(snapshot_bytes=2000, restate_bytes=6000, turn_units=3)


class Process:
    """The running node, and the work and reports in its queues."""

    node: Node
    storage: Storage

    def __init__(
        self,
        files: SimulatedFileSystem,
        random: Random,
        trace: Trace,
        tell: Tell,
        swarm: NodeSwarm,
        *,
        clock: DiskClock,
        turn_units_max: int = TURN_UNITS,
        zones: Zones | None = None,
    ) -> None:
        self._zones = zones or SimulatedZones()
        self._files = files
        self._random = random
        self._trace = trace
        self._tell = tell
        self._swarm = swarm
        self._clock = clock
        self._turn_units_max = turn_units_max
        self._events: deque[NodeEvent] = deque()
        self._late: deque[NodeEvent] = deque()
        self._work: list[_Work] = []
        self._submitted: deque[list[_Work]] = deque()
        self._reports: deque[Sequence[DiskEvent | BackupEvent]] = deque()
        self._opens: deque[Open] = deque()
        self._jobs: deque[Iterator[int | BackupEvent]] = deque()
        self._dead: list[Storage] = []
        self._dead_jobs: list[Iterator[int | BackupEvent]] = []
        self.halted: str | None = None
        # How seldom upkeep may come in the lives that begin from now on, see `Node`.
        self.upkeep_idle_ns = SECOND
        self.life = 0
        self._committed: dict[LogId, Offset] = {}
        # Requests with keys that are not answered: a change of rights looks at each of them.
        self._keyed: dict[RequestId, None] = {}
        # The lowest end that each log was opened with since somebody looked.
        self.ends: dict[LogId, Offset] = {}

    def begin(self, entropy: bytes) -> None:
        """Start the node; everything in memory is lost."""
        for queue in (self._events, self._late, self._submitted, self._reports, self._opens):
            queue.clear()
        self._work.clear()
        self._keyed.clear()
        self._dead_jobs.extend(self._jobs)
        self._jobs.clear()
        self.halted = None
        self.life += 1
        self.storage = Storage(
            self._files, reserve_bytes=self._reserve_bytes, ticks=self._clock.read
        )
        # A dead process does nothing more. If its objects went now, generators would tidy up.
        self._dead.append(self.storage)
        limits = _SHORT if self._swarm.short_journals else None
        # Nobody here knows when an empty group is forgotten: it never is.
        self.node = Node(
            "simulated",
            entropy,
            limits,
            turn_units_max=self._turn_units_max,
            group_retention_ns=None,
            zones=self._zones,
            upkeep_idle_ns=self.upkeep_idle_ns,
            acl_enabled=self._swarm.tenants,
        )
        self._checker = SchemaChecker()
        self._try("find trash", self.storage.find_trash)
        self._carry_out(self.node.start(), None)
        self._finish_turn()

    def stop(self, now: Now) -> None:
        """Stop the node; the caller then settles everything and closes the storage."""
        self._carry_out(self.node.stop(now), now)
        self._finish_turn()

    # What moves next

    @property
    def is_idle(self) -> bool:
        waiting = (self._events, self._late, self._submitted, self._reports, self._opens)
        return not any(waiting) and not self._jobs and not self.storage.has_background_work

    @property
    def deadline(self) -> Instant | None:
        return self.node.next_deadline()

    def is_behind(self, now: Now) -> bool:
        """Whether due work waits for a later turn."""
        deadline = self.deadline
        return deadline is not None and deadline <= now.instant

    def take(self, event: NodeEvent, now: Now) -> None:
        """Pass an event to the node, and carry out the immediate effects."""
        self._events.append(event)
        self._drain(now)

    def wake(self, now: Now) -> None:
        deadline = self.deadline
        if deadline is not None and deadline <= now.instant:
            self.take(Woke(), now)

    def disk_turn(self, submissions: int) -> None:
        """Let the disk thread carry out some queued effects, with one sync."""
        group: list[_Work] = []
        for _ in range(min(submissions, len(self._submitted))):
            group.extend(self._submitted.popleft())
        effects = [work for work in group if not isinstance(work, Save | Sweep | HoldSegments)]
        if effects:
            self._report(self.storage.carry_out(effects))
        self._clock.work()
        self.storage.save_points()
        for work in group:
            if isinstance(work, Sweep):
                topics = work.topics
                self._try("sweep", lambda topics=topics: self.storage.sweep(topics))  # type: ignore[misc]  # bound now
            elif isinstance(work, HoldSegments):
                self._report([self.storage.hold_segments(work)])
        for save in {work.name: work for work in group if isinstance(work, Save)}.values():
            self._try("save", lambda save=save: self.storage.save(save.name, save.data))  # type: ignore[misc]  # bound now

    def background_turn(self) -> None:
        """Let the disk thread do its idle work, and the backup thread a few steps."""
        if self.storage.has_background_work:
            self._report(self.storage.work())
        if self._jobs:
            self._step_job(_JOB_STEPS)

    def _step_job(self, count: int) -> None:
        for step in islice(self._jobs[0], count):
            if not isinstance(step, int):
                self._report([step])
            count -= 1
        if count:
            self._jobs.popleft()

    def report_turn(self, now: Now) -> None:
        """Deliver one report of the disk."""
        if self._reports:
            self._events.extend(self._reports.popleft())
            self._drain(now)

    def open_turn(self, now: Now) -> None:
        """Recover one log."""
        if not self._opens:
            return
        wanted = self._opens.popleft()
        try:
            state = self.storage.open(wanted.log, wanted.settings).state
        except OSError as error:
            self._halt(f"a log cannot be opened: {error}")
            return
        self.ends[wanted.log] = min(state.end, self.ends.get(wanted.log, state.end))
        self.take(Opened(log=wanted.log, state=state), now)

    def late_turn(self, now: Now) -> None:
        """Finish one slow read."""
        if self._late:
            self.take(self._late.popleft(), now)

    def settle(self, now: Now) -> None:
        """Finish everything in flight without advancing the clock."""
        while self.halted is None and (not self.is_idle or self.is_behind(now)):
            self.wake(now)
            self.open_turn(now)
            self.late_turn(now)
            self.disk_turn(len(self._submitted))
            self.background_turn()
            self.report_turn(now)

    # What the pump does

    def _drain(self, now: Now) -> None:
        while self._events and self.halted is None:
            events = list(self._events)
            was_serving = self.node.is_serving
            effects = self.node.handle_some(self._events, now)
            handled = events[: len(events) - len(self._events)]
            self._keyed.update(
                (event.request, None)
                for event in handled
                if isinstance(event, Asked) and event.caller is not LOCAL
            )
            if was_serving:
                # Before that nobody waits.
                named = sum(map(self._count_committed, handled))
                limits = TurnLimits(self._turn_units_max, named, len(self._keyed))
                check_turn(handled, effects, self.node.turn_units, limits)
            for gone in (*handled, *effects):
                if isinstance(gone, Answer | Serve | Left):
                    self._keyed.pop(gone.request, None)
            self._carry_out(effects, now)
        self._finish_turn()

    def _count_committed(self, event: NodeEvent) -> int:
        """How many records an event commits."""
        if not isinstance(event, Synced):
            return 0
        before = self._committed.get(event.log, Offset(0))
        self._committed[event.log] = max(event.upto, before)
        return max(0, event.upto - before)

    def _finish_turn(self) -> None:
        if self._work:
            self._submitted.append(self._work)
            self._work = []

    def _halt(self, reason: str) -> None:
        self._trace.note("halt", reason)
        self.halted = reason

    def _carry_out(self, effects: list[NodeEffect], now: Now | None) -> None:
        for effect in effects:
            match effect:
                case Answer():
                    self._tell(effect.request, effect.reply)
                case Serve():
                    assert now is not None, "a node that starts serves nobody"
                    self._serve(effect, now)
                case Fetch():
                    self._fetch(effect)
                case Find():
                    self._find(effect)
                case Open():
                    self._opens.append(effect)
                case Load() | CheckSchema() | CompileSchema():
                    self._answer(self._outcome(effect))
                case RunBackupJob():
                    self._begin_job(effect.job)
                case Halt():
                    self._halt(effect.reason)
                case Send() | ConnectPeers() | CallStore():
                    raise AssertionError("this node is in no cluster")
                case Report():
                    # For people only.
                    continue
                case _:
                    self._work.append(effect)

    def _outcome(self, effect: Load | CheckSchema | CompileSchema) -> NodeEvent:
        if isinstance(effect, CompileSchema):
            return self._checker.compile(effect)
        if isinstance(effect, CheckSchema):
            return self._checker.check(effect.token, effect.job)
        return Loaded(name=effect.name, data=self.storage.load(effect.name))

    def _begin_job(self, job: BackupJob) -> None:
        jobs = BackupJobs(self._files, reserve_bytes=self._reserve_bytes, ticks=self._clock.read)
        steps = jobs.steps(job)
        if isinstance(job, FindBackups):
            # At each start: without backups it finds nothing at once.
            self._events.extend(step for step in steps if not isinstance(step, int))
        else:
            self._jobs.append(steps)

    @property
    def _reserve_bytes(self) -> int:
        return _RESERVE_BYTES if self._swarm.reserve else 0

    def _answer(self, event: NodeEvent) -> None:
        is_late = self._swarm.slow_reads and self._random.random() < 0.5
        (self._late if is_late else self._events).append(event)

    def _serve(self, effect: Serve, now: Now) -> None:
        reply: Reply | Refused
        try:
            reply = fill(effect, self._read)
        except Refused as refused:
            reply = refused
        self.node.served(effect.request, reply, now)
        self._tell(effect.request, reply)

    def _read(self, wanted: Slice) -> memoryview:
        try:
            return self.storage.read(wanted)
        except DamageFound as found:
            self._events.append(found.event)
            raise Refused(Code.RECORDS_DAMAGED, offset=wanted.offset) from found

    def _fetch(self, effect: Fetch) -> None:
        try:
            data: memoryview | None = self._read(effect.wanted)
        except Refused:
            data = None
        self._answer(Fetched(token=effect.token, data=data))

    def _find(self, effect: Find) -> None:
        offset = None
        try:
            offset = self.storage.time_search.find(effect.seeks)
        except DamageFound as found:
            self._events.append(found.event)
        except Refused as refused:
            self._trace.note("cannot find", str(refused))
        self._answer(Found(token=effect.token, offset=offset))

    def _report(self, events: Sequence[DiskEvent | BackupEvent]) -> None:
        if events:
            self._reports.append(events)

    def _try(self, what: str, step: Callable[[], object]) -> None:
        """Carry out optional work; its failure is ignored."""
        try:
            step()
        except OSError as error:
            self._trace.note(f"could not {what}", str(error))
