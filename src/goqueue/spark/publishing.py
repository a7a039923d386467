"""What one task publishes: rows pressed into batches, gathered, sent, and staged as a whole.

Owns the numbering of batches, so that a request may be repeated. In a transaction nothing of it
is seen before the driver decides; a beat tells the broker that the task lives while Spark is slow.

Invariant: after `finish` every row is taken exactly once, or the task has failed.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client import GoQueueError, TopicNotFound
from goqueue.model import Refused
from goqueue.model.requests import Owner
from goqueue.records.arrow import Press
from goqueue.spark.broker import Author, Batch, Broker, broker
from goqueue.spark.columns import ColumnInvalid, to_sheet
from goqueue.spark.options import OptionInvalid, WriteOptions

__all__ = ["Staged", "publish"]

# What is pressed at once, and what is gathered for a request: well below the limit of a body.
_PRESSED_BYTES = 4 << 20
_GATHERED_BYTES = 8 << 20
_BEAT_S = 10.0


class Staged(msgspec.Struct, frozen=True):
    """What a task left behind: a prepared transaction, or nothing that is left to decide."""

    rows: int
    owner: Owner | None = None
    transaction_id: str | None = None


def publish(
    options: WriteOptions, transactional_id: str, batches: Iterable[pa.RecordBatch]
) -> Staged:
    """Publish rows as the options say. Without rows nothing is begun."""
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
                posting = Posting(link, author, options.topic)
            posting.add(batch)
        if posting is None:
            return Staged(0)
        rows = posting.finish()
        beats.stop()
        return Staged(rows) if owner is None else Staged(rows, owner, link.prepare(owner))
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
            except GoQueueError:
                # Whoever was fenced learns it from its next request.
                return


class Posting:
    """Gathers what was pressed by partition; one request at a time is under way for each."""

    def __init__(self, link: Broker, author: Author, topic: str | None) -> None:
        self._link = link
        self._author = author
        self._topic = topic
        self._presses: dict[str, Press] = {}
        self._gathered: dict[tuple[str, int], Gathered] = {}
        self._sequences: dict[tuple[str, int], int] = {}
        self._size = 0
        self._rows = 0
        self._sender = ThreadPoolExecutor(1, "publish")
        self._under_way: Future[None] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self._topic is not None:
            self._press(self._topic, batch)
            return
        topics = batch.column("topic")
        for name in pc.unique(topics).to_pylist():
            if name is None:
                raise ColumnInvalid("topic", "is null in a row")
            rows = batch.filter(pc.equal(topics, name)) if len(pc.unique(topics)) > 1 else batch
            self._press(name, rows)

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
            pressed = self._press_of(topic).press(to_sheet(batch))
        except Refused as refused:
            facts = ", ".join(f"{name} {fact}" for name, fact in refused.facts.items())
            raise ColumnInvalid(
                str(refused.facts.get("part", "partition")), f"{refused.code}: {facts}"
            ) from refused
        size = sum(map(len, pressed.batches.values()))
        if self._size + size > _GATHERED_BYTES:
            self._send()
        for partition, data in pressed.batches.items():
            gathered = self._gathered.setdefault((topic, partition), Gathered())
            gathered.add(data, pressed.counts[partition])
        self._size += size
        self._rows += batch.num_rows

    def _press_of(self, topic: str) -> Press:
        if topic not in self._presses:
            try:
                view = self._link.view(topic, "read_uncommitted")
            except TopicNotFound as error:
                raise OptionInvalid("topic", f"there is no topic {topic!r}") from error
            self._presses[topic] = Press(len(view.edges), view.message_bytes_max)
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
