"""A process with one log: the real machine and the real storage, with queues between them.

It does on request what the threads of the runtime do at any time, so a run chooses the order of
everything.
"""

from collections import deque
from collections.abc import Sequence

from goqueue.log import Log
from goqueue.model import DiskEvent, Effect, LogId, LogSettings
from goqueue.sim.disk import DiskClock, SimulatedFileSystem
from goqueue.sim.trace import Trace
from goqueue.storage import RecoveryReport, Storage

__all__ = ["Machine"]


class Machine:
    """The log and the storage of a running process, and the work in its queues."""

    log: Log
    storage: Storage

    def __init__(
        self,
        log: LogId,
        files: SimulatedFileSystem,
        settings: LogSettings,
        trace: Trace,
        clock: DiskClock,
    ) -> None:
        self._id = log
        self._files = files
        self._settings = settings
        self._trace = trace
        self._clock = clock
        self._effects: deque[Sequence[Effect]] = deque()
        self._events: deque[DiskEvent] = deque()
        self._dead: list[Storage] = []

    def open(self) -> RecoveryReport:
        """Start the process; everything in memory is lost."""
        self._effects.clear()
        self._events.clear()
        self.storage = Storage(self._files, ticks=self._clock.read)
        # A dead process does nothing more. If its objects went now, generators would tidy up.
        self._dead.append(self.storage)
        opened = self.storage.open(self._id, self._settings)
        self.log = Log(self._id, self._settings, opened.state)
        return opened.report

    @property
    def is_idle(self) -> bool:
        return not (self._effects or self._events or self.storage.has_background_work)

    def submit(self, effects: Sequence[Effect]) -> None:
        if effects:
            self._trace.note("effects", effects)
            self._effects.append(effects)

    def disk_turn(self, groups: int) -> None:
        """Let the disk thread carry out some queued effects."""
        gathered: list[Effect] = []
        for _ in range(min(groups, len(self._effects))):
            gathered.extend(self._effects.popleft())
        if gathered:
            self._events.extend(self.storage.carry_out(gathered))
        self._clock.work()
        self.storage.save_points()

    def work(self) -> None:
        """Let the disk thread do its idle work."""
        if self.storage.has_background_work:
            self._events.extend(self.storage.work())

    def next_event(self) -> DiskEvent | None:
        return self._events.popleft() if self._events else None
