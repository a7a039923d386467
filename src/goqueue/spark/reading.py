"""Topics read by Spark: a table with bounds, or a stream that goes on.

Owns what Spark calls on the driver and in tasks. What is read follows from positions alone, so a
restart reads the same again. Nothing here holds a connection: instances are pickled.

Invariant: a task yields every visible record of its range, in order, or fails. Records that
retention took are an error unless `failOnDataLoss` is false.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
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
from goqueue.records.arrow import Lift
from goqueue.spark.broker import Broker, Portion, TopicView, Truncated, broker
from goqueue.spark.columns import to_batch
from goqueue.spark.offsets import Edge, Positions, Range, advance, plan, resolve, split
from goqueue.spark.options import OptionInvalid, Place, ReadOptions

__all__ = ["DataLost", "TopicReader", "TopicStreamReader"]

_LOG = logging.getLogger(__name__)
# Looks for committed records past the end of a portion that turned out to hold none.
_IDLE_FETCHES_MAX = 3

Json = dict[str, Any]


class DataLost(RuntimeError):
    """Records that were to be read are gone; `failOnDataLoss=false` goes on without them."""


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
        views = _views(self._options)
        edges, born = _edges(views), _born(views)
        start = _resolve(self._options, self._options.start, edges, born)
        end = _resolve(self._options, self._options.end, edges, born)
        _check_bounds(self._options, start, edges)
        end = _within(end, edges)
        tasks = [Task(each) for each in split(plan(start, end), edges, self._options.span)]
        # Of an empty list Spark would make a task of its own.
        return tasks or [Task(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read. One instance lives on the driver as long as the query."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._initial: Json | None = None
        self._latest: Json | None = None
        self._target: dict[str, dict[int, int]] | None = None

    def initialOffset(self) -> Json:  # noqa: N802 - the name is Spark's
        if self._initial is None:
            views = _views(self._options)
            edges = _edges(views)
            start = _resolve(self._options, self._options.start, edges, _born(views))
            _check_bounds(self._options, start, edges)
            self._initial = start.to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        span = self._options.span
        if span.trigger_records_max:
            return ReadMaxRows(span.trigger_records_max)
        if span.trigger_bytes_max:
            return ReadMaxBytes(span.trigger_bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        edges = _edges(_views(self._options))
        self._target = {
            topic: {number: edge.end for number, edge in each.items()}
            for topic, each in edges.items()
        }

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        views = _views(self._options)
        edges, born = _edges(views), _born(views)
        self._latest = Positions(_ends(edges), born).to_json()
        begin = Positions.from_json(start)
        _check_known(self._options, begin, born)
        if self._target is not None:
            edges = _frozen(edges, self._target)
        is_all = isinstance(limit, ReadAllAvailable)
        return advance(
            _reborn(begin, born), edges, born, self._options.span, is_all=is_all
        ).to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - the name is Spark's
        return self._latest

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        upto = Positions.from_json(end)
        ranges = plan(_reborn(Positions.from_json(start), upto.born), upto)
        views = _views(self._options) if ranges else []
        for view in views:
            if upto.born.get(view.name, view.born) != view.born:
                _lose(self._options, f"topic {view.name!r} was deleted and made anew")
        return [Task(each) for each in split(ranges, _edges(views), self._options.span)] or [
            Task(None)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def commit(self, end: Json) -> None:
        """Nothing: the checkpoint holds the progress."""

    def stop(self) -> None:
        """Nothing: the process ends with the query, and Spark seldom calls this."""


# ---- on the driver -------------------------------------------------------------------------


def _views(options: ReadOptions) -> list[TopicView]:
    link = broker(options.link)
    views = []
    for topic in options.topics:
        try:
            view = link.view(topic, options.isolation)
        except TopicNotFound as error:
            option = "assign" if options.assigned else "subscribe"
            raise OptionInvalid(option, f"there is no topic {topic!r}") from error
        wanted = options.assigned.get(topic)
        if wanted is not None:
            missing = [number for number in wanted if number not in view.edges]
            if missing:
                raise OptionInvalid("assign", f"{topic!r} has no partition {missing[0]}")
            kept = {number: view.edges[number] for number in wanted}
            view = msgspec.structs.replace(view, edges=kept)
        views.append(view)
    return views


def _edges(views: Sequence[TopicView]) -> dict[str, dict[int, Edge]]:
    return {view.name: view.edges for view in views}


def _born(views: Sequence[TopicView]) -> dict[str, str]:
    return {view.name: view.born for view in views}


def _ends(edges: Mapping[str, Mapping[int, Edge]]) -> dict[str, dict[int, int]]:
    return {
        topic: {number: edge.end for number, edge in each.items()} for topic, each in edges.items()
    }


def _frozen(
    edges: dict[str, dict[int, Edge]], target: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, Edge]]:
    """The partitions as they were when the target was set; later ones are not there yet."""
    return {
        topic: {
            number: msgspec.structs.replace(edge, end=min(edge.end, target[topic][number]))
            for number, edge in each.items()
            if number in target.get(topic, {})
        }
        for topic, each in edges.items()
    }


def _resolve(
    options: ReadOptions, place: Place, edges: dict[str, dict[int, Edge]], born: dict[str, str]
) -> Positions:
    link = broker(options.link)
    known: Mapping[str, Mapping[int, int]] = {}
    time_us = place.time_us
    if place.ago_ms is not None:
        time_us = time.time_ns() // 1000 - place.ago_ms * 1000
    if time_us is not None:
        known = {
            topic: {
                number: link.offset_at(topic, number, time_us, edge.end)
                for number, edge in each.items()
            }
            for topic, each in edges.items()
        }
    elif place.word == "committed" and options.group is not None:
        known = link.committed(options.group)
    return resolve(place, edges, born, known)


def _check_bounds(
    options: ReadOptions, start: Positions, edges: Mapping[str, Mapping[int, Edge]]
) -> None:
    """Offsets that a user gave are within the log, or it is told which are not."""
    for topic, offsets in options.start.offsets.items():
        for number in offsets:
            offset, edge = start.offsets[topic][number], edges[topic][number]
            if offset > edge.end:
                words = f"{topic}/{number} ends at {edge.end}, before {offset}"
                raise OptionInvalid(options.start.option, words)
            if offset < edge.earliest:
                _lose(options, f"{topic}/{number} begins at {edge.earliest}, after {offset}")


def _within(end: Positions, edges: Mapping[str, Mapping[int, Edge]]) -> Positions:
    """No further than there is something: what a bounded read waits for may never come."""
    offsets = {
        topic: {number: min(offset, edges[topic][number].end) for number, offset in each.items()}
        for topic, each in end.offsets.items()
    }
    return Positions(offsets, end.born)


def _check_known(options: ReadOptions, begin: Positions, born: Mapping[str, str]) -> None:
    """Refuse a checkpoint of other topics, and topics that are others by the same name."""
    for topic in begin.offsets:
        if topic not in born:
            words = f"the checkpoint is of topic {topic!r}, which is not read: use another one"
            raise OptionInvalid("assign" if options.assigned else "subscribe", words)
        if begin.born[topic] != born[topic]:
            _lose(options, f"topic {topic!r} was deleted and made anew")


def _reborn(begin: Positions, born: Mapping[str, str]) -> Positions:
    """Without the offsets of topics that were made anew: those are read from their beginning."""
    kept = {
        topic: each
        for topic, each in begin.offsets.items()
        if begin.born[topic] == born.get(topic, begin.born[topic])
    }
    return Positions(kept, begin.born)


def _lose(options: ReadOptions, words: str) -> None:
    if options.fails_on_loss:
        raise DataLost(f"{words}; `failOnDataLoss=false` goes on without what is lost")
    _LOG.warning("%s; going on without what is lost", words)


# ---- in a task -----------------------------------------------------------------------------


def _read(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Task), "Spark hands back what was planned"
    if partition.range is None:
        return
    headers_as = options.headers_as if options.with_headers else None
    wanted = partition.range
    for offset, portion in _portions(options, wanted):
        lift = Lift(
            portion.data,
            offset,
            wanted.end,
            portion.aborted,
            with_headers=options.with_headers,
        )
        while (frame := lift.take(options.batch_rows, options.batch_bytes)) is not None:
            yield to_batch(frame, wanted.topic, wanted.partition, headers_as)


def _portions(options: ReadOptions, wanted: Range) -> Iterator[tuple[int, Portion]]:
    """The stored records of a range; the next portion is fetched while one is worked on."""
    link = broker(options.link)
    offset = wanted.start
    bytes_max = options.link.fetch_bytes_max
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
                    _lose(
                        options, f"{words}, before {wanted.end} where it ended when it was planned"
                    )
                    return
            if following >= wanted.end:
                yield offset, portion
                return
            bytes_max = _appetite(portion, offset, wanted.end, options.link.fetch_bytes_max)
            coming = ahead.submit(_fetch, link, options, wanted, following, bytes_max)
            yield offset, portion


def _fetch(
    link: Broker, options: ReadOptions, wanted: Range, offset: int, bytes_max: int
) -> tuple[int, Portion]:
    """The portion from an offset on, and that offset: a later one if records are gone."""
    while True:
        try:
            portion = link.fetch(
                wanted.topic, wanted.partition, offset, bytes_max, options.isolation
            )
        except Truncated as truncated:
            if not wanted.is_new:
                words = f"{wanted.topic}/{wanted.partition} begins at {truncated.earliest}"
                _lose(options, f"{words}, after {offset}: retention was faster than this read")
            if truncated.earliest <= offset:
                raise
            offset = truncated.earliest
        else:
            return offset, portion


def _appetite(portion: Portion, offset: int, end: int, bytes_max: int) -> int:
    """How much to fetch next: not much more than what the rest of the range should weigh."""
    seen = portion.next_offset - offset
    if seen <= 0 or not portion.data:
        return bytes_max
    rest = (end - portion.next_offset) * len(portion.data) / seen
    return max(64 * 1024, min(bytes_max, int(rest * 1.05) + 4096))
