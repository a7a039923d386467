"""A node over real storage over files in memory, without threads and with a clock of its own.

Carries out effects as the event pump does. A test may let the disk be slow for single logs, let
reads be late, or end the process before any piece of work; `restart` is then a new node over what
the files hold.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from goqueue.broker import TURN_UNITS, AuditConfig, JournalLimits, Node, NodeEvent, Opened, fill
from goqueue.model import (
    LOCAL,
    Answer,
    Asked,
    BackupEvent,
    BackupJob,
    Caller,
    CallStore,
    CheckSchema,
    Code,
    CompileSchema,
    ConnectPeers,
    Effect,
    Fetch,
    Fetched,
    Find,
    Found,
    Halt,
    HoldSegments,
    Instant,
    Left,
    Load,
    Loaded,
    LogId,
    NodeEffect,
    NodeReport,
    Now,
    Offset,
    Open,
    Refused,
    Report,
    RequestId,
    Reshape,
    RunBackupJob,
    Save,
    Send,
    Serve,
    Slice,
    Sweep,
    Sync,
    Timestamp,
    Woke,
    Write,
)
from goqueue.model.requests import Command, Reply
from goqueue.schedules import Zones
from goqueue.schemas import SchemaChecker
from goqueue.storage import BackupJobs, DamageFound, Storage
from tests.unit.storage.memory_files import MemoryFiles

# A wall clock that starts far from zero, so that a time left out is noticed.
EPOCH_NS = 1_700_000_000_000_000_000
_EVENTS_MAX = 20_000

R = TypeVar("R", bound=Reply)
Work = Effect | Save | Sweep | HoldSegments


class Crashed(Exception):
    """The process ended before a piece of work, as the test had asked."""


class DrivenNode:
    """One node and all that it needs; every question is carried to its end before it returns."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        limits: JournalLimits | None = None,
        now_ns: int = 0,
        reserve_bytes: int = 0,
        wall_shift_ns: int = 0,
        sampling: float = 1.0,
        budget_units: int = TURN_UNITS,
        zones: Zones | None = None,
        audit: AuditConfig | None = None,
        *,
        acl_enabled: bool = False,
    ) -> None:
        self.acl_enabled = acl_enabled
        self.files = MemoryFiles() if files is None else files
        self.limits = limits
        self.sampling = sampling
        self.zones = zones
        self.audit = AuditConfig() if audit is None else audit
        self.budget_units = budget_units
        self.reserve_bytes = reserve_bytes
        self.now_ns = now_ns
        self.halts: list[str] = []
        # What the operator would read.
        self.reports: list[NodeReport] = []
        # What the node asked of the network.
        self.sent: list[ConnectPeers | Send] = []
        self.crash_before: Callable[[Work], bool] | None = None
        # Whether events that come together are handled in one turn, as the pump does.
        self.shares_turns = False
        self.reads_are_late = False
        # What was read at once and is heard of later: by then the file may be another.
        self.news_of_reads_is_late = False
        # How far the wall clock was put away from the one that only goes forward.
        self.wall_shift_ns = wall_shift_ns
        self.runs_later_turns = True
        self.runs_jobs = True
        # Where requests to hold segments are kept, instead of being carried out.
        self.hold_back: list[HoldSegments] | None = None
        # How many reads the node asked for, and how many slices were read, for it or for answers.
        self.fetches = 0
        self.reads = 0
        # The most that one turn did since somebody set it to zero.
        self.turn_units_max = 0
        self.turn_units_sum = 0
        self._slow: dict[LogId, None] = {}
        self._answers: dict[RequestId, Reply | Refused] = {}
        self._next_request = 1
        # How long the disk was idle while no time passed for the node.
        self._idle_ns = 0
        self._start()

    def _start(self) -> None:
        self.storage = Storage(
            self.files, reserve_bytes=self.reserve_bytes, ticks=lambda: self.now_ns + self._idle_ns
        )
        self.node = Node(
            "node-1",
            bytes(range(32)),
            self.limits,
            sampling=self.sampling,
            turn_units_max=self.budget_units,
            zones=self.zones,
            audit=self.audit,
            acl_enabled=self.acl_enabled,
        )
        self._checker = SchemaChecker()
        self._held_checks: list[CheckSchema | CompileSchema] | None = None
        self._events: deque[NodeEvent] = deque()
        self._work: list[Work] = []
        self._kept: list[Work] = []
        self._late: list[Fetch] = []
        self._late_news: list[NodeEvent] = []
        self._jobs: deque[Iterator[int | BackupEvent]] = deque()
        self._carry_out(self.node.start())
        self._run()

    # The clock

    @property
    def now(self) -> Now:
        return Now(Instant(self.now_ns), Timestamp(EPOCH_NS + self.now_ns + self.wall_shift_ns))

    def advance(self, nanoseconds: int) -> None:
        """Let time pass, waking the node at each of its deadlines."""
        until = self.now_ns + nanoseconds
        while True:
            deadline = self.node.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now_ns = max(self.now_ns, int(deadline))
            self._events.append(Woke())
            self._run()
        self.now_ns = until

    def run_later_turn(self) -> None:
        """Let the node do, once, what it left to a later turn, without any time passing."""
        self._events.append(Woke())
        self._run()

    # Questions

    def ask(self, command: Command, expected: type[R], caller: Caller = LOCAL) -> R:
        """The reply to a command that needs no time; raises Refused."""
        return self.reply(self.begin(command, caller), expected)

    def begin(self, command: Command, caller: Caller = LOCAL) -> RequestId:
        """Ask, whether or not there is an answer yet."""
        request = RequestId(self._next_request)
        self._next_request += 1
        self._events.append(Asked(request=request, command=command, caller=caller))
        self._run()
        return request

    def is_answered(self, request: RequestId) -> bool:
        return request in self._answers

    def reply(self, request: RequestId, expected: type[R]) -> R:
        """What a question was answered; raises Refused."""
        assert request in self._answers, "it is not answered"
        reply = self._answers[request]
        if isinstance(reply, Refused):
            raise reply
        assert isinstance(reply, expected), f"{reply} is no {expected}"
        return reply

    def leave(self, request: RequestId) -> None:
        """The caller goes away."""
        self._events.append(Left(request=request))
        self._run()

    # Lives

    def restart(
        self,
        *,
        without_snapshots: bool = False,
        crash_before: Callable[[Work], bool] | None = None,
    ) -> None:
        """A crash: a new node over what the files hold. Sessions and leases are gone."""
        self.files = self._copied(without_snapshots)
        self.crash_before = crash_before
        self.reads_are_late = False
        self.news_of_reads_is_late = False
        self._slow = {}
        self._start()

    def twin(self, *, without_snapshots: bool = False) -> "DrivenNode":
        """Another node over a copy of the files: what this one would be after a crash."""
        files = self._copied(without_snapshots)
        return DrivenNode(files, self.limits, self.now_ns, wall_shift_ns=self.wall_shift_ns)

    def _copied(self, without_snapshots: bool) -> MemoryFiles:
        content = self.files.copy()
        if without_snapshots:
            content = {path: data for path, data in content.items() if "snapshot" not in path}
        return MemoryFiles(content)

    def stop(self) -> None:
        """The node stops as it should, with all that waits for the disk."""
        self._carry_out(self.node.stop(self.now))
        self._run()
        assert self.node.is_quiet

    # The world

    def slow_down(self, *logs: LogId) -> None:
        """Nothing that concerns these logs is carried out before `speed_up`."""
        self._slow.update(dict.fromkeys(logs))

    def speed_up(self) -> None:
        self._slow = {}
        self._work, self._kept = [*self._kept, *self._work], []
        self._run()

    def let_pass(self, log: LogId, syncs: int) -> None:
        """So many syncs of a slow log are carried out, with what is before them; it stays slow."""
        kept, self._kept = self._kept, []
        for each in kept:
            is_meant = isinstance(each, Write | Sync | Reshape) and each.log == log and syncs > 0
            (self._work if is_meant else self._kept).append(each)
            syncs -= is_meant and isinstance(each, Sync)
        slow, self._slow = self._slow, {}
        self._run()
        self._slow = slow

    def finish_reads(self) -> None:
        """Late reads arrive."""
        self.reads_are_late = False
        late, self._late = self._late, []
        for fetch in late:
            self._fetch(fetch)
        self._run()

    @property
    def late_reads(self) -> tuple[Fetch, ...]:
        """What is still to be read."""
        return tuple(self._late)

    def hear_of_reads(self) -> None:
        """The news of earlier reads arrives."""
        self.news_of_reads_is_late = False
        self._events.extend(self._late_news)
        self._late_news = []
        self._run()

    def take(self, event: NodeEvent) -> None:
        """Something happens to the node that the files would not do by themselves."""
        self._events.append(event)
        self._run()

    def _run(self) -> None:
        """Until nothing more follows."""
        handled = 0
        while (
            self._events
            or self._work
            or self.storage.has_background_work
            or (self._jobs and self.runs_jobs)
            or self._continues_at_once()
        ):
            while self._events:
                if self.shares_turns:
                    self._carry_out(self.node.handle_some(self._events, self.now))
                else:
                    self._carry_out(self.node.handle(self._events.popleft(), self.now))
                self.turn_units_max = max(self.turn_units_max, self.node.turn_units)
                self.turn_units_sum += self.node.turn_units
                handled += 1
                assert handled < _EVENTS_MAX, "the node does not come to rest"
            if self._work:
                work, self._work = self._work, []
                self._do(work)
            elif self.storage.has_background_work:
                self._events.extend(self.storage.work())
            elif self._jobs and self.runs_jobs:
                self.step_job()
        self._rest()

    def step_job(self) -> None:
        """One step of what the backup thread does."""
        step = next(self._jobs[0], None)
        if step is None:
            self._jobs.popleft()
        elif not isinstance(step, int):
            self._events.append(step)

    def _rest(self) -> None:
        """The disk is idle for so long that it writes its recovery points."""
        while (point_at := self.storage.next_point_at) is not None:
            self._idle_ns = max(self._idle_ns, point_at - self.now_ns)
            self.storage.save_points()

    def _continues_at_once(self) -> bool:
        """Work that was left to a later turn continues without any time passing."""
        deadline = self.node.next_deadline() if self.runs_later_turns else None
        continues = deadline is not None and deadline <= self.now_ns
        if continues:
            self._events.append(Woke())
        return continues

    def _do(self, work: Sequence[Work]) -> None:
        effects: list[Effect] = []
        others: list[Save | Sweep | HoldSegments] = []
        has_crashed = False
        for each in work:
            if self.crash_before is not None and self.crash_before(each):
                has_crashed = True
                break
            if isinstance(each, Save | Sweep | HoldSegments):
                others.append(each)
            elif each.log in self._slow:
                self._kept.append(each)
            else:
                effects.append(each)
        events = self.storage.carry_out(effects)
        if has_crashed:
            raise Crashed
        self._events.extend(events)
        for other in others:
            if isinstance(other, Save):
                # A snapshot that cannot be saved loses nothing but time.
                with suppress(OSError):
                    self.storage.save(other.name, other.data)
            elif isinstance(other, HoldSegments) and self.hold_back is not None:
                self.hold_back.append(other)
            elif isinstance(other, HoldSegments):
                self._events.append(self.storage.hold_segments(other))
            else:
                self.storage.sweep(other.topics)

    def _carry_out(self, effects: Sequence[NodeEffect]) -> None:
        for effect in effects:
            match effect:
                case Answer():
                    self._answer(effect.request, effect.reply)
                case Serve():
                    self._serve(effect)
                case Fetch():
                    self._fetch_now_or_later(effect)
                case Find():
                    self._find(effect)
                case Open():
                    opened = self.storage.open(effect.log, effect.settings)
                    self._events.append(Opened(log=effect.log, state=opened.state))
                case Load():
                    data = self.storage.load(effect.name)
                    self._events.append(Loaded(name=effect.name, data=data))
                case Halt():
                    self.halts.append(effect.reason)
                case Report():
                    self.reports.append(effect.report)
                case RunBackupJob():
                    self._begin_job(effect.job)
                case CheckSchema() | CompileSchema():
                    self._check(effect)
                case _:
                    assert not isinstance(effect, CallStore), "no store is driven here"
                    self._pass_on(effect)

    def _check(self, effect: CheckSchema | CompileSchema) -> None:
        if self._held_checks is not None:
            self._held_checks.append(effect)
        elif isinstance(effect, CompileSchema):
            self._events.append(self._checker.compile(effect))
        else:
            self._events.append(self._checker.check(effect.token, effect.job))

    def hold_checks(self) -> list[CheckSchema | CompileSchema]:
        """Keep what is done with schemas in this list, until `release_checks`."""
        held: list[CheckSchema | CompileSchema] = []
        self._held_checks = held
        return held

    def release_checks(self) -> None:
        held, self._held_checks = self._held_checks or [], None
        for effect in held:
            self._check(effect)
        self._run()

    def _pass_on(self, effect: Effect | Save | Sweep | HoldSegments | ConnectPeers | Send) -> None:
        if isinstance(effect, ConnectPeers | Send):
            self.sent.append(effect)
        else:
            self._work.append(effect)

    def _begin_job(self, job: BackupJob) -> None:
        jobs = BackupJobs(
            self.files,
            version="1.2.3",
            reserve_bytes=self.reserve_bytes,
            ticks=lambda: self.now_ns,
        )
        self._jobs.append(jobs.steps(job))

    def _answer(self, request: RequestId, reply: Reply | Refused) -> None:
        assert request not in self._answers, f"answered twice: {reply}"
        self._answers[request] = reply

    def _serve(self, effect: Serve) -> None:
        reply: Reply | Refused
        try:
            reply = fill(effect, self._read)
        except Refused as refused:
            reply = refused
        self.node.served(effect.request, reply, self.now)
        self._answer(effect.request, reply)

    def _read(self, wanted: Slice) -> memoryview:
        self.reads += 1
        try:
            return self.storage.read(wanted)
        except DamageFound as found:
            self._events.append(found.event)
            raise Refused(Code.RECORDS_DAMAGED, offset=wanted.offset) from found

    def _fetch_now_or_later(self, effect: Fetch) -> None:
        self.fetches += 1
        if self.reads_are_late:
            self._late.append(effect)
        else:
            self._fetch(effect)

    def _fetch(self, effect: Fetch) -> None:
        try:
            data: memoryview | None = self._read(effect.wanted)
        except Refused:
            data = None
        fetched = Fetched(token=effect.token, data=data)
        (self._late_news if self.news_of_reads_is_late else self._events).append(fetched)

    def _find(self, effect: Find) -> None:
        offset: Offset | None = None
        try:
            offset = self.storage.time_search.find(effect.seeks)
        except DamageFound as found:
            self._events.append(found.event)
        self._events.append(Found(token=effect.token, offset=offset))


def cut_off(number: int) -> Callable[[Work], bool]:
    """True for the piece of work with this number."""
    left = [number]

    def is_it(_: Work) -> bool:
        left[0] -= 1
        return left[0] < 0

    return is_it
