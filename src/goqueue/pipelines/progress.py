"""Progress of a pipeline: what a batch did, the journal beside the checkpoint, and the status.

`batch_progress` reads what Spark reports about one micro-batch. Owns the names under which a plan
counts: `goqueue.out` for the rows of the result and the aggregates of `observe`,
`goqueue.in:<view>` and `goqueue.letters:<view>` for a source with dead letters, `goqueue:<step>`
for the expectations about a step.

`Journal` owns `goqueue/progress.json` in the checkpoint, replaced by a rename, so a reader never
sees half of it. It is for people: nothing is decided by it. `read_status` needs no Spark: Spark's
own files decide (`offsets/N` says what batch N reads, `commits/N` that it is done), and the journal
adds rows, speed, violations, and whether a process runs.

Invariant: a batch is counted once, however often it is reported; positions are those after the
batch, and lag is counted from there; a checkpoint has one journal at a time, which holds a lock on
`goqueue/lock` while its process lives.
"""

import fcntl
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

__all__ = [
    "IN",
    "LETTERS",
    "OUT",
    "ROWS",
    "BatchProgress",
    "CheckpointBusy",
    "Journal",
    "PartitionProgress",
    "Status",
    "Totals",
    "Violations",
    "batch_progress",
    "counter_name",
    "folder_of",
    "is_held",
    "positions",
    "read_status",
    "read_totals",
    "total_lag",
    "with_ends",
]

OUT = "goqueue.out"
IN = "goqueue.in:"
LETTERS = "goqueue.letters:"
ROWS = "goqueue_rows"


def counter_name(step: str) -> str:
    """Under which name a plan counts the violations of a step."""
    return f"goqueue:{step}"


class PartitionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset to read of a partition, and where it ended then (None: not told)."""

    topic: str
    partition: int
    offset: int
    end: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.offset)


class Violations(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of a batch were not as expected."""

    expectation: str
    count: int


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One micro-batch. Rows that left are None if they were not counted."""

    query_id: str
    batch: int
    at: str
    rows_in: int
    rows_out: int | None
    rows_per_s: float
    batch_ms: int
    lag: int | None
    partitions: tuple[PartitionProgress, ...]
    violations: tuple[Violations, ...] = ()
    observed: dict[str, Any] = {}
    dead_letters: int = 0
    watermark: str | None = None
    state_rows: int = 0
    durations_ms: dict[str, int] = {}


def batch_progress(reported: Mapping[str, Any]) -> BatchProgress:
    """Read a report of Spark: the JSON of a StreamingQueryProgress."""
    observed = dict(reported.get("observedMetrics") or {})
    out = dict(observed.pop(OUT, None) or {})
    durations = dict(reported.get("durationMs") or {})
    partitions = _partitions(reported.get("sources") or ())
    rows_out = out.pop(ROWS, None)
    # Spark counts a row as often as it is read; where that is twice, the plan counts itself.
    rows_in = _counted(observed, IN) or int(reported.get("numInputRows") or 0)
    watermark = (reported.get("eventTime") or {}).get("watermark")
    return BatchProgress(
        query_id=str(reported["id"]),
        batch=int(reported["batchId"]),
        at=str(reported["timestamp"]),
        rows_in=rows_in,
        rows_out=None if rows_out is None else int(rows_out),
        rows_per_s=float(reported.get("processedRowsPerSecond") or 0.0),
        batch_ms=int(durations.get("triggerExecution", 0)),
        lag=total_lag(partitions),
        partitions=partitions,
        violations=_violations(observed),
        observed=out,
        dead_letters=_counted(observed, LETTERS),
        # Spark reports the epoch until it has seen an event.
        watermark=None if str(watermark).startswith("1970-") else watermark,
        state_rows=sum(int(each["numRowsTotal"]) for each in reported.get("stateOperators") or ()),
        durations_ms=durations,
    )


def total_lag(partitions: tuple[PartitionProgress, ...]) -> int | None:
    lags = [each.lag for each in partitions if each.lag is not None]
    return sum(lags) if lags else None


def _counted(observed: Mapping[str, Mapping[str, Any]], prefix: str) -> int:
    return sum(
        int(counts.get(ROWS) or 0)
        for counter, counts in observed.items()
        if counter.startswith(prefix)
    )


def _violations(observed: Mapping[str, Mapping[str, Any]]) -> tuple[Violations, ...]:
    counted = [
        Violations(expectation=name, count=int(count or 0))
        for counter, counts in observed.items()
        if counter.startswith("goqueue:")
        for name, count in counts.items()
    ]
    return tuple(sorted(counted, key=lambda each: each.expectation))


class _Position(msgspec.Struct, frozen=True):
    """The part of a stored offset that counts here: that of one topic."""

    offsets: dict[str, int]


def _partitions(sources: Iterable[Mapping[str, Any]]) -> tuple[PartitionProgress, ...]:
    found = [
        PartitionProgress(
            topic=topic, partition=number, offset=offset, end=ends.get(topic, {}).get(number)
        )
        for source in sources
        for ends in [positions(source.get("latestOffset"))]
        for topic, offsets in positions(source.get("endOffset")).items()
        for number, offset in offsets.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))


def positions(stored: object) -> dict[str, dict[int, int]]:
    """Offsets as the connector stores them, by topic and partition; none of another source."""
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return {}
    try:
        topics = msgspec.convert(stored, dict[str, _Position])
    except msgspec.ValidationError:
        return {}
    return {
        topic: {int(number): offset for number, offset in each.offsets.items()}
        for topic, each in topics.items()
    }


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
    """Receives reports of batches, keeps the totals, and notifies listeners of each batch once.

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
        """Record that the pipeline runs, and continue the counts of earlier runs."""
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


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What is done, and what has begun and is not done (None: nothing)."""

    checkpoint: str
    state: str
    query_id: str | None
    done_batch: int | None
    open_batch: int | None
    lag: int | None
    partitions: tuple[PartitionProgress, ...]
    totals: Totals | None


def read_status(checkpoint: Path) -> Status:
    """The state of a checkpoint, which need not exist."""
    done = _last(checkpoint / "commits")
    planned = _last(checkpoint / "offsets")
    totals = read_totals(checkpoint)
    partitions = () if done is None else _positions(checkpoint / "offsets" / str(done))
    if not partitions and totals is not None and totals.last is not None:
        # Spark keeps the last hundred batches; what it has removed is in the file.
        partitions = totals.last.partitions
    is_open = planned is not None and (done is None or planned > done)
    return Status(
        checkpoint=str(checkpoint),
        state=_state(checkpoint, totals, planned),
        query_id=_query_id(checkpoint / "metadata"),
        done_batch=done,
        open_batch=planned if is_open else None,
        lag=None,
        partitions=partitions,
        totals=totals,
    )


def with_ends(status: Status, ends: Mapping[str, Mapping[int, int]]) -> Status:
    """The status with what a broker says about where partitions end."""
    known = {(each.topic, each.partition): each for each in status.partitions}
    for topic, latest in ends.items():
        for number, end in latest.items():
            each = known.get((topic, number))
            if each is None:
                # Of a partition that was added nothing is read yet.
                each = PartitionProgress(topic=topic, partition=number, offset=0)
            known[topic, number] = msgspec.structs.replace(each, end=end)
    partitions = tuple(known[key] for key in sorted(known))
    return msgspec.structs.replace(status, partitions=partitions, lag=total_lag(partitions))


def _state(checkpoint: Path, totals: Totals | None, planned: int | None) -> str:
    if is_held(checkpoint):
        return "running"
    if totals is not None and totals.error is not None:
        return "failed"
    if totals is not None and totals.ended_at is None:
        return "died"
    if planned is None:
        return "never ran"
    return "stopped"


def _last(folder: Path) -> int | None:
    """The highest number among the files; others are temporary ones and checksums."""
    try:
        return max(
            (int(each.name) for each in folder.iterdir() if each.name.isdigit()), default=None
        )
    except OSError:
        return None


def _positions(file: Path) -> tuple[PartitionProgress, ...]:
    """The positions of a file of offsets: a version, a line of Spark, one line per source."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()[2:]
    except OSError:
        return ()
    found = [
        PartitionProgress(topic=topic, partition=number, offset=offset)
        for line in lines
        for topic, offsets in positions(line).items()
        for number, offset in offsets.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))


def _query_id(file: Path) -> str | None:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(told["id"]) if isinstance(told, dict) and "id" in told else None
