"""Topics read by Spark: a table with bounds, or a stream that goes on.

Owns what Spark calls on the driver and in tasks. What is read follows from positions alone, so a
restart reads the same again. Nothing here holds a connection: instances are pickled.

Invariant: a task yields every visible record of its range that is asked for, in order, or fails.
Records that retention took are an error unless `failOnDataLoss` is false.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from goqueue.records.arrow import Lift
from goqueue.spark.columns import Batches
from goqueue.spark.offsets import Positions, Range, advance, backlog, plan, split
from goqueue.spark.options import OptionInvalid, ReadOptions
from goqueue.spark.reading.loss import lose
from goqueue.spark.reading.portions import portions
from goqueue.spark.reading.topics import (
    born_of,
    check_bounds,
    check_known,
    edges_of,
    ends_of,
    find_place,
    frozen,
    reborn,
    views_of,
    within,
)

__all__ = ["TopicReader", "TopicStreamReader"]

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
    batches = Batches(options.shape, options.filters, wanted.topic, wanted.partition, _now)
    for offset, portion in portions(options, wanted):
        lift = Lift(
            portion.data,
            offset,
            wanted.end,
            portion.aborted,
            with_headers=batches.needs_headers,
            with_keys=batches.needs_keys,
            with_values=batches.needs_values,
        )
        while (frame := lift.take(options.batch_rows, options.batch_bytes)) is not None:
            batch = batches.batch(frame)
            if batch.num_rows:
                yield batch


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
