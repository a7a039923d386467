"""How far a pipeline is, read from its checkpoint without Spark.

Spark's own files decide: `offsets/N` says what batch N reads, `commits/N` that it is done. The file
that the pipeline keeps beside them adds what they do not tell: rows, speed, violations, and whether
a process runs.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from goqueue.pipelines.progress.batch import PartitionProgress, positions, total_lag
from goqueue.pipelines.progress.journal import Totals, is_held, read_totals

__all__ = ["Status", "read_status", "with_ends"]


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
