"""What Spark's own path costs: a source of record batches that are ready, and a sink of nothing.

Both speak the same API as the connector, in the same kinds of processes, and do no work.
"""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from goqueue.model import Message
from goqueue.records import build, stamp
from goqueue.records.arrow import ArrowReader
from goqueue.spark import GoQueueSource

__all__ = ["ReadySource"]

_ROWS = 10_000
_MADE: dict[int, pa.RecordBatch] = {}


class ReadySource(DataSource):
    """The columns of `format("goqueue")`. Options: `rows` of a read or trigger, `size`, `tasks`."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        options = {"goqueue.servers": "127.0.0.1:1", "subscribe": "none"}
        return GoQueueSource(options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the signature is Spark's
        return ReadyReader(*self._numbers("rows", "size", "tasks"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - the signature is Spark's
        return ReadyStream(ReadyReader(*self._numbers("rows", "size", "tasks")))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802 - the signature is Spark's
        return Nothing()

    def _numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(int(self.options[name]) for name in names)


class ReadyReader(DataSourceReader):
    """Yields the same batch again and again."""

    def __init__(self, rows: int, size: int, tasks: int) -> None:
        self._rows = rows
        self._size = size
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._size)
        left = partition.value
        while left > 0:
            yield batch if left >= _ROWS else batch.slice(0, left)
            left -= _ROWS


class ReadyStream(DataSourceStreamReader):
    """So much again with every trigger, and for ever."""

    def __init__(self, reader: ReadyReader) -> None:
        self._reader = reader

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - the name is Spark's
        return {"trigger": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 - the signature is Spark's
        return {"trigger": start["trigger"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002 - the signature is Spark's
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)


class Counted(WriterCommitMessage):
    """How many rows a task has seen."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class Nothing(DataSourceStreamArrowWriter):
    """Counts what it is given."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Counted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        """Nothing."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        """Nothing."""


def _batch(size: int) -> pa.RecordBatch:
    if size not in _MADE:
        data = build(
            [
                Message(key=b"user-%05d" % (number % 1000), value=os.urandom(size))
                for number in range(_ROWS)
            ]
        )
        stamp(data, 0, 1_800_000_000_000_000_000)
        output = ArrowReader(data).read(_ROWS, 1 << 30)
        assert output is not None
        strings = [output.keys, output.values]
        columns = [
            pa.array(["none"] * _ROWS),
            pa.array([0] * _ROWS, pa.int32()),
            pa.Array.from_buffers(pa.int64(), _ROWS, [None, pa.py_buffer(output.offsets)]),
            pa.Array.from_buffers(
                pa.timestamp("us", tz="UTC"), _ROWS, [None, pa.py_buffer(output.timestamps)]
            ),
            *(
                pa.Array.from_buffers(
                    pa.binary(), _ROWS, [None, pa.py_buffer(each.offsets), pa.py_buffer(each.data)]
                )
                for each in strings
                if each is not None
            ),
            pa.Array.from_buffers(pa.int32(), _ROWS, [None, pa.py_buffer(output.priorities)]),
        ]
        names = ["topic", "partition", "offset", "timestamp", "key", "value", "priority"]
        _MADE[size] = pa.RecordBatch.from_arrays(columns, names)
    return _MADE[size]
