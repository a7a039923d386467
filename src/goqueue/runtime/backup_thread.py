"""The backup thread: runs the jobs on backups, one after the other, at a bounded speed.

A thread of its own, so that neither the event loop nor a write of a log waits while gigabytes are
read and summed: reading, hashing and syncing release the interpreter lock. The speed is bounded so
that the disk stays free for the logs.

A stop ends a job between two steps. What it wrote has no name that counts, and the next start
removes it.
"""

import queue
import threading
import time
from collections.abc import Callable

from goqueue.model import (
    SECOND,
    BackupEvent,
    BackupJob,
    BackupProgressed,
    WriteBackup,
)
from goqueue.storage import BackupJobs

__all__ = ["BYTES_PER_SECOND", "BackupThread"]

BYTES_PER_SECOND = 100 * 1024 * 1024
# How much may be done at once before the speed is looked at: so that a sleep is worth its switch.
_BURST_NS = 20_000_000
_PROGRESS_NS = 250_000_000


class BackupThread:
    """Runs jobs in its own thread; `post` is called there with the events."""

    def __init__(
        self,
        jobs: BackupJobs,
        post: Callable[[list[BackupEvent]], None],
        *,
        crashed: Callable[[BaseException], None],
        bytes_per_second: int = BYTES_PER_SECOND,
    ) -> None:
        self._jobs = jobs
        self._post = post
        self._crashed = crashed
        self._bytes_per_second = bytes_per_second
        self._queue: queue.SimpleQueue[BackupJob | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="goqueue-backup", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: BackupJob) -> None:
        """Queue a job behind the others."""
        self._queue.put(job)

    def close(self) -> None:
        """End the running job, wherever it is, and start no other."""
        self._stopped.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while (job := self._queue.get()) is not None and not self._stopped.is_set():
                self._run_job(job)
        except BaseException as crash:
            self._crashed(crash)
            raise

    def _run_job(self, job: BackupJob) -> None:
        backup = _backup_of(job)
        began = told = time.monotonic_ns()
        done = 0
        for step in self._jobs.steps(job):
            if self._stopped.is_set():
                return
            if not isinstance(step, int):
                self._post([step])
                continue
            done += step
            now = time.monotonic_ns()
            if backup is not None and now - told >= _PROGRESS_NS:
                told = now
                self._post([BackupProgressed(backup=backup, bytes=done)])
            ahead_ns = done * SECOND // self._bytes_per_second - (now - began)
            if ahead_ns > _BURST_NS:
                self._stopped.wait(ahead_ns / SECOND)


def _backup_of(job: BackupJob) -> str | None:
    """The backup whose progress somebody may ask for."""
    return job.summary.id if isinstance(job, WriteBackup) else None
