"""The data source with a fault at a chosen point, and a driver that runs a stream over it.

Imported by the workers of Spark, so nothing is done here but on demand. Run as a program it copies
one topic to another until nothing is left, from a checkpoint, and dies where it is told to.

A stream has the option `death`: `task`, `before` and `after` kill the process of Python that writes
in a task, or that commits, before or after the broker was asked; `driver` kills the driver then.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from goqueue.spark import GoQueueSource
from tests.integration.spark.sessions import session

__all__ = ["DyingSource"]

DRIVER = "GOQUEUE_TEST_DRIVER"


class DyingSource(GoQueueSource):
    """Tables are written by a worker that dies once; streams as their option says."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return DyingTask(super().writer(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - the name is Spark's
        sound = {name: text for name, text in self.options.items() if name.lower() != "death"}
        writer = GoQueueSource(sound).streamWriter(schema, overwrite)
        return DyingStream(writer, self.options.get("death", ""))


class DyingTask(DataSourceArrowWriter):
    """The worker of the first attempt dies when all is sent and nobody was told."""

    def __init__(self, writer: DataSourceWriter) -> None:
        assert isinstance(writer, DataSourceArrowWriter)
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = self._writer.write(iterator)
        _die_in_first_attempt()
        return message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


class DyingStream(DataSourceStreamArrowWriter):
    """The process or task that is chosen dies in the second micro-batch."""

    def __init__(self, writer: DataSourceStreamWriter, death: str) -> None:
        assert isinstance(writer, DataSourceStreamArrowWriter)
        self._writer = writer
        self._death = death

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        message = self._writer.write(iterator)
        if self._death == "task":
            _die_in_first_attempt()
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        death = self._death if batchId == 1 else ""
        if death == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        self._writer.commit(messages, batchId)
        if death == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        if death == "driver":
            _kill_driver()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        self._writer.abort(messages, batchId)


def _die_in_first_attempt() -> None:
    task = TaskContext.get()
    assert task is not None
    if task.partitionId() == 0 and task.attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def _kill_driver() -> None:
    """Kill everything from the driver's program down to this process."""
    driver = int(os.environ[DRIVER])
    line = [os.getpid()]
    while line[-1] != driver:
        stat = Path(f"/proc/{line[-1]}/stat").read_text(encoding="ascii")
        line.append(int(stat.rsplit(")", 1)[1].split()[1]))
    for process in reversed(line):
        os.kill(process, signal.SIGKILL)


def main(url: str, source: str, sink: str, checkpoint: str, death: str) -> None:
    os.environ[DRIVER] = str(os.getpid())
    spark = session(Path(checkpoint).parent)
    # By name, as the workers import it: what is run as a program has no name for them.
    from tests.integration.spark.faults import DyingSource as Named

    spark.dataSource.register(Named)
    rows = spark.readStream.format("dying").option("goqueue.servers", url)
    rows = rows.option("subscribe", source).option("startingOffsets", "earliest")
    query = (
        rows.option("maxRecordsPerTrigger", "400")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("dying")
        .option("goqueue.servers", url)
        .option("topic", sink)
        .option("death", death)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
