"""The disk thread: one per data directory; executes everything that would block the event loop.

Passes all queued effects to storage at once and posts the resulting events. While a sync is running
the next batches collect, so the slower the disk, the larger the group that shares a sync. The queue
holds no more than the core has in flight.

Recovery points are written when the events of a group were posted, so nobody waits for them; an
idle thread wakes up for those that become due.

Snapshots, deletions and all other work that may wait for the disk use the same queue. Results that
no caller waits for are not posted: `log` tells the operator of a snapshot that could not be saved,
of logs that were moved away, and of a group of writes that took longer than `slow_ns`.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from goqueue.metrics import Family
from goqueue.model import (
    SECOND,
    BackupEvent,
    DiskEvent,
    Effect,
    HoldSegments,
    LogId,
    LogSettings,
    Offset,
    Save,
    Seek,
    Slice,
    Sweep,
    is_internal,
)
from goqueue.runtime.event_log import EventLog, silent_log
from goqueue.storage import FileSystem, Opened, RebuildNeeded, RecoveryReport, Storage

__all__ = ["Disk", "Work", "reserve_for"]

_RESERVE_SHARE = 20
_EFFECTS_PER_GROUP_MAX = 4096

Work = Effect | Save | Sweep | HoldSegments
# Snapshots that are saved together: how large each may be, and how many are worth it.
_SMALL_BYTES_MAX = 64 * 1024
_TOGETHER_MIN = 4


def reserve_for(wanted: int, disk_bytes: int) -> int:
    """The journal reserve for a disk of this size; a small disk reserves less than configured."""
    return min(wanted, disk_bytes // _RESERVE_SHARE)


def _tell_nobody(_: object) -> None:
    """For a shell without a log."""


class Disk:
    """Executes effects in its own thread; `post` is called there with the events.

    `crashed` is called there when a bug ends the thread: nothing more is executed. `opened` hears
    what recovery found in a log, in the thread that opens it.
    """

    def __init__(
        self,
        files: FileSystem,
        post: Callable[[Sequence[DiskEvent | BackupEvent]], None],
        *,
        log: EventLog | None = None,
        opened: Callable[[LogId, RecoveryReport], None] | None = None,
        crashed: Callable[[BaseException], None] = _tell_nobody,
        slow_ns: int | None = None,
        reserve_bytes: int = 0,
        open_actives_max: int = 512,
    ) -> None:
        if not __debug__:
            raise RuntimeError(
                "GoQueue does not run under python -O: its assertions are part of it"
            )
        self._storage = Storage(
            files,
            reserve_bytes=reserve_bytes,
            open_actives_max=open_actives_max,
            guard=threading.RLock(),
            ticks=time.monotonic_ns,
        )
        self._post = post
        self._log = silent_log() if log is None else log
        self._opened = opened
        self._slow_ns = slow_ns
        self._crashed = crashed
        self._snapshots_lost = 0
        # Each is written by one thread: the submitter, and the disk thread.
        self._submitted = 0
        self._done = 0
        self._queue: queue.SimpleQueue[Sequence[Work] | None] = queue.SimpleQueue()
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="goqueue-disk", daemon=True)

    def open(self, log: LogId, settings: LogSettings) -> Opened:
        """Recover and open a log, from any thread and at any time; the caller waits for it."""
        opened = self._storage.open(log, settings)
        if self._opened is not None:
            self._opened(log, opened.report)
        return opened

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Sequence[Work]) -> None:
        """Queue work: effects in order, snapshots after the effects before them."""
        if self._crash is not None:
            raise RuntimeError("the disk thread has ended by a bug") from self._crash
        self._submitted += len(work)
        self._queue.put(work)

    def read(self, wanted: Slice, *, may_scan: bool = True) -> memoryview:
        """Read records, from any thread; raises DamageFound; RebuildNeeded unless it may scan."""
        return self._storage.read(wanted, may_scan=may_scan)

    def rebuild_index(self, needed: RebuildNeeded) -> None:
        """Scan a segment for its index, from any thread."""
        self._storage.reader.rebuild(needed)

    def read_in_background(self, wanted: Slice) -> memoryview:
        """Read records, from a thread for which the event loop must not wait; raises likewise."""
        return self._storage.background.read(wanted)

    def find(self, seeks: Sequence[Seek], *, may_scan: bool = True) -> Offset | None:
        """Find an offset by time, from any thread; raises ScanNeeded unless it may scan."""
        return self._storage.time_search.find(seeks, may_scan=may_scan)

    def load(self, name: str) -> bytes | None:
        """Load a snapshot, from any thread; None if there is no readable one."""
        return self._storage.load(name)

    @property
    def queue_length(self) -> int:
        """The number of queued items."""
        return self._submitted - self._done

    def metrics(self) -> Iterator[Family]:
        """The metric families of storage; callable from any thread."""
        return self._storage.metrics()

    @property
    def snapshots_lost(self) -> int:
        """The number of snapshots that could not be saved; they only slow down the next start."""
        return self._snapshots_lost

    @property
    def crash(self) -> BaseException | None:
        """The bug that ended the thread, if any: nothing more is executed."""
        return self._crash

    def close(self) -> None:
        """Execute what was submitted, then stop cleanly."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()
        if self._crash is not None:
            raise RuntimeError("the disk thread has ended by a bug") from self._crash
        self._storage.close()

    def _run(self) -> None:
        try:
            self._try("remove deleted logs", self._storage.find_trash)
            if not self._storage.restore_reserve():
                self._log("journal_reserve_missing")
            while self._turn():
                pass
        except BaseException as crash:
            self._crash = crash
            self._crashed(crash)
            raise

    def _turn(self) -> bool:
        """One group of work, then one step of background work; False to stop."""
        group: list[Work] = []
        is_running = True
        try:
            work = self._queue.get(timeout=self._patience_s())
            while work is not None:
                group.extend(work)
                if len(group) >= _EFFECTS_PER_GROUP_MAX:
                    break
                work = self._queue.get_nowait()
            is_running = work is not None
        except queue.Empty:
            pass
        if group:
            self._carry_out(group)
            self._done += len(group)
        self._storage.save_points()
        if self._storage.has_background_work:
            self._report(self._storage.work())
        return is_running

    def _patience_s(self) -> float | None:
        """How long to wait for work; None without an end."""
        if self._storage.has_background_work:
            return 0.0
        point_at = self._storage.next_point_at
        return None if point_at is None else max(0, point_at - time.monotonic_ns()) / SECOND

    def _carry_out(self, group: list[Work]) -> None:
        effects: list[Effect] = []
        # Of several snapshots of one name only the newest is saved.
        saves: dict[str, Save] = {}
        holds: list[HoldSegments] = []
        for work in group:
            match work:
                case Save():
                    saves[work.name] = work
                case Sweep():
                    # Before what the node may do once it serves: a restore is its own then.
                    self._sweep(work)
                case HoldSegments():
                    holds.append(work)
                case _:
                    effects.append(work)
        if effects:
            began = time.monotonic_ns()
            self._report(self._storage.carry_out(effects))
            took_ns = time.monotonic_ns() - began
            if self._slow_ns is not None and took_ns >= self._slow_ns:
                logs = len({effect.log for effect in effects})
                self._log("disk_slow", took_s=round(took_ns / SECOND, 3), logs=logs)
        for hold in holds:
            self._report([self._storage.hold_segments(hold)])
        self._save_together(saves)
        for save in saves.values():
            self._save(save)

    def _save_together(self, saves: dict[str, Save]) -> None:
        """Save small snapshots of many partitions, as of a node that stops; leave the others.

        Each by itself takes two syncs of the disk.
        """
        small = {
            save.name: bytes(save.data)
            for save in saves.values()
            if isinstance(save.data, bytes)
            and len(save.data) <= _SMALL_BYTES_MAX
            and not is_internal(save.name)
        }
        if len(small) < _TOGETHER_MIN:
            return
        left: list[str] = list(small)

        def save_all() -> None:
            left[:] = self._storage.save_together(small)

        self._try("save snapshots together", save_all)
        for name in small.keys() - left:
            del saves[name]

    def _save(self, save: Save) -> None:
        is_saved = self._try(
            f"save the snapshot {save.name}", lambda: self._storage.save(save.name, save.data)
        )
        self._snapshots_lost += not is_saved

    def _sweep(self, sweep: Sweep) -> None:
        def move() -> None:
            for moved in self._storage.sweep(sweep.topics):
                self._log("log_unclaimed", moved_from=moved.old, moved_to=moved.new)

        self._try("move unclaimed logs", move)

    def _try(self, what: str, step: Callable[[], object]) -> bool:
        """Execute a step that nothing depends on; whether it succeeded."""
        try:
            step()
        except OSError as error:
            self._log("background_step_failed", step=what, reason=str(error))
            return False
        return True

    def _report(self, events: Sequence[DiskEvent | BackupEvent]) -> None:
        if events:
            self._post(events)
