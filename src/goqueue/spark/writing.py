"""Topics written by Spark, exactly once: each task prepares a transaction, the driver decides.

All transactions of a write, or of a micro-batch, are committed by one decision under a key that a
second attempt at the same has, too. So it is committed once, whoever is killed and whenever. A task
holds a transactional id made of the query, its number and that of the attempt: the next micro-batch
and a restarted query hold it anew, which aborts what an earlier one left open.

Invariant: only transactions that a commit names are ever seen.
"""

import logging
import re
import uuid
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from goqueue.client import GoQueueError
from goqueue.spark.broker import broker
from goqueue.spark.options import WriteOptions
from goqueue.spark.publishing import Staged, publish

__all__ = ["TopicStreamWriter", "TopicWriter"]

_LOG = logging.getLogger(__name__)
_QUERY = "sql.streaming.queryId"
_GROUP_MAX = 1000


class Done(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, staged: Staged, family: str) -> None:
        self.staged = staged
        self.family = family


class TopicWriter(DataSourceArrowWriter):
    """A write of a table. The same object, pickled, is asked in the tasks and on the driver."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        if options.transactional_id is None:
            self._family = self._key = f"spark.{uuid.uuid4()}"
        else:
            self._family = f"spark.{options.transactional_id}"
            self._key = f"{self._family}:{options.transactional_version}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, self._family, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(self._options, self._family, self._key, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A write of micro-batches. The driver makes a new one for each: only messages remember."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "Spark runs this in a task"
        query = task.getLocalProperty(_QUERY)
        assert query is not None, "a micro-batch belongs to a query"
        namespace = self._options.transactional_id
        family = f"spark.{query}" if namespace is None else f"spark.{namespace}.{query}"
        return _write(self._options, family, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - the name is Spark's
        families = {each.family for each in _done(messages)}
        assert len(families) == 1, "the tasks of a micro-batch belong to one query"
        family = families.pop()
        _commit(self._options, family, f"{family}:{batchId}", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - the names are Spark's
        _abort(self._options, messages)


def _write(options: WriteOptions, family: str, batches: Iterator[pa.RecordBatch]) -> Done:
    task = TaskContext.get()
    assert task is not None, "Spark runs this in a task"
    identity = f"{family}.{task.partitionId()}.{task.attemptNumber()}"
    return Done(publish(options, identity, batches), family)


def _done(messages: Sequence[WriterCommitMessage | None]) -> list[Done]:
    return [each for each in messages if isinstance(each, Done)]


def _commit(
    options: WriteOptions,
    family: str,
    key: str,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    staged = [each.staged for each in _done(messages)]
    prepared = [each.transaction_id for each in staged if each.transaction_id is not None]
    if not options.exactly_once or not prepared:
        return
    if len(prepared) > _GROUP_MAX:
        words = f"{len(prepared)} tasks wrote rows, and one commit takes {_GROUP_MAX}"
        raise GoQueueError("request_invalid", f"{words}: coalesce the rows before writing them")
    link = broker(options.link)
    if not link.commit_group(key, prepared):
        _LOG.warning("%s was committed before: these rows are there already", key)
    # Attempts whose message Spark dropped: each would hold up the readers until it times out.
    try:
        for owner in link.open_owners(re.compile(rf"{re.escape(family)}\.\d+\.\d+")):
            link.abort(owner)
    except GoQueueError as error:
        # The decision stands, and so does the next one: a task that has the id ends it, too.
        _LOG.warning("left-over transactions of %s wait for their timeout: %s", family, error)


def _abort(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort what is prepared. What was committed stays: the broker refuses, and that is right."""
    owners = [each.staged.owner for each in _done(messages)]
    link = broker(options.link)
    for owner in owners:
        if owner is not None and not link.abort(owner):
            _LOG.warning("%s was decided before", msgspec.structs.asdict(owner))
