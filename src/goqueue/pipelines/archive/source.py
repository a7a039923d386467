"""The stream of an archive: a topic is read and written to files in the same task.

Rows never pass through Spark's engine. Spark sees files, one row each, and does what it is good at:
offsets, retries of tasks, limits of a batch, the checkpoint. The connector does everything that
concerns the topic.

A task stages its files under the name of its own attempt; only those reported to the driver count.
"""

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from goqueue.pipelines.archive.files import Drafts, bundle
from goqueue.pipelines.archive.manifest import Layout
from goqueue.spark import GoQueueSource

__all__ = ["FORMAT", "ArchiveSource"]

FORMAT = "goqueue-archive"
_PREFIX = "archive."
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
_FILES = pa.schema([("rows", pa.int64()), ("bytes", pa.int64()), ("draft", pa.string())])

Json = dict[str, Any]


class ArchiveSource(DataSource):
    """`format("goqueue-archive")`: the options of the connector, and three of its own."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "rows BIGINT, bytes BIGINT, draft STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - the names are Spark's
        own = {name: text for name, text in self.options.items() if name.startswith(_PREFIX)}
        source = GoQueueSource(
            {name: text for name, text in self.options.items() if name not in own}
        )
        rows = source.schema()
        assert isinstance(rows, StructType)
        return ArchiveReader(
            source.streamReader(rows),
            folder=own["archive.folder"],
            compression=own["archive.compression"],
            file_bytes_max=int(own["archive.filebytes"]),
        )


class ArchiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads as the connector does; what a task yields are the files that it staged."""

    def __init__(
        self, reader: DataSourceStreamReader, *, folder: str, compression: str, file_bytes_max: int
    ) -> None:
        self._reader = reader
        self._folder = folder
        self._compression = compression
        self._file_bytes_max = file_bytes_max

    def initialOffset(self) -> Json:  # noqa: N802 - the name is Spark's
        return self._reader.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        return self._reader.getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        assert isinstance(self._reader, SupportsTriggerAvailableNow)
        self._reader.prepareForTriggerAvailableNow()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        return self._reader.latestOffset(start, limit)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - the name is Spark's
        return self._reader.reportLatestOffset()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        planned = self._reader.partitions(start, end)
        ranges = [each for each in planned if each.value is not None]
        return [InputPartition(tuple(each)) for each in bundle(ranges)] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        ranges: tuple[InputPartition, ...] = partition.value
        if not ranges:
            return
        task = TaskContext.get()
        assert task is not None, "Spark runs this in a task"
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        assert query is not None, "a micro-batch belongs to a query"
        assert batch is not None, "a micro-batch has a number"
        stage = Layout(Path(self._folder)).stage(query, int(batch))
        stage.mkdir(parents=True, exist_ok=True)
        drafts = Drafts(
            stage,
            f"{task.partitionId()}-{uuid.uuid4().hex}",
            ranges[0].value.topic,
            compression=self._compression,
            file_bytes_max=self._file_bytes_max,
        )
        for each in ranges:
            for rows in self._reader.read(each):
                assert isinstance(rows, pa.RecordBatch), "the connector yields Arrow"
                drafts.add(each.value.partition, rows)
        done = drafts.finish()
        yield pa.RecordBatch.from_pydict(
            {
                "rows": [each.rows for each in done],
                "bytes": [each.size_bytes for each in done],
                "draft": [msgspec.json.encode(each).decode() for each in done],
            },
            schema=_FILES,
        )

    def commit(self, end: Json) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()
