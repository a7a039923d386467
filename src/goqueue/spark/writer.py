"""Topics written by Spark, exactly once: a transaction per task, one commit by the driver.

A task gathers rows into numbered batches by partition and sends them while more rows arrive;
because of the numbers a request may be repeated. Its transactional id is made of the query, the
task's number and the attempt. Nothing that it publishes is visible before the driver commits.

An open transaction is aborted when its producer was silent for half a minute, so the task sends
heartbeats while Spark is slow. A prepared one waits an hour for its driver, and committed readers
wait with it. So the task of a micro-batch leaves its transaction open, and the driver prepares it
when it commits; if that takes longer, the worker prepares it.

The driver commits all transactions of a batch by one decision under a key. A second attempt at the
same write has the same key and is committed once, whichever process is killed. Transactional ids do
not name the batch: the next batch, and a restarted query, take them over, which aborts what an
earlier holder left open.

Invariant: only transactions that a commit names become visible; after `finish` every row of a task
is stored exactly once, or the task has failed.
"""

import datetime as dt
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
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
    TopicNotFound,
    TransactionAborted,
    TransactionStateInvalid,
)
from goqueue.client.batch import Identity
from goqueue.client.stored_records import RecordBatch
from goqueue.model import Refused
from goqueue.model.requests import Owner
from goqueue.records.arrow import ArrowWriter, PartitionBatches
from goqueue.spark.broker import Broker, broker
from goqueue.spark.columns import RAW_VALUE, ColumnInvalid
from goqueue.spark.input_columns import refused_row, to_input_columns
from goqueue.spark.options import OptionInvalid
from goqueue.spark.registered_values import ValueEncoder
from goqueue.spark.schema_lookup import written_schema
from goqueue.spark.write_options import WriteOptions

__all__ = [
    "Beats",
    "Decision",
    "RecordSender",
    "Staged",
    "TopicStreamWriter",
    "TopicWriter",
    "publish",
]

# What is written at once, and what is gathered for a request: well below the limit of a body.
_PRESSED_BYTES = 4 << 20
_GATHERED_BYTES = 8 << 20


class RecordSender:
    """Gathers what was written by partition; one request at a time is under way for each.

    Rows that no topic takes become dead letters in the same transaction, if there is a topic for
    those, and else make the task fail.
    """

    def __init__(self, link: Broker, producer: Identity, options: WriteOptions) -> None:
        self._link = link
        self._producer = producer
        self._options = options
        schema = written_schema(options)
        self._encoder = None if schema is None else ValueEncoder(schema)
        self._writers: dict[str, ArrowWriter] = {}
        self._limits: dict[str, int] = {}
        self._gathered: dict[tuple[str, int], Gathered] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._size = 0
        self._rows = 0
        self._sender = ThreadPoolExecutor(1, "publish")
        self._under_way: Future[None] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self._encoder is not None:
            batch = self._encoded(batch, self._encoder)
        if self._options.partitioner == "column":
            batch = self._without_null(batch, "partition")
        if self._options.topic is not None:
            self._write_rows(self._options.topic, batch)
            return
        batch = self._without_null(batch, "topic")
        topics = batch.column("topic")
        names = pc.unique(topics).to_pylist()
        for name in names:
            rows = batch.filter(pc.equal(topics, name)) if len(names) > 1 else batch
            self._write_rows(self._options.topic_prefix + name, rows)

    def _encoded(self, batch: pa.RecordBatch, encoder: ValueEncoder) -> pa.RecordBatch:
        """The rows with their values as bytes; those that the schema does not allow are refused."""
        structs = batch.column("value")
        encoded = encoder.encode(structs)
        column, faults = encoded.column, encoded.faults
        if RAW_VALUE in batch.schema.names:
            raw = batch.column(RAW_VALUE).cast(pa.binary())
            column = pc.coalesce(raw, column)
            batch = batch.drop_columns([RAW_VALUE])
        place = batch.schema.get_field_index("value")
        batch = batch.set_column(place, "value", column)
        for row, reason in faults.items():
            # A dead letter says what the row was, as far as JSON can.
            text = msgspec.json.encode(structs[row].as_py(), enc_hook=str)
            letter = batch.slice(row, 1).set_column(place, "value", pa.array([text], pa.binary()))
            topic = self._options.topic
            if topic is None:
                topic = self._options.topic_prefix + (letter.column("topic")[0].as_py() or "")
            self._refuse(topic, letter, ColumnInvalid("value", reason))
        if not faults:
            return batch
        return batch.filter(pa.array([row not in faults for row in range(batch.num_rows)]))

    def _without_null(self, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """The rows in which a column has something; the others are refused."""
        column = batch.column(name)
        if not column.null_count:
            return batch
        rows = batch.filter(pc.is_null(column))
        self._refuse(self._options.topic or "", rows, ColumnInvalid(name, "is null in a row"))
        return batch.filter(pc.is_valid(column))

    def finish(self) -> int:
        """Send what is left and wait for all; the number of rows."""
        self._send()
        if self._under_way is not None:
            self._under_way.result()
        self._sender.shutdown()
        return self._rows

    def cancel(self) -> None:
        self._sender.shutdown(cancel_futures=True)

    def _write_rows(self, topic: str, batch: pa.RecordBatch) -> None:
        if batch.nbytes > _PRESSED_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self._write_rows(topic, batch.slice(0, half))
            self._write_rows(topic, batch.slice(half))
            return
        try:
            writer = self._writer_of(topic)
        except OptionInvalid as unknown:
            self._refuse(topic, batch, unknown)
            return
        while batch.num_rows:
            try:
                written = writer.write(to_input_columns(batch, time.time_ns() // 1000))
            except Refused as refused:
                row = refused.facts["index"]
                self._refuse(topic, batch.slice(row, 1), _column_invalid(refused))
                self._write_rows(topic, batch.slice(0, row))
                batch = batch.slice(row + 1)
            else:
                self._gather(topic, written)
                return

    def _refuse(self, topic: str, rows: pa.RecordBatch, why: ValueError) -> None:
        """Make dead letters of rows that cannot be published, or fail because of them."""
        target = self._options.dlq_topic
        if target is None or target == topic:
            raise why
        if target not in self._limits:
            self._writer_of(target, "dlqTopic")
        now = dt.datetime.now(dt.UTC)
        for row in range(rows.num_rows):
            letter = refused_row(rows.slice(row, 1), topic, str(why), now, self._limits[target])
            self._write_rows(target, letter)

    def _gather(self, topic: str, written: PartitionBatches) -> None:
        size = sum(map(len, written.batches.values()))
        if self._size + size > _GATHERED_BYTES:
            self._send()
        for partition, data in written.batches.items():
            gathered = self._gathered.setdefault((topic, partition), Gathered())
            gathered.add(data, written.counts[partition])
        self._size += size
        self._rows += sum(written.counts.values())

    def _writer_of(self, topic: str, option: str = "topic") -> ArrowWriter:
        if topic not in self._writers:
            try:
                view = self._link.view(topic, "read_uncommitted")
            except TopicNotFound as error:
                raise OptionInvalid(option, f"there is no topic {topic!r}") from error
            is_keyed = self._options.partitioner != "round-robin"
            self._limits[topic] = view.message_bytes_max
            self._writers[topic] = ArrowWriter(
                len(view.edges), view.message_bytes_max, is_keyed=is_keyed
            )
        return self._writers[topic]

    def _send(self) -> None:
        """Hand what was gathered to the sender, after what it sends now."""
        if not self._gathered:
            return
        batches = []
        for (topic, partition), gathered in self._gathered.items():
            sequence = self._sequences.get((topic, partition), 0)
            self._sequences[topic, partition] = sequence + gathered.count
            batches.append(
                RecordBatch(
                    topic=topic,
                    partition=partition,
                    data=gathered.data,
                    count=gathered.count,
                    sequence=sequence,
                )
            )
        self._gathered = {}
        self._size = 0
        if self._under_way is not None:
            self._under_way.result()
        self._under_way = self._sender.submit(self._link.publish, batches, self._producer)


def _column_invalid(refused: Refused) -> ColumnInvalid:
    facts = ", ".join(f"{name} {fact}" for name, fact in refused.facts.items())
    column = refused.facts.get("part", "partition")
    return ColumnInvalid(column, f"{refused.code}: {facts}")


class Gathered:
    """Records for one partition that wait to be sent."""

    __slots__ = ("count", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self.count = 0

    def add(self, data: bytearray, count: int) -> None:
        if self.count:
            self.data += data
        else:
            self.data = data
        self.count += count


_BEAT_S = 10.0
# Without it Spark ends a worker with its task, and no process is left to prepare anything.
_IS_REUSED = "SPARK_REUSE_WORKER"


class Staged(msgspec.Struct, frozen=True):
    """What a task left behind: a transaction to decide, or nothing that is.

    Without `transaction_id` it is open, and to be prepared.
    """

    rows: int
    owner: Owner | None = None
    transaction_id: str | None = None


def publish(
    options: WriteOptions,
    transactional_id: str,
    batches: Iterable[pa.RecordBatch],
    *,
    open_s: float = 0.0,
) -> Staged:
    """Publish rows as the options say. Without rows nothing is begun.

    The transaction is prepared so many seconds later, if nobody did that before.
    """
    link = broker(options.link)
    posting: RecordSender | None = None
    owner: Owner | None = None
    beats = Beats(link)
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if posting is None:
                if options.exactly_once:
                    owner = link.begin(transactional_id, options.transaction_timeout_s)
                    beats.start(owner)
                    producer = Identity(owner.producer_id, owner.epoch)
                else:
                    producer = link.register()
                posting = RecordSender(link, producer, options)
            posting.add(batch)
        if posting is None:
            return Staged(0)
        rows = posting.finish()
        beats.stop()
        if owner is None:
            return Staged(rows)
        if open_s and _IS_REUSED in os.environ:
            link.prepare_later(owner, open_s)
            return Staged(rows, owner)
        return Staged(rows, owner, link.prepare(owner))
    except BaseException:
        beats.stop()
        if posting is not None:
            posting.cancel()
        if owner is not None:
            _give_up(link, owner)
        raise


def _give_up(link: Broker, owner: Owner) -> None:
    """Abort at once what would time out: until then it blocks committed readers of the topic."""
    try:
        link.abort(owner)
    except GoQueueError:
        # Whatever made the task fail is worth more than this.
        return


class Beats:
    """Tells the broker that a producer lives, from a thread of its own."""

    def __init__(self, link: Broker, every_s: float = _BEAT_S) -> None:
        self._link = link
        self._every_s = every_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, owner: Owner) -> None:
        self._thread = threading.Thread(target=self._run, args=(owner,), daemon=True, name="beats")
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, owner: Owner) -> None:
        while not self._over.wait(self._every_s):
            try:
                self._link.beat(owner)
            except (ProducerFenced, NotFound):
                # Told by the next request of the task, too.
                return
            except GoQueueError:
                # The broker is away: it may be back for the next beat.
                continue


_LOG = logging.getLogger(__name__)
_GROUP_MAX = 1000


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
            hint = "the checkpoint is an old copy: start a new one where it should continue"
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


_QUERY = "sql.streaming.queryId"
# How long a task of a micro-batch waits for its driver: the broker waits three times as long.
_OPEN_S = 10.0


class Done(WriterCommitMessage):
    """What a task reports to the driver."""

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
