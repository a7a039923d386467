"""Topics written by Spark, exactly once: each task has a transaction, the driver decides on all.

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

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from goqueue.client import (
    GoQueueError,
    NotFound,
    ProducerFenced,
    TransactionAborted,
    TransactionStateInvalid,
)
from goqueue.spark.broker import broker
from goqueue.spark.options import WriteOptions
from goqueue.spark.publishing import Staged, publish

__all__ = ["Decision", "TopicStreamWriter", "TopicWriter"]

_LOG = logging.getLogger(__name__)
_QUERY = "sql.streaming.queryId"
_GROUP_MAX = 1000


class Done(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, staged: Staged, family: str) -> None:
        self.staged = staged
        self.family = family


class Decision:
    """The driver's word on all tasks of a write, or of a micro-batch."""

    def __init__(self, options: WriteOptions, family: str, batch: int | None) -> None:
        self._link = broker(options.link)
        self._family = family
        self._batch = batch

    def commit(self, staged: Sequence[Staged]) -> None:
        """Commit what the tasks left, unless that was done before; nothing if they left nothing."""
        owners = [each.owner for each in staged if each.owner is not None]
        if not owners:
            return
        if len(owners) > _GROUP_MAX:
            words = f"{len(owners)} tasks wrote rows, and one commit takes {_GROUP_MAX}"
            raise GoQueueError("request_invalid", f"{words}: coalesce the rows before writing them")
        try:
            prepared = self._prepare(staged)
            is_first = self._link.commit_group(self._key(self._batch), prepared)
        except (NotFound, ProducerFenced, TransactionAborted, TransactionStateInvalid) as error:
            words = f"{self._family}: rows that tasks wrote were aborted before they were committed"
            reason = "another driver runs the same query, or it took too long"
            raise GoQueueError(error.code, f"{words}; {reason}: {error}") from error
        if not is_first and not self._link.is_committed(prepared[0]):
            self._check_repeated()
        self.sweep()

    def abort(self, staged: Sequence[Staged]) -> None:
        """Abort what is open. What was committed stays: the broker refuses, and that is right."""
        try:
            for each in staged:
                if each.owner is not None and not self._link.abort(each.owner):
                    _LOG.warning("%s was decided before", each.owner.transactional_id)
        except GoQueueError as error:
            # Raised, it would take the place of what made the write fail.
            _LOG.warning("what %s left open waits for its timeout: %s", self._family, error)

    def _key(self, batch: int | None) -> str:
        return self._family if batch is None else f"{self._family}:{batch}"

    def _prepare(self, staged: Sequence[Staged]) -> list[str]:
        """The ids of all transactions; those that are open are prepared now."""
        waiting = [each.owner for each in staged if each.owner and each.transaction_id is None]
        known = [each.transaction_id for each in staged if each.transaction_id is not None]
        return known + (self._link.prepare_all(waiting) if waiting else [])

    def _check_repeated(self) -> None:
        """Somebody committed this batch before: a restart repeats the last one, and no other."""
        if self._batch is not None and self._link.has_key(self._key(self._batch + 1)):
            words = f"batches after {self._batch} of {self._family} are committed already"
            hint = "the checkpoint is an old copy: start with a new one, from where it should go on"
            raise GoQueueError("checkpoint_outdated", f"{words}; {hint}")
        _LOG.warning("%s was committed before: its rows are there", self._key(self._batch))

    def sweep(self) -> None:
        """Abort attempts whose message Spark dropped: each would hold up the readers."""
        attempts = re.compile(rf"{re.escape(self._family)}\.\d+\.\d+")
        try:
            for owner in self._link.open_owners(attempts):
                self._link.abort(owner)
        except GoQueueError as error:
            # The decision stands, and so does the next one: a task that has the id ends it, too.
            _LOG.warning("left-overs of %s wait for their timeout: %s", self._family, error)


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
        return Done(publish(self._options, _identity(family), iterator, is_brief=True), family)

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
