"""The progress of a pipeline as it is kept beside its checkpoint, for whoever asks later.

Owns the file `goqueue/progress.json` in the checkpoint: written whole under another name and then
renamed, so a reader never sees half of it. It is for people: nothing is decided by it.

Invariant: batches are counted once, whoever reports them and how often; a checkpoint has one
journal at a time, which holds a lock on `goqueue/lock` as long as its process lives.
"""

import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from goqueue.pipelines.progress.batch import BatchProgress

__all__ = ["CheckpointBusy", "Journal", "Totals", "folder_of", "is_held", "read_totals"]

_FOLDER = "goqueue"
_FILE = "progress.json"
_LOCK = "lock"

Listener = Callable[[BatchProgress], None]


class CheckpointBusy(RuntimeError):
    """Another process runs on this checkpoint."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """All batches of a checkpoint so far, and the last of them."""

    pipeline: str
    pid: int
    started_at: str
    ended_at: str | None = None
    error: str | None = None
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead_letters: int = 0
    violations: dict[str, int] = {}
    last: BatchProgress | None = None


_TOTALS = msgspec.json.Decoder(Totals)


def folder_of(checkpoint: Path) -> Path:
    """Where this package keeps its own files in a checkpoint; Spark looks past it."""
    return checkpoint / _FOLDER


def read_totals(checkpoint: Path) -> Totals | None:
    """What was kept last; None if nothing was, or nothing that can be read."""
    try:
        return _TOTALS.decode((folder_of(checkpoint) / _FILE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def is_held(checkpoint: Path) -> bool:
    """Whether a process of this machine runs on the checkpoint."""
    try:
        lock = os.open(folder_of(checkpoint) / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


class Journal:
    """Takes reports of batches, keeps the totals, and tells listeners of each batch once.

    Reports come from threads of Spark and from the one that runs the query.
    """

    def __init__(self, pipeline: str, checkpoint: Path | None, started_at: str) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._path = None if checkpoint is None else folder_of(checkpoint) / _FILE
        self._lock_file: int | None = None
        self._totals = Totals(pipeline=pipeline, pid=os.getpid(), started_at=started_at)

    @property
    def totals(self) -> Totals:
        return self._totals

    def tell(self, listener: Listener) -> None:
        """Call this with every batch from now on."""
        self._listeners.append(listener)

    def take(self, progress: BatchProgress) -> bool:
        """Whether the batch was new."""
        with self._lock:
            last = self._totals.last
            is_same = last is not None and last.query_id == progress.query_id
            if last is not None and is_same and progress.batch <= last.batch:
                return False
            self._totals = _added(self._totals, progress)
            self._write()
        for listener in self._listeners:
            listener(progress)
        return True

    def begin(self) -> None:
        """Say that the pipeline runs, and go on with what was counted before."""
        if self._path is not None:
            self._hold(self._path.parent)
            before = read_totals(self._path.parent.parent)
            if before is not None:
                self._totals = msgspec.structs.replace(
                    before,
                    pid=self._totals.pid,
                    started_at=self._totals.started_at,
                    ended_at=None,
                    error=None,
                )
        with self._lock:
            self._write()

    def end(self, ended_at: str, error: str | None) -> None:
        """Say that the pipeline no longer runs, and why if it failed."""
        with self._lock:
            self._totals = msgspec.structs.replace(self._totals, ended_at=ended_at, error=error)
            self._write()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    def _hold(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            before = read_totals(folder.parent)
            who = "" if before is None else f" (process {before.pid})"
            words = f"another process{who} runs on the checkpoint {folder.parent}"
            raise CheckpointBusy(words) from None
        self._lock_file = lock

    def _write(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(self._totals))
        unfinished.replace(self._path)


def _added(totals: Totals, progress: BatchProgress) -> Totals:
    counted = Counter(totals.violations)
    counted.update({each.expectation: each.count for each in progress.violations})
    return msgspec.structs.replace(
        totals,
        batches=totals.batches + 1,
        rows_in=totals.rows_in + progress.rows_in,
        rows_out=totals.rows_out + (progress.rows_out or 0),
        dead_letters=totals.dead_letters + progress.dead_letters,
        violations=dict(counted),
        last=progress,
    )
