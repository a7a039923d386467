"""The backup thread: jobs in order, at a bounded speed, ended between two steps by a stop."""

import queue
import time
from collections.abc import Iterator
from typing import cast

import pytest

from goqueue.model import BackupEvent, BackupJob, BackupRemoved, FindBackups, RemoveBackup
from goqueue.runtime.backup_thread import BackupThread
from goqueue.storage import BackupJobs

_WAIT_S = 30


class _Jobs:
    """Jobs of so many bytes each."""

    def __init__(self, steps: int, size: int) -> None:
        self.steps_done = 0
        self._steps = steps
        self._size = size

    def steps(self, job: BackupJob) -> Iterator[int | BackupEvent]:
        assert isinstance(job, RemoveBackup)
        for _ in range(self._steps):
            self.steps_done += 1
            yield self._size
        yield BackupRemoved(backup=job.backup)


class _BrokenJobs:
    def steps(self, _: BackupJob) -> Iterator[int | BackupEvent]:
        raise ZeroDivisionError("planted")


def _thread(
    jobs: object, heard: "queue.SimpleQueue[object]", bytes_per_second: int = 1 << 40
) -> BackupThread:
    thread = BackupThread(
        cast("BackupJobs", jobs),
        heard.put,
        crashed=heard.put,
        bytes_per_second=bytes_per_second,
    )
    thread.start()
    return thread


def test_jobs_run_in_order() -> None:
    heard: queue.SimpleQueue[object] = queue.SimpleQueue()
    thread = _thread(_Jobs(3, 10), heard)
    for number in range(5):
        thread.submit(RemoveBackup(backup=str(number)))
    found = [heard.get(timeout=_WAIT_S) for _ in range(5)]
    thread.close()
    assert found == [[BackupRemoved(backup=str(number))] for number in range(5)]


def test_a_job_is_no_faster_than_its_bound() -> None:
    heard: queue.SimpleQueue[object] = queue.SimpleQueue()
    thread = _thread(_Jobs(10, 1000), heard, bytes_per_second=20_000)
    began = time.monotonic()
    thread.submit(RemoveBackup(backup="slow"))
    heard.get(timeout=_WAIT_S)
    took_s = time.monotonic() - began
    thread.close()
    # Ten thousand bytes, less what may be ahead by one burst.
    assert took_s >= 0.45


def test_a_stop_ends_a_job_between_two_steps() -> None:
    heard: queue.SimpleQueue[object] = queue.SimpleQueue()
    jobs = _Jobs(1_000_000, 1000)
    thread = _thread(jobs, heard, bytes_per_second=10_000)
    thread.submit(RemoveBackup(backup="long"))
    thread.close()
    assert jobs.steps_done < 1_000_000
    assert heard.empty()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_job_is_told() -> None:
    heard: queue.SimpleQueue[object] = queue.SimpleQueue()
    thread = _thread(_BrokenJobs(), heard)
    thread.submit(FindBackups())
    assert isinstance(heard.get(timeout=_WAIT_S), ZeroDivisionError)
    thread.close()
