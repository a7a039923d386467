"""One log of one data directory, driven from the calling thread.

The smallest shell around the core, for benchmarks, demos and tools that need a log and no broker.
It uses the same log, disk thread and recovery as the broker.
"""

import queue
import time
from collections.abc import Sequence
from contextlib import suppress

from goqueue.log import Appended, Log
from goqueue.model import BackupEvent, DiskEvent, LogId, LogSettings, Offset, Timestamp
from goqueue.runtime.clock import read_clock
from goqueue.runtime.data_directory import DataDirectory
from goqueue.runtime.disk import Disk
from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import DamageFound, RecoveryReport

__all__ = ["LocalLog"]

_LOOK_AGAIN_S = 0.5


class LocalLog:
    """An open log. Use as a context manager: leaving it is a clean stop."""

    def __init__(
        self, root: str, log: LogId, settings: LogSettings | None = None, *, reserve_bytes: int = 0
    ) -> None:
        settings = settings or LogSettings()
        self._events: queue.SimpleQueue[Sequence[DiskEvent | BackupEvent]] = queue.SimpleQueue()
        self._directory = DataDirectory(root)
        self._disk = Disk(OsFileSystem(root), self._events.put, reserve_bytes=reserve_bytes)
        try:
            opened = self._disk.open(log, settings)
        except BaseException:
            self._directory.close()
            raise
        self._log = Log(log, settings, opened.state)
        self._report = opened.report
        self._disk.start()

    def __enter__(self) -> "LocalLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log(self) -> Log:
        """The log: offsets, segments, damage."""
        return self._log

    @property
    def report(self) -> RecoveryReport:
        """What opening the log found and did."""
        return self._report

    def append(self, batch: bytearray) -> Appended:
        """Append a verified batch; `wait_for_commit` says when it is committed."""
        appended = self._log.append(batch, read_clock())
        self._disk.submit(appended.effects)
        return appended

    def wait_for_commit(self, upto: Offset, timeout_s: float = 30.0) -> Offset:
        """Wait until everything below `upto` is committed or cannot be; the high watermark.

        It is less than `upto` if the disk is full or has failed: then the appended records are
        gone, and the next append gets the same offsets. Raises TimeoutError.
        """
        give_up_at = time.monotonic() + timeout_s
        while self._log.high_watermark < upto <= self._log.end and self._log.failure is None:
            left_s = give_up_at - time.monotonic()
            if left_s <= 0 or self._disk.crash is not None:
                raise TimeoutError(f"no commit of {upto}") from self._disk.crash
            with suppress(queue.Empty):
                self._take(self._events.get(timeout=min(left_s, _LOOK_AGAIN_S)))
        return self._log.high_watermark

    def tick(self) -> None:
        """Run what is due: flush, retention, compaction."""
        now = read_clock()
        effects = [*self._log.expire(now), *self._log.maintain(now)]
        if effects:
            self._disk.submit(effects)
        while True:
            try:
                self._take(self._events.get_nowait())
            except queue.Empty:
                return

    def read(self, offset: Offset, bytes_max: int = 1024 * 1024) -> memoryview | None:
        """Committed records from `offset` on; None at the end."""
        wanted = self._log.read(offset, bytes_max)
        if wanted is None:
            return None
        try:
            return self._disk.read(wanted) or None
        except DamageFound as found:
            self._take([found.event])
            # The next read is refused with the details.
            self._log.read(offset, bytes_max)
            raise

    def seek(self, timestamp: Timestamp) -> Offset:
        """The first committed offset at or after `timestamp`, or the end.

        Damaged records are skipped.
        """
        found = self._disk.find(self._log.seek(timestamp))
        return self._log.high_watermark if found is None else found

    def close(self) -> None:
        """Stop cleanly; the lock is released in any case."""
        try:
            self._disk.close()
        finally:
            self._directory.close()

    def _take(self, events: Sequence[DiskEvent | BackupEvent]) -> None:
        for event in events:
            if isinstance(event, BackupEvent):
                # Nobody takes a backup of a single log.
                continue
            effects = self._log.handle(event, read_clock())
            if effects:
                self._disk.submit(effects)
