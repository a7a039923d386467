"""The options of a source: read once, checked all, before any job starts. Never asks a broker."""

import re
from collections.abc import Mapping

import msgspec

from goqueue.spark.options.filters import Filters, filters_of
from goqueue.spark.options.given import Given, OptionInvalid, name_of
from goqueue.spark.options.link import MEBIBYTE, Link, link_of
from goqueue.spark.options.places import Place, place_of
from goqueue.spark.options.shape import Shape, shape_of
from goqueue.spark.options.table import BATCH_READ, OPTIONS, STREAM_READ

__all__ = ["ReadOptions", "Span", "is_for_streams", "read_options"]

_ASSIGNED: msgspec.json.Decoder[dict[str, list[int]]] = msgspec.json.Decoder(dict[str, list[int]])
_WAYS = ("subscribe", "subscribePattern", "assign")
_STREAMS_ONLY = frozenset(
    option.name.lower()
    for rows in OPTIONS.values()
    for option in rows
    if option.uses == (STREAM_READ,)
)
# No partition is as large.
_WHOLE = 1 << 62


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one trigger and on one task; 0 is none."""

    trigger_records_max: int = 0
    trigger_bytes_max: int = 0
    trigger_partition_max: int = 0
    trigger_records_min: int = 0
    trigger_delay_ms: int = 900_000
    task_records_max: int = 0
    task_bytes_max: int = 128 * MEBIBYTE
    tasks_min: int = 0


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is read, from where to where, and in which portions.

    The topics are those named, or those that match the pattern. No partitions means all.
    """

    link: Link
    topics: tuple[str, ...]
    assigned: dict[str, list[int]]
    start: Place
    end: Place
    span: Span
    pattern: str | None = None
    shape: Shape = Shape()
    filters: Filters = Filters()
    group: str | None = None
    isolation: str = "read_committed"
    fails_on_loss: bool = True
    batch_rows: int = 10_000
    batch_bytes: int = 4 * MEBIBYTE

    @property
    def way(self) -> str:
        """The option that says what is read."""
        return "subscribePattern" if self.pattern else "assign" if self.assigned else "subscribe"

    def reads(self, topic: str) -> bool:
        """Whether a topic of this name is meant."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None


def is_for_streams(given: Mapping[str, str]) -> bool:
    """Whether there is an option that only a stream has."""
    return any(name.lower() in _STREAMS_ONLY for name in given)


def read_options(given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """The options of a source."""
    options = Given(given, STREAM_READ if is_stream else BATCH_READ)
    start = place_of(options, "starting", "latest" if is_stream else "earliest")
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("latest", "error"))
    if options.text("startingOffsetsByTimestampStrategy") is not None and not _is_timed(start):
        words = "needs `startingTimestamp` or `startingOffsetsByTimestamp`"
        raise OptionInvalid("startingOffsetsByTimestampStrategy", words)
    start = msgspec.structs.replace(start, is_late_error=strategy == "error")
    group = options.name("groupId")
    if start.word == "committed" and group is None:
        raise OptionInvalid("groupId", "`startingOffsets` is `committed`: of which group?")
    assigned = options.decoded("assign", _ASSIGNED, '{"topic":[0,2]}') or {}
    if any(partition < 0 for each in assigned.values() for partition in each):
        raise OptionInvalid("assign", "a partition is not negative")
    made = ReadOptions(
        link=link_of(options),
        topics=_topics(options, assigned),
        assigned={topic: sorted(set(each)) for topic, each in assigned.items()},
        start=start,
        end=place_of(options, "ending", "latest"),
        span=_span(options, is_stream=is_stream),
        pattern=_pattern(options),
        shape=shape_of(options),
        filters=filters_of(options),
        group=group,
        isolation=f"read_{options.choice('isolation', ('committed', 'uncommitted'))}",
        fails_on_loss=options.flag("failOnDataLoss", True),
        batch_rows=options.number("batchRows", 10_000, 1, 1_000_000),
        batch_bytes=options.number("batchBytes", 4 * MEBIBYTE, 1024, 512 * MEBIBYTE),
    )
    _check_places(made)
    return made


def _topics(options: Given, assigned: Mapping[str, object]) -> tuple[str, ...]:
    ways = [name for name in _WAYS if options.text(name) is not None]
    if len(ways) != 1:
        raise OptionInvalid("subscribe", f"give exactly one of {', '.join(_WAYS)}")
    subscribed = options.text("subscribe")
    if subscribed is not None:
        names = {name.strip() for name in subscribed.split(",")}
        return tuple(name_of("subscribe", name) for name in sorted(names))
    if ways == ["assign"] and not (assigned and all(assigned.values())):
        raise OptionInvalid("assign", "names no partition")
    return tuple(name_of("assign", name) for name in sorted(assigned))


def _pattern(options: Given) -> str | None:
    text = options.text("subscribePattern")
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise OptionInvalid("subscribePattern", f"is no regular expression: {error}") from error
    return text


def _span(options: Given, *, is_stream: bool) -> Span:
    records = options.number("maxOffsetsPerTrigger", 0)
    same = options.number("maxRecordsPerTrigger", 0)
    if records and same:
        raise OptionInvalid("maxOffsetsPerTrigger", "is another name of `maxRecordsPerTrigger`")
    records = records or same
    least = options.number("minOffsetsPerTrigger", 0)
    if records and least > records:
        raise OptionInvalid("minOffsetsPerTrigger", "is more than `maxOffsetsPerTrigger`")
    if options.text("maxTriggerDelay") is not None and not least:
        raise OptionInvalid("maxTriggerDelay", "needs `minOffsetsPerTrigger`")
    # Tasks run side by side: a key whose rows two of them bring would lose its order in a topic.
    task_bytes_max = _WHOLE if is_stream else 128 * MEBIBYTE
    return Span(
        trigger_records_max=records,
        trigger_bytes_max=options.number("maxBytesPerTrigger", 0),
        trigger_partition_max=options.number("maxOffsetsPerPartition", 0),
        trigger_records_min=least,
        trigger_delay_ms=options.duration_ms("maxTriggerDelay", 900_000),
        task_records_max=options.number("maxRecordsPerPartition", 0),
        task_bytes_max=options.number("maxBytesPerPartition", task_bytes_max, 1024),
        tasks_min=options.number("minPartitions", 0, 1, 100_000),
    )


def _is_timed(place: Place) -> bool:
    return place.time_us is not None or place.ago_ms is not None or bool(place.times_us)


def _check_places(options: ReadOptions) -> None:
    """Refuse an end that is none, topics that are not read, and an end before the start."""
    start, end = options.start, options.end
    if end.word in {"committed", "earliest"} or end.back:
        raise OptionInvalid(end.option, "is latest, a time, or JSON with offsets")
    for place in (start, end):
        for topic in place.topics:
            if not options.reads(topic):
                raise OptionInvalid(place.option, f"names {topic!r}, which is not read")
    if start.time_us is not None and end.time_us is not None and start.time_us > end.time_us:
        raise OptionInvalid(end.option, f"is before `{start.option}`")
    for kept, upto in ((start.offsets, end.offsets), (start.times_us, end.times_us)):
        for topic, partitions in kept.items():
            for number, first in partitions.items():
                last = upto.get(topic, {}).get(number)
                if last is not None and 0 <= last < first:
                    raise OptionInvalid(
                        end.option, f"is before `{start.option}` in {topic}/{number}"
                    )
