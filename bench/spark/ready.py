"""A source that yields record batches that were made before: what Spark's own path costs."""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from goqueue.model import Message
from goqueue.records import build, stamp
from goqueue.records.arrow import Lift
from goqueue.spark import GoQueueSource

__all__ = ["ReadySource"]

_ROWS = 10_000
_MADE: dict[int, pa.RecordBatch] = {}


class ReadySource(DataSource):
    """The columns of `format("goqueue")`; options `rows`, `size` and `tasks`."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> StructType:
        options = {"goqueue.servers": "127.0.0.1:1", "subscribe": "none"}
        return GoQueueSource(options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - the signature is Spark's
        rows, size, tasks = (int(self.options[name]) for name in ("rows", "size", "tasks"))
        return ReadyReader(rows, size, tasks)


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
        for _ in range(partition.value // _ROWS):
            yield batch


def _batch(size: int) -> pa.RecordBatch:
    if size not in _MADE:
        data = build(
            [
                Message(key=b"user-%05d" % (number % 1000), value=os.urandom(size))
                for number in range(_ROWS)
            ]
        )
        stamp(data, 0, 1_800_000_000_000_000_000)
        frame = Lift(data).take(_ROWS, 1 << 30)
        assert frame is not None
        columns = [
            pa.array(["none"] * _ROWS),
            pa.array([0] * _ROWS, pa.int32()),
            pa.Array.from_buffers(pa.int64(), _ROWS, [None, pa.py_buffer(frame.offsets)]),
            pa.Array.from_buffers(
                pa.timestamp("us", tz="UTC"), _ROWS, [None, pa.py_buffer(frame.timestamps)]
            ),
            *(
                pa.Array.from_buffers(
                    pa.binary(), _ROWS, [None, pa.py_buffer(each.offsets), pa.py_buffer(each.data)]
                )
                for each in (frame.keys, frame.values)
            ),
            pa.Array.from_buffers(pa.int32(), _ROWS, [None, pa.py_buffer(frame.priorities)]),
        ]
        names = ["topic", "partition", "offset", "timestamp", "key", "value", "priority"]
        _MADE[size] = pa.RecordBatch.from_arrays(columns, names)
    return _MADE[size]
