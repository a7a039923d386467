"""Topics read by Spark: a bounded table, or a stream.

Owns what Spark calls on the driver and in tasks. The driver asks the broker which topics there are
and where they begin and end, and leaves the arithmetic to `offsets`. A task fetches its range in
portions, the next one while Spark processes the rows of this one. What is read follows from
positions alone, so a restart reads the same again. Instances are pickled and hold no connection.

Invariant: a task yields every visible record of its range that is asked for, in order, or fails.
Records that retention removed are an error unless `failOnDataLoss` is false. Memory: two portions.
"""

import datetime as dt
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from goqueue.client import TopicNotFound
from goqueue.client.stored_records import RecordPage
from goqueue.records.arrow import ArrowReader
from goqueue.spark.broker import Broker, TopicView, Truncated, broker
from goqueue.spark.columns import Batches
from goqueue.spark.offsets import Edge, Positions, Range, advance, backlog, plan, resolve, split
from goqueue.spark.options import OptionInvalid, Place
from goqueue.spark.read_options import ReadOptions

__all__ = [
    "DataLost",
    "SchemaChanged",
    "TopicReader",
    "TopicStreamReader",
    "born_of",
    "check_bounds",
    "check_known",
    "edges_of",
    "ends_of",
    "find_place",
    "frozen",
    "lose",
    "portions",
    "reborn",
    "views_of",
    "within",
]

_LOG = logging.getLogger(__name__)


class DataLost(RuntimeError):
    """Records that were to be read are gone; `failOnDataLoss=false` continues without them."""


class SchemaChanged(RuntimeError):
    """The subject has a newer version; a restart reads with it. For `schemaEvolution=latest`."""


def lose(options: ReadOptions, words: str) -> None:
    """Raise an error because of lost records, or log a warning and continue."""
    if options.fails_on_loss:
        raise DataLost(f"{words}; `failOnDataLoss=false` continues without what is lost")
    _LOG.warning("%s; continuing without what is lost", words)


# Looks for committed records past the end of a portion that turned out to hold none.
_IDLE_FETCHES_MAX = 3
_FIRST_BYTES = 1 << 20


def portions(options: ReadOptions, wanted: Range) -> Iterator[tuple[int, RecordPage]]:
    """The stored records of a range, each portion with the offset that it begins at."""
    link = broker(options.link)
    offset = wanted.start
    bytes_max = min(_FIRST_BYTES, options.link.fetch_bytes_max)
    idle = 0
    with ThreadPoolExecutor(1, "fetch") as ahead:
        coming = ahead.submit(_fetch, link, options, wanted, offset, bytes_max)
        while True:
            offset, portion = coming.result()
            following = portion.next_offset
            if following <= offset:
                idle += 1
                if idle > _IDLE_FETCHES_MAX:
                    words = f"{wanted.topic}/{wanted.partition} ends at {offset}"
                    lose(
                        options, f"{words}, before {wanted.end} where it ended when it was planned"
                    )
                    return
            if following >= wanted.end:
                yield offset, portion
                return
            # Twice as much each time: Spark has something to do soon, and requests become few.
            bytes_max = min(2 * bytes_max, options.link.fetch_bytes_max)
            bytes_max = _appetite(portion, offset, wanted.end, bytes_max)
            coming = ahead.submit(_fetch, link, options, wanted, following, bytes_max)
            yield offset, portion


def _fetch(
    link: Broker, options: ReadOptions, wanted: Range, offset: int, bytes_max: int
) -> tuple[int, RecordPage]:
    """The portion from an offset on, and that offset: a later one if records are gone."""
    while True:
        try:
            portion = link.fetch(
                wanted.topic, wanted.partition, offset, bytes_max, options.isolation
            )
        except Truncated as truncated:
            if not wanted.is_new:
                words = f"{wanted.topic}/{wanted.partition} begins at {truncated.earliest}"
                lose(options, f"{words}, after {offset}: retention was faster than this read")
            if truncated.earliest <= offset:
                raise
            offset = truncated.earliest
        else:
            return offset, portion


def _appetite(portion: RecordPage, offset: int, end: int, bytes_max: int) -> int:
    """How much to fetch next: not much more than what the rest of the range should weigh."""
    seen = portion.next_offset - offset
    if seen <= 0 or not portion.data:
        return bytes_max
    rest = (end - portion.next_offset) * len(portion.data) / seen
    return max(64 * 1024, min(bytes_max, int(rest * 1.05) + 4096))


Edges = dict[str, dict[int, Edge]]
_INTERNAL = "__"


def views_of(options: ReadOptions) -> list[TopicView]:
    """The topics as they are now. Those that a pattern names may be none."""
    link = broker(options.link)
    topics: Sequence[str] = options.topics
    if options.pattern is not None:
        names = link.topics()
        topics = [each for each in names if options.reads(each) and not each.startswith(_INTERNAL)]
    views = []
    for topic in topics:
        try:
            view = link.view(topic, options.isolation)
        except TopicNotFound as error:
            if options.pattern is not None:
                # Deleted since it was listed.
                continue
            raise OptionInvalid(options.way, f"there is no topic {topic!r}") from error
        wanted = options.assigned.get(topic)
        if wanted is not None:
            missing = [number for number in wanted if number not in view.edges]
            if missing:
                raise OptionInvalid("assign", f"{topic!r} has no partition {missing[0]}")
            kept = {number: view.edges[number] for number in wanted}
            view = msgspec.structs.replace(view, edges=kept)
        views.append(view)
    return views


def edges_of(views: Sequence[TopicView]) -> Edges:
    return {view.name: view.edges for view in views}


def born_of(views: Sequence[TopicView]) -> dict[str, str]:
    return {view.name: view.born for view in views}


def ends_of(edges: Mapping[str, Mapping[int, Edge]]) -> dict[str, dict[int, int]]:
    return {
        topic: {number: edge.end for number, edge in each.items()} for topic, each in edges.items()
    }


def frozen(edges: Edges, target: Mapping[str, Mapping[int, int]]) -> Edges:
    """The partitions as they were when the target was set; later ones are not there yet."""
    return {
        topic: {
            number: msgspec.structs.replace(edge, end=min(edge.end, target[topic][number]))
            for number, edge in each.items()
            if number in target.get(topic, {})
        }
        for topic, each in edges.items()
    }


def find_place(options: ReadOptions, place: Place, edges: Edges, born: dict[str, str]) -> Positions:
    """A place that was asked for, as offsets."""
    for topic in place.topics:
        if topic not in edges:
            raise OptionInvalid(place.option, f"there is no topic {topic!r}")
    link = broker(options.link)
    known: Mapping[str, Mapping[int, int]] = {}
    if place.word == "committed" and options.group is not None:
        known = link.committed(options.group)
    else:
        known = {
            topic: {
                number: _offset_at(options, place, topic, number, edges[topic][number])
                for number in each
                if number in edges[topic] and _time_us(place, topic, number) is not None
            }
            for topic, each in (place.times_us or edges).items()
        }
    return resolve(place, edges, born, known)


def _time_us(place: Place, topic: str, number: int) -> int | None:
    if place.ago_ms is not None:
        return time.time_ns() // 1000 - place.ago_ms * 1000
    if place.time_us is not None:
        return place.time_us
    return place.times_us.get(topic, {}).get(number)


def _offset_at(options: ReadOptions, place: Place, topic: str, number: int, edge: Edge) -> int:
    time_us = _time_us(place, topic, number)
    assert time_us is not None
    offset = min(broker(options.link).offset_at(topic, number, time_us, edge.end), edge.end)
    if place.is_late_error and offset == edge.end:
        words = f"{topic}/{number} has no record that is as late"
        raise OptionInvalid(
            place.option, f"{words}: `startingOffsetsByTimestampStrategy` is `error`"
        )
    return offset


def check_bounds(
    options: ReadOptions, start: Positions, edges: Mapping[str, Mapping[int, Edge]]
) -> None:
    """Check that the offsets of the options are within the log; an error names any other."""
    for topic, offsets in options.start.offsets.items():
        for number in offsets:
            offset, edge = start.offsets[topic][number], edges[topic][number]
            if offset > edge.end:
                words = f"{topic}/{number} ends at {edge.end}, before {offset}"
                raise OptionInvalid(options.start.option, words)
            if offset < edge.earliest:
                lose(options, f"{topic}/{number} begins at {edge.earliest}, after {offset}")


def within(end: Positions, edges: Mapping[str, Mapping[int, Edge]]) -> Positions:
    """No further than there is something: what a bounded read waits for may never come."""
    offsets = {
        topic: {number: min(offset, edges[topic][number].end) for number, offset in each.items()}
        for topic, each in end.offsets.items()
    }
    return Positions(offsets, end.born)


def check_known(options: ReadOptions, begin: Positions, born: Mapping[str, str]) -> None:
    """Refuse a checkpoint of other topics, and topics that are others by the same name."""
    for topic in begin.offsets:
        if not options.reads(topic):
            words = f"the checkpoint is of topic {topic!r}, which is not read: use another one"
            raise OptionInvalid(options.way, words)
        if topic not in born:
            lose(options, f"topic {topic!r} was deleted")
        elif begin.born[topic] != born[topic]:
            lose(options, f"topic {topic!r} was deleted and made anew")


def reborn(begin: Positions, born: Mapping[str, str]) -> Positions:
    """Without the offsets of topics that were created again: those are read from the beginning."""
    kept = {
        topic: each
        for topic, each in begin.offsets.items()
        if begin.born[topic] == born.get(topic, begin.born[topic])
    }
    return Positions(kept, begin.born)


# Spark takes no limit of several kinds: this stands for those that are not of its own.
_SOME_LIMIT = ReadMaxRows((1 << 63) - 1)

Json = dict[str, Any]


class Task(InputPartition):
    """The range of one task; None where there is nothing to read at all."""

    def __init__(self, value: Range | None) -> None:
        super().__init__(value)
        self.range = value


class TopicReader(DataSourceReader):
    """A bounded read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        views = views_of(options)
        if not views:
            raise OptionInvalid(options.way, f"there is no topic that matches {options.pattern!r}")
        edges, born = edges_of(views), born_of(views)
        start = find_place(options, options.start, edges, born)
        end = find_place(options, options.end, edges, born)
        check_bounds(options, start, edges)
        return _tasks(split(plan(start, within(end, edges)), edges, options.span))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read. One instance lives on the driver as long as the query."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._initial: Json | None = None
        self._latest: Json | None = None
        self._target: dict[str, dict[int, int]] | None = None
        self._moved_at: float | None = None

    def initialOffset(self) -> Json:  # noqa: N802 - the name is Spark's
        if self._initial is None:
            views = views_of(self._options)
            edges = edges_of(views)
            start = find_place(self._options, self._options.start, edges, born_of(views))
            check_bounds(self._options, start, edges)
            self._initial = start.to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        span = self._options.span
        if span.trigger_records_max:
            return ReadMaxRows(span.trigger_records_max)
        if span.trigger_bytes_max:
            return ReadMaxBytes(span.trigger_bytes_max)
        is_limited = span.trigger_partition_max or span.trigger_records_min
        return _SOME_LIMIT if is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        self._target = ends_of(edges_of(views_of(self._options)))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        views = views_of(self._options)
        edges, born = edges_of(views), born_of(views)
        # After the ends: what lies before them was written with versions that are seen now.
        self._check_schema()
        self._latest = Positions(ends_of(edges), born).to_json()
        begin = Positions.from_json(start)
        check_known(self._options, begin, born)
        if self._target is not None:
            edges = frozen(edges, self._target)
        is_all = isinstance(limit, ReadAllAvailable)
        begin = reborn(begin, born)
        if not is_all and self._target is None and self._is_too_little(backlog(begin, edges)):
            return start
        end = advance(begin, edges, born, self._options.span, is_all=is_all).to_json()
        if end != start:
            self._moved_at = self._clock()
        return end

    def _check_schema(self) -> None:
        """End the query before rows of a newer version are planned, if it is to be restarted."""
        decoding = self._options.shape.decoding
        if decoding is None or not decoding.follows_latest:
            return
        assert decoding.registry is not None
        assert decoding.registered is not None
        subject, own = decoding.registry.subject, decoding.registered.schema.id
        latest = broker(self._options.link).latest_schema_id(subject)
        if latest is not None and latest != own:
            words = f"the latest schema of {subject} is {latest}, and columns are those of {own}"
            raise SchemaChanged(f"{words}: load the stream again and restart the query")

    def _is_too_little(self, waiting: int) -> bool:
        """Whether a micro-batch is better put off. The first one never is."""
        span = self._options.span
        if waiting >= span.trigger_records_min or self._moved_at is None:
            return False
        return self._clock() - self._moved_at < span.trigger_delay_ms / 1000

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - the name is Spark's
        return self._latest

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        upto = Positions.from_json(end)
        ranges = plan(reborn(Positions.from_json(start), upto.born), upto)
        views = views_of(self._options) if ranges else []
        for view in views:
            if upto.born.get(view.name, view.born) != view.born:
                lose(self._options, f"topic {view.name!r} was deleted and made anew")
        return _tasks(split(ranges, edges_of(views), self._options.span))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def commit(self, end: Json) -> None:
        """Nothing: the checkpoint holds the progress."""

    def stop(self) -> None:
        """Nothing: the process ends with the query, and Spark seldom calls this."""


def _tasks(ranges: Sequence[Range]) -> list[InputPartition]:
    # Of an empty list Spark would make a task of its own.
    return [Task(each) for each in ranges] or [Task(None)]


def _read(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in batches that are never empty."""
    assert isinstance(partition, Task), "Spark hands back what was planned"
    if partition.range is None:
        return
    wanted = partition.range
    batches = Batches(
        options.shape,
        options.filters,
        wanted.topic,
        wanted.partition,
        _now,
        find_schema=lambda id_: broker(options.link).schema(id_),
    )
    for offset, portion in portions(options, wanted):
        reader = ArrowReader(
            portion.data,
            offset,
            wanted.end,
            [(first, last + 1) for first, last in portion.aborted],
            with_headers=batches.needs_headers,
            with_keys=batches.needs_keys,
            with_values=batches.needs_values,
        )
        while (columns := reader.read(options.batch_rows, options.batch_bytes)) is not None:
            batch = batches.batch(columns)
            if batch.num_rows:
                yield batch


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
