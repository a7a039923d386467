"""Readers as Spark calls them, without Spark: what they read, task after task."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from goqueue.spark import GoQueueSource
from tests.integration.http_api import Json
from tests.integration.server_process import ServerProcess

__all__ = ["EVERYTHING", "between", "reader", "stream", "texts", "values"]

EVERYTHING = ReadAllAvailable()


def reader(node: ServerProcess, **options: str) -> DataSourceReader:
    made = GoQueueSource({"goqueue.servers": node.url, **options})
    return made.reader(made.schema())


def stream(node: ServerProcess, **options: str) -> DataSourceStreamReader:
    made = GoQueueSource({"goqueue.servers": node.url, **options})
    return made.streamReader(made.schema())


def values(reading: DataSourceReader) -> list[str]:
    """The values of a bounded read, as text."""
    return texts(batch for task in reading.partitions() for batch in reading.read(task))


def between(reading: DataSourceStreamReader, start: Json, end: Json) -> list[str]:
    """The values of a stream between two positions, as text."""
    return texts(batch for task in reading.partitions(start, end) for batch in reading.read(task))


def texts(batches: Iterable[object]) -> list[str]:
    found: list[str] = []
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch)
        found += [value.decode() for value in batch.column("value").to_pylist()]
    return found
