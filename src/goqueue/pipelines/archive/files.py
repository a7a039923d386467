"""Writes the Parquet files of an archive, and decides which ranges share a file.

Partitions with few new rows share a task, and so a file; a file for each partition and batch would
leave many small ones. A file is written in one pass: rows are hashed and counted by partition as
they arrive, and the result is the file's entry in the manifest. A file holds rows of one date. Rows
that arrive in the order of (partition, offset) are stored in that order.
"""

import datetime as dt
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from goqueue.pipelines.archive.manifest import Run

__all__ = ["SCHEMA", "Draft", "Drafts", "bundle"]

_ROWS_MAX = 100_000


class Planned(Protocol):
    """A range that the connector plans for a task: `value` has topic, start and end."""

    value: Any


P = TypeVar("P", bound=Planned)


def bundle(planned: Sequence[P]) -> list[list[P]]:
    """What is planned, in tasks: small ranges of a topic together, in their order."""
    bundles: list[list[P]] = []
    topic, rows = None, 0
    for each in planned:
        wanted = each.value
        count = wanted.end - wanted.start
        if topic != wanted.topic or rows + count > _ROWS_MAX:
            bundles.append([])
            rows = 0
        topic, rows = wanted.topic, rows + count
        bundles[-1].append(each)
    return bundles


_PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
# The names are those of the connector. The topic is in the path; names of headers may repeat.
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("priority", pa.int32()),
        ("headers", pa.list_(_PAIR)),
    ]
)
_DAY_US = 86_400_000_000
# Rows wait until a row group is worth its overhead: in sum, and for as many dates at most.
_GROUP_BYTES = 48 << 20
_DATES_MAX = 16


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A staged file."""

    staged: str
    topic: str
    date: str
    runs: tuple[Run, ...]
    rows: int
    size_bytes: int
    sha256: str
    first_time_us: int
    last_time_us: int


class Drafts:
    """Writes the rows of one task to a stage, and keeps files below a size."""

    def __init__(
        self, stage: Path, stem: str, topic: str, *, compression: str, file_bytes_max: int
    ) -> None:
        self._stage = stage
        self._stem = stem
        self._topic = topic
        self._compression = compression
        self._file_bytes_max = file_bytes_max
        self._open: dict[int, _File] = {}
        self._done: list[Draft] = []
        self._count = 0

    def add(self, partition: int, rows: pa.RecordBatch) -> None:
        """Take rows of one partition, in the order of their offsets."""
        if not rows.num_rows:
            return
        times = rows.column("timestamp").view(pa.int64())
        bounds = pc.min_max(times).as_py()
        first, last = bounds["min"] // _DAY_US, bounds["max"] // _DAY_US
        if first == last:
            self._take(first, partition, rows)
            return
        days = pc.divide(times, _DAY_US)
        for day in sorted(pc.unique(days).to_pylist()):
            self._take(day, partition, rows.filter(pc.equal(days, day)))

    def finish(self) -> list[Draft]:
        """Close and flush all files."""
        for day in sorted(self._open):
            self._close(day)
        return self._done

    def _take(self, day: int, partition: int, rows: pa.RecordBatch) -> None:
        file = self._open.pop(day, None)
        if file is None:
            while len(self._open) >= _DATES_MAX:
                self._close(next(iter(self._open)))
            name = f"{self._stem}-{self._count}.staged"
            self._count += 1
            file = _File(self._stage / name, self._compression)
        # The one that was used last is the last: the first one is the one to close.
        self._open[day] = file
        file.take(partition, rows)
        if file.size_bytes >= self._file_bytes_max:
            self._close(day)
        elif sum(each.waiting_bytes for each in self._open.values()) >= _GROUP_BYTES:
            max(self._open.values(), key=lambda each: each.waiting_bytes).flush()

    def _close(self, day: int) -> None:
        file = self._open.pop(day)
        date = (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()
        self._done.append(file.close(self._topic, date))


class _File:
    """One file that is being written."""

    def __init__(self, path: Path, compression: str) -> None:
        self._path = path
        self._sink = _Hashed(path)
        # Values seldom repeat, and a dictionary that is given up costs as much as one that is used.
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            compression=compression,
            use_dictionary=["partition", "priority", "headers.list.element.key"],
            write_statistics=["partition", "offset", "timestamp"],
        )
        self._waiting: list[pa.RecordBatch] = []
        self._runs: list[Run] = []
        self._rows = 0
        self._times: list[tuple[int, int]] = []
        self.waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._sink.size_bytes

    def take(self, partition: int, rows: pa.RecordBatch) -> None:
        self._waiting.append(
            pa.RecordBatch.from_arrays([rows.column(name) for name in SCHEMA.names], schema=SCHEMA)
        )
        self.waiting_bytes += rows.nbytes
        self._rows += rows.num_rows
        offsets = rows.column("offset")
        run = Run(
            partition=partition,
            first_offset=offsets[0].as_py(),
            last_offset=offsets[-1].as_py(),
            rows=rows.num_rows,
        )
        before = self._runs[-1] if self._runs else None
        if before is not None and before.partition == partition:
            run = msgspec.structs.replace(
                run, first_offset=before.first_offset, rows=before.rows + run.rows
            )
            self._runs.pop()
        self._runs.append(run)
        bounds = pc.min_max(rows.column("timestamp").view(pa.int64())).as_py()
        times = (cast("int", bounds["min"]), cast("int", bounds["max"]))
        known = self._times[0] if self._times else times
        self._times = [(min(known[0], times[0]), max(known[1], times[1]))]

    def flush(self) -> None:
        """Write a row group of what waits."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._waiting = []
            self.waiting_bytes = 0

    def close(self, topic: str, date: str) -> Draft:
        self.flush()
        self._writer.close()
        self._sink.close()
        first_us, last_us = self._times[0]
        return Draft(
            staged=self._path.name,
            topic=topic,
            date=date,
            runs=tuple(self._runs),
            rows=self._rows,
            size_bytes=self._sink.size_bytes,
            sha256=self._sink.sha256,
            first_time_us=first_us,
            last_time_us=last_us,
        )


class _Hashed:
    """A new file that hashes what is written to it, and is durable once it is closed."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=1 << 20)
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size_bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Nothing: only the whole file is of use."""

    def tell(self) -> int:
        return self.size_bytes

    def close(self) -> None:
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
