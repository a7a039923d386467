"""Rows on their way: pressed into batches by partition, gathered, and sent while more come.

Owns the numbering of batches, so that a request may be repeated.

Invariant: after `finish` every row is taken exactly once, or the task has failed.
"""

import datetime as dt
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client import TopicNotFound
from goqueue.model import Refused
from goqueue.records.arrow import Press, Pressed
from goqueue.spark.broker import Author, Batch, Broker
from goqueue.spark.columns import ColumnInvalid, refused_row, to_sheet
from goqueue.spark.options import OptionInvalid, WriteOptions

__all__ = ["Posting"]

# What is pressed at once, and what is gathered for a request: well below the limit of a body.
_PRESSED_BYTES = 4 << 20
_GATHERED_BYTES = 8 << 20


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
