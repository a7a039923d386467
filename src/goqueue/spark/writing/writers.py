"""Topics written by Spark, exactly once: each task has a transaction, the driver decides on all.

Owns what Spark calls in tasks and on the driver, and the ids by which attempts are known: a task
holds a transactional id made of the query, its number and that of the attempt.
"""

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from goqueue.spark.options import WriteOptions
from goqueue.spark.writing.decision import Decision
from goqueue.spark.writing.staging import Staged, publish

__all__ = ["TopicStreamWriter", "TopicWriter"]

_QUERY = "sql.streaming.queryId"
# How long a task of a micro-batch waits for its driver: the broker waits three times as long.
_OPEN_S = 10.0


class Done(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, staged: Staged, family: str) -> None:
        self.staged = staged
        self.family = family


class TopicWriter(DataSourceArrowWriter):
    """A write of a table. The same object, pickled, is asked in the tasks and on the driver."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._version = options.transactional_version
        self._family = f"spark.{options.transactional_id or uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Done(publish(self._options, _identity(self._family), iterator), self._family)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._decision().commit(_staged(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._decision().abort(_staged(messages))
        if self._version is None:
            # Nobody else has these ids: attempts that told nothing go, too.
            self._decision().sweep()

    def _decision(self) -> Decision:
        return Decision(self._options, self._family, self._version)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A write of micro-batches. The driver makes a new one for each: only messages remember."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "Spark runs this in a task"
        query = task.getLocalProperty(_QUERY)
        assert query is not None, "a micro-batch belongs to a query"
        family = _family(self._options, query)
        return Done(publish(self._options, _identity(family), iterator, open_s=_OPEN_S), family)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        for family in _families(messages):
            Decision(self._options, family, batchId).commit(_staged(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        for family in _families(messages):
            Decision(self._options, family, batchId).abort(_staged(messages))


def _families(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    """Of the tasks of a micro-batch, which belong to one query; none if no task told anything."""
    families = {each.family for each in messages if isinstance(each, Done)}
    assert len(families) <= 1, "the tasks of a micro-batch belong to one query"
    return families


def _family(options: WriteOptions, query: str) -> str:
    """What the ids of all tasks of a query begin with, and the keys of its batches."""
    namespace = options.transactional_id
    return f"spark.{query}" if namespace is None else f"spark.{namespace}.{query}"


def _identity(family: str) -> str:
    """The transactional id of the attempt that runs here."""
    task = TaskContext.get()
    assert task is not None, "Spark runs this in a task"
    return f"{family}.{task.partitionId()}.{task.attemptNumber()}"


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [each.staged for each in messages if isinstance(each, Done)]
