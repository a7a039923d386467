"""A node over real storage over files in memory, without threads and with a clock of its own.

Carries out effects as the event pump does. A test may let the disk be slow for single logs, let
reads be late, or end the process before any piece of work; `restart` is then a new node over what
the files hold.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from goqueue.broker import TURN_UNITS, JournalLimits, Node, NodeEvent, Opened, fill
from goqueue.model import (
    Answer,
    Asked,
    Code,
    Effect,
    Fetch,
    Fetched,
    Find,
    Found,
    Halt,
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
    Save,
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
from goqueue.storage import DamageFound, Storage
from tests.unit.storage.memory_files import MemoryFiles

# A wall clock that starts far from zero, so that a time left out is noticed.
EPOCH_NS = 1_700_000_000_000_000_000
_EVENTS_MAX = 20_000

R = TypeVar("R", bound=Reply)
Work = Effect | Save | Sweep


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
    ) -> None:
        self.files = MemoryFiles() if files is None else files
        self.limits = limits
        self.sampling = sampling
        self.zones = zones
        self.budget_units = budget_units
        self.reserve_bytes = reserve_bytes
        self.now_ns = now_ns
        self.halts: list[str] = []
        # What the operator would read.
        self.reports: list[NodeReport] = []
        self.crash_before: Callable[[Work], bool] | None = None
        self.reads_are_late = False
        # What was read at once and is heard of later: by then the file may be another.
        self.news_of_reads_is_late = False
        # How far the wall clock was put away from the one that only goes forward.
        self.wall_shift_ns = wall_shift_ns
        self.runs_later_turns = True
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
        )
        self._events: deque[NodeEvent] = deque()
        self._work: list[Work] = []
        self._kept: list[Work] = []
        self._late: list[Fetch] = []
        self._late_news: list[NodeEvent] = []
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

    def ask(self, command: Command, expected: type[R]) -> R:
        """The reply to a command that needs no time; raises Refused."""
        return self.reply(self.begin(command), expected)

    def begin(self, command: Command) -> RequestId:
        """Ask, whether or not there is an answer yet."""
        request = RequestId(self._next_request)
        self._next_request += 1
        self._events.append(Asked(request=request, command=command))
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
            or self._continues_at_once()
        ):
            while self._events:
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
        self._rest()

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
        others: list[Save | Sweep] = []
        has_crashed = False
        for each in work:
            if self.crash_before is not None and self.crash_before(each):
                has_crashed = True
                break
            if isinstance(each, Save | Sweep):
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
                    self.fetches += 1
                    if self.reads_are_late:
                        self._late.append(effect)
                    else:
                        self._fetch(effect)
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
                case Write() | Sync() | Reshape() | Save() | Sweep():
                    self._work.append(effect)

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
            offset = self.storage.find(effect.seeks)
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
