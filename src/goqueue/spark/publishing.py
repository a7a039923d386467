"""What one task publishes: rows pressed into batches, gathered, sent, and staged as a whole.

Owns the numbering of batches, so that a request may be repeated. In a transaction nothing of it
is seen before the driver decides; a beat tells the broker that the task lives while Spark is slow.

A prepared transaction waits an hour for its driver, and readers wait with it; one that is open is
aborted when nobody was heard for half a minute. So the task of a micro-batch leaves its transaction
open, and the driver prepares it when it decides. If that takes longer, the worker prepares it.

Invariant: after `finish` every row is taken exactly once, or the task has failed.
"""

import datetime as dt
import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client import GoQueueError, NotFound, ProducerFenced, TopicNotFound
from goqueue.model import Refused
from goqueue.model.requests import Owner
from goqueue.records.arrow import Press, Pressed
from goqueue.spark.broker import Author, Batch, Broker, broker
from goqueue.spark.columns import ColumnInvalid, refused_row, to_sheet
from goqueue.spark.options import OptionInvalid, WriteOptions

__all__ = ["Staged", "publish"]

# What is pressed at once, and what is gathered for a request: well below the limit of a body.
_PRESSED_BYTES = 4 << 20
_GATHERED_BYTES = 8 << 20
_BEAT_S = 10.0
# How long a finished task waits for its driver: the broker is patient for three times as long.
_OPEN_S_MAX = 10.0
# Without it Spark ends a worker with its task, and nobody is left to prepare anything.
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
    is_brief: bool = False,
) -> Staged:
    """Publish rows as the options say. Without rows nothing is begun.

    With `is_brief` the decision is expected within seconds.
    """
    link = broker(options.link)
    posting: Posting | None = None
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
                    author = Author(owner.producer_id, owner.epoch)
                else:
                    author = link.register()
                posting = Posting(link, author, options)
            posting.add(batch)
        if posting is None:
            return Staged(0)
        rows = posting.finish()
        beats.stop()
        if owner is None:
            return Staged(rows)
        if is_brief and _IS_REUSED in os.environ:
            _keeper().keep(link, owner)
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
    """Abort at once what would time out: until then it holds up those who read the topic."""
    try:
        link.abort(owner)
    except GoQueueError:
        # Whatever made the task fail is worth more than this.
        return


class Beats:
    """Tells the broker that a producer lives, from a thread of its own."""

    def __init__(self, link: Broker) -> None:
        self._link = link
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
        while not self._over.wait(_BEAT_S):
            try:
                self._link.beat(owner)
            except (ProducerFenced, NotFound):
                # Told by the next request of the task, too.
                return
            except GoQueueError:
                # The broker is away: it may be back for the next beat.
                continue


class Keeper:
    """Prepares what a driver has not decided in time, from a thread of its own."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Broker, Owner]] = deque()
        self._arrived = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True, name="keeper").start()

    def keep(self, link: Broker, owner: Owner) -> None:
        self._waiting.append((time.monotonic() + _OPEN_S_MAX, link, owner))
        self._arrived.release()

    def _run(self) -> None:
        while True:
            self._arrived.acquire()
            due, link, owner = self._waiting.popleft()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                link.prepare(owner)
            except GoQueueError:
                # Decided, as it should be; or lost, which the driver is told when it decides.
                continue


# One per process: a thread does not outlive a fork.
_KEEPERS: dict[int, Keeper] = {}


def _keeper() -> Keeper:
    process = os.getpid()
    if process not in _KEEPERS:
        _KEEPERS[process] = Keeper()
    return _KEEPERS[process]


class Posting:
    """Gathers what was pressed by partition; one request at a time is under way for each.

    Rows that no topic takes become dead letters in the same transaction, if there is a topic for
    those, and else make the task fail.
    """

    def __init__(self, link: Broker, author: Author, options: WriteOptions) -> None:
        self._link = link
        self._author = author
        self._options = options
        self._presses: dict[str, Press] = {}
        self._limits: dict[str, int] = {}
        self._gathered: dict[tuple[str, int], Gathered] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._size = 0
        self._rows = 0
        self._sender = ThreadPoolExecutor(1, "publish")
        self._under_way: Future[None] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self._options.partitioner == "column":
            batch = self._without_null(batch, "partition")
        if self._options.topic is not None:
            self._press(self._options.topic, batch)
            return
        batch = self._without_null(batch, "topic")
        topics = batch.column("topic")
        names = pc.unique(topics).to_pylist()
        for name in names:
            rows = batch.filter(pc.equal(topics, name)) if len(names) > 1 else batch
            self._press(self._options.topic_prefix + name, rows)

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

    def _press(self, topic: str, batch: pa.RecordBatch) -> None:
        if batch.nbytes > _PRESSED_BYTES and batch.num_rows > 1:
            half = batch.num_rows // 2
            self._press(topic, batch.slice(0, half))
            self._press(topic, batch.slice(half))
            return
        try:
            press = self._press_of(topic)
        except OptionInvalid as unknown:
            self._refuse(topic, batch, unknown)
            return
        while batch.num_rows:
            try:
                pressed = press.press(to_sheet(batch, time.time_ns() // 1000))
            except Refused as refused:
                row = int(str(refused.facts["index"]))
                self._refuse(topic, batch.slice(row, 1), _column_invalid(refused))
                self._press(topic, batch.slice(0, row))
                batch = batch.slice(row + 1)
            else:
                self._gather(topic, pressed)
                return

    def _refuse(self, topic: str, rows: pa.RecordBatch, why: ValueError) -> None:
        """Make dead letters of rows that cannot be published, or fail because of them."""
        target = self._options.dlq_topic
        if target is None or target == topic:
            raise why
        if target not in self._limits:
            self._press_of(target, "dlqTopic")
        now = dt.datetime.now(dt.UTC)
        for row in range(rows.num_rows):
            letter = refused_row(rows.slice(row, 1), topic, str(why), now, self._limits[target])
            self._press(target, letter)

    def _gather(self, topic: str, pressed: Pressed) -> None:
        size = sum(map(len, pressed.batches.values()))
        if self._size + size > _GATHERED_BYTES:
            self._send()
        for partition, data in pressed.batches.items():
            gathered = self._gathered.setdefault((topic, partition), Gathered())
            gathered.add(data, pressed.counts[partition])
        self._size += size
        self._rows += sum(pressed.counts.values())

    def _press_of(self, topic: str, option: str = "topic") -> Press:
        if topic not in self._presses:
            try:
                view = self._link.view(topic, "read_uncommitted")
            except TopicNotFound as error:
                raise OptionInvalid(option, f"there is no topic {topic!r}") from error
            is_keyed = self._options.partitioner != "round-robin"
            self._limits[topic] = view.message_bytes_max
            self._presses[topic] = Press(len(view.edges), view.message_bytes_max, is_keyed=is_keyed)
        return self._presses[topic]

    def _send(self) -> None:
        """Hand what was gathered to the sender, after what it sends now."""
        if not self._gathered:
            return
        batches = []
        for (topic, partition), gathered in self._gathered.items():
            sequence = self._sequences.get((topic, partition), 0)
            self._sequences[topic, partition] = sequence + gathered.count
            batches.append(
                Batch(
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
        self._under_way = self._sender.submit(self._link.publish, batches, self._author)


def _column_invalid(refused: Refused) -> ColumnInvalid:
    facts = ", ".join(f"{name} {fact}" for name, fact in refused.facts.items())
    column = str(refused.facts.get("part", "partition"))
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
