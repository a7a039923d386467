"""The options of a source: read once and checked as a whole, before any job starts.

Owns which columns a read has, in which order, and how `value` is decoded. Contradictions are
refused here: a column that is both asked for and left out, or a decoder for a value that is not
read. Never asks a broker.
"""

import re
from collections.abc import Mapping

import msgspec
from pyspark.sql.types import DataType

from goqueue.spark.option_table import BATCH_READ, OPTIONS, STREAM_READ
from goqueue.spark.options import (
    MEBIBYTE,
    Filters,
    Given,
    Link,
    OptionInvalid,
    Place,
    RegistryOptions,
    filters_of,
    link_of,
    name_of,
    place_of,
    registry_of,
)
from goqueue.spark.registered_values import ValueSchema
from goqueue.spark.value_decoder import LETTER, SchemaInvalid, schema_of

__all__ = [
    "BASE",
    "ORIGIN",
    "DecodingOptions",
    "ReadOptions",
    "Shape",
    "Span",
    "is_for_streams",
    "read_options",
    "shape_of",
]

BASE = ("topic", "partition", "offset", "timestamp", "key", "value", "priority")
HEADERS = "headers"
ORIGIN = (
    "origin_topic",
    "origin_partition",
    "origin_offset",
    "origin_group",
    "deliveries",
    "cause",
    "reason",
    "died_at",
)
_FORMATS = ("raw", "json", "avro", "protobuf")
_ONLY_DECODED = ("valueSchema", "mode", "corruptColumn", "schemaEvolution")


class DecodingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What values are, and what becomes of one that is something else.

    The schema is a text of the options, or one of the registry: that is looked up later, and
    `registered` then. With `follows_latest` a stream ends when its subject has a new version. Dead
    letters name `reader` as the group that could not read them.
    """

    schema: DataType | None = None
    registry: RegistryOptions | None = None
    registered: ValueSchema | None = None
    follows_latest: bool = False
    mode: str = "PERMISSIVE"
    corrupt_column: str | None = None
    dlq_topic: str | None = None
    reader: str = "spark"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of what is read, in order."""

    columns: tuple[str, ...] = BASE
    headers_as: str = "map"
    decoding: DecodingOptions | None = None

    @property
    def has_origin(self) -> bool:
        return any(name in self.columns for name in ORIGIN)


def shape_of(given: Given) -> Shape:
    decoding = _decoding(given)
    columns = _columns(given, decoding)
    if given.text("headersAs") is not None and HEADERS not in columns:
        raise OptionInvalid("headersAs", "needs `includeHeaders`")
    return Shape(
        columns=columns,
        headers_as=given.choice("headersAs", ("map", "array")),
        decoding=decoding,
    )


def _columns(given: Given, decoding: DecodingOptions | None) -> tuple[str, ...]:
    has_headers = given.flag("includeHeaders", False)
    has_origin = given.flag("includeOrigin", False)
    extra = None
    if decoding is not None:
        extra = LETTER if decoding.mode == "DLQ" else decoding.corrupt_column
    most = (*BASE, HEADERS, *ORIGIN, *(() if extra is None else (extra,)))
    text = given.text("columns")
    if text is None:
        wanted = {*BASE, extra}
        wanted |= {HEADERS} if has_headers else set()
        wanted |= set(ORIGIN) if has_origin else set()
        return tuple(name for name in most if name in wanted)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in most:
            raise OptionInvalid("columns", f"{name!r} is none of {', '.join(most)}")
    if len(set(names)) < len(names):
        raise OptionInvalid("columns", "names a column twice")
    if has_headers and HEADERS not in names:
        raise OptionInvalid("includeHeaders", "contradicts `columns`, which leaves `headers` out")
    if has_origin and not set(ORIGIN) & set(names):
        raise OptionInvalid("includeOrigin", "contradicts `columns`, which leaves its columns out")
    if decoding is not None and "value" not in names:
        raise OptionInvalid("valueFormat", "contradicts `columns`, which leaves `value` out")
    if extra == LETTER and LETTER not in names:
        raise OptionInvalid("columns", f"leaves out `{LETTER}`, which mode `DLQ` is for")
    return names


def _decoding(given: Given) -> DecodingOptions | None:
    kind = given.choice("valueFormat", _FORMATS)
    registry = registry_of(given)
    mode = given.choice("mode", ("PERMISSIVE", "FAILFAST", "DLQ"))
    dlq_topic = given.name("dlqTopic")
    if (mode == "DLQ") is not (dlq_topic is not None):
        wrong = "dlqTopic" if mode == "DLQ" else "mode"
        raise OptionInvalid(wrong, "mode `DLQ` and `dlqTopic` go together")
    if kind == "raw":
        for name in _ONLY_DECODED:
            if given.text(name) is not None:
                raise OptionInvalid(name, "needs `valueFormat`: json, avro or protobuf")
        return None
    return DecodingOptions(
        schema=_schema(given, kind, registry),
        registry=registry,
        follows_latest=_follows_latest(given, registry),
        mode=mode,
        corrupt_column=_corrupt_column(given, mode),
        dlq_topic=dlq_topic,
        reader=given.name("groupId") or "spark",
    )


def _schema(given: Given, kind: str, registry: RegistryOptions | None) -> DataType | None:
    """The schema that the options have as a text."""
    text = given.text("valueSchema")
    if kind != "json":
        if text is not None:
            raise OptionInvalid(
                "valueSchema", f"is for JSON: {kind} has its schema by `schemaSubject`"
            )
        if registry is None:
            raise OptionInvalid("schemaSubject", f"is missing: `valueFormat` is {kind}")
        return None
    if (text is None) is (registry is None):
        words = "give one of `valueSchema` and `schemaSubject`: `valueFormat` is json"
        raise OptionInvalid("valueSchema", words)
    if text is None:
        return None
    try:
        return schema_of(text)
    except SchemaInvalid as error:
        raise OptionInvalid("valueSchema", str(error)) from error


def _follows_latest(given: Given, registry: RegistryOptions | None) -> bool:
    follows_latest = given.choice("schemaEvolution", ("fixed", "latest")) == "latest"
    if follows_latest and registry is None:
        raise OptionInvalid("schemaEvolution", "needs `schemaSubject`")
    if follows_latest and registry is not None and registry.version is not None:
        raise OptionInvalid("schemaEvolution", "contradicts `schemaVersion`, which names one")
    return follows_latest


def _corrupt_column(given: Given, mode: str) -> str | None:
    name = given.text("corruptColumn")
    if mode != "PERMISSIVE":
        if name is not None:
            raise OptionInvalid("corruptColumn", f"contradicts mode `{mode}`")
        return None
    name = name or "_corrupt"
    if name in (*BASE, HEADERS, *ORIGIN) or "," in name:
        raise OptionInvalid("corruptColumn", f"{name!r} is the name of another column")
    return name


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
