"""The disk thread: one per data directory, it does what would make the event loop wait.

Takes effects, hands all that have gathered to storage at once, and posts the events. While one
sync is under way the next batches gather, so the slower the disk, the larger the group that shares
a sync. The queue holds no more than the core has in flight.
"""

import queue
import threading
from collections.abc import Callable, Sequence

from goqueue.model import DiskEvent, Effect, LogId, LogSettings, Offset, Seek, Slice
from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import Opened, Storage

__all__ = ["Disk", "reserve_for"]

_RESERVE_BYTES_MAX = 1024 * 1024 * 1024
_RESERVE_SHARE = 20
_EFFECTS_PER_GROUP_MAX = 4096


def reserve_for(free_bytes: int) -> int:
    """Space that producers may not use up, so that acknowledgements and metadata still fit."""
    return min(_RESERVE_BYTES_MAX, free_bytes // _RESERVE_SHARE)


class Disk:
    """Carries out effects in its own thread; `post` is called there with what happened."""

    def __init__(
        self,
        files: OsFileSystem,
        post: Callable[[list[DiskEvent]], None],
        *,
        reserve_bytes: int = 0,
    ) -> None:
        if not __debug__:
            raise RuntimeError(
                "GoQueue does not run under python -O: its assertions are part of it"
            )
        self._guard = threading.Lock()
        self._storage = Storage(files, reserve_bytes=reserve_bytes, guard=self._guard)
        self._post = post
        self._queue: queue.SimpleQueue[Sequence[Effect] | None] = queue.SimpleQueue()
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="goqueue-disk", daemon=True)

    def open(self, log: LogId, settings: LogSettings) -> Opened:
        """Recover and open a log; the caller's thread waits for it."""
        return self._storage.open(log, settings)

    def start(self) -> None:
        self._thread.start()

    def submit(self, effects: Sequence[Effect]) -> None:
        """Hand effects over; they are carried out in order."""
        if self._crash is not None:
            raise RuntimeError("the disk thread has ended by a bug") from self._crash
        self._queue.put(effects)

    def read(self, wanted: Slice) -> memoryview:
        """Read records, from any thread; raises DamageFound."""
        return self._storage.read(wanted)

    def find(self, seeks: Sequence[Seek]) -> Offset | None:
        """Find an offset by time, from any thread; raises DamageFound."""
        return self._storage.find(seeks)

    @property
    def crash(self) -> BaseException | None:
        """What ended the thread, if it ended by itself: a bug, and nothing more will be done."""
        return self._crash

    def close(self) -> None:
        """Carry out what was submitted, then stop cleanly."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()
        if self._crash is not None:
            raise RuntimeError("the disk thread has ended by a bug") from self._crash
        self._storage.close()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as crash:
            self._crash = crash
            raise

    def _turn(self) -> bool:
        """One group of effects, then one step of background work; False when told to stop."""
        group: list[Effect] = []
        is_running = True
        try:
            effects = self._queue.get(block=not self._storage.has_background_work)
            while effects is not None:
                group.extend(effects)
                if len(group) >= _EFFECTS_PER_GROUP_MAX:
                    break
                effects = self._queue.get_nowait()
            is_running = effects is not None
        except queue.Empty:
            pass
        if group:
            self._report(self._storage.carry_out(group))
        if self._storage.has_background_work:
            self._report(self._storage.work())
        return is_running

    def _report(self, events: list[DiskEvent]) -> None:
        if events:
            self._post(events)
