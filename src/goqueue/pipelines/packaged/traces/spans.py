"""Span files as events: the only place that knows how a line looks.

A line is a JSON object. It tells of one event (`event_type` at `timestamp`) or of a span (`name`,
from `start_time` on for `duration`, or to `end_time`), which is an event at its end, and at its
start, too, if something begins there. Times are RFC 3339, durations a number of milliseconds
(`duration_ms`), nanoseconds (`duration_ns`), or seconds (`duration`).

Lines that cannot be read are counted, not passed over in silence: a file may end within a line.
"""

from typing import TYPE_CHECKING

from goqueue.pipelines.packaged.traces.options import TracesOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BROKEN", "events", "events_of"]

BROKEN = "_broken"
_LINE = f"""
    trace_id STRING, span_id STRING, parent_span_id STRING, name STRING, event_type STRING,
    topic STRING, partition INT, offset BIGINT, consumer_group STRING,
    timestamp STRING, start_time STRING, end_time STRING,
    duration DOUBLE, duration_ms DOUBLE, duration_ns BIGINT, {BROKEN} STRING
"""
# Spans whose beginning is an event of its own.
_BEGINNINGS = {"publish": "publish.received", "publish.persisted": "publish.received"}
_NAMES = {
    "publish": "publish.persisted",
    "fetch": "consume.fetched",
    "ack": "consume.acked",
    "nack": "consume.nacked",
    "reject": "consume.rejected",
}


def events(spark: "SparkSession", options: TracesOptions) -> "DataFrame":
    """All events: trace_id, event, topic, partition, offset, consumer_group, at_us; or BROKEN."""
    lines = (
        spark.read.schema(_LINE)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", BROKEN)
        .option("recursiveFileLookup", "true")
        .json(list(options.paths))
    )
    found = events_of(lines)
    if options.topics:
        found = found.where(found.topic.isin(list(options.topics)) | found[BROKEN].isNotNull())
    return found


def events_of(lines: "DataFrame") -> "DataFrame":
    """Events of lines; a line without a trace, a time or an event is broken, too."""
    from pyspark.sql import functions as f

    def mapped(names: dict[str, str], column: str) -> str:
        cases = " ".join(f"WHEN '{name}' THEN '{event}'" for name, event in names.items())
        return f"CASE {column} {cases} END"

    begin = "unix_micros(try_to_timestamp(coalesce(start_time, timestamp)))"
    lasted = "coalesce(duration_ns / 1000, duration_ms * 1000, duration * 1000000, 0)"
    end = f"coalesce(unix_micros(try_to_timestamp(end_time)), cast({begin} + {lasted} AS BIGINT))"
    called = "coalesce(event_type, name)"
    ending = f"coalesce({mapped(_NAMES, called)}, {called})"
    broken = (
        f"CASE WHEN {BROKEN} IS NOT NULL THEN {BROKEN} "
        f"WHEN trace_id IS NULL OR {called} IS NULL OR {begin} IS NULL "
        f"THEN coalesce({called}, 'nameless') END"
    )
    last = f"named_struct('event', {ending}, 'at_us', {end})"
    first = f"named_struct('event', {mapped(_BEGINNINGS, called)}, 'at_us', {begin})"
    parts = lines.selectExpr(
        "trace_id",
        "topic",
        "partition",
        "offset",
        "coalesce(consumer_group, '') AS consumer_group",
        f"{broken} AS {BROKEN}",
        # What tells of one event tells nothing of another one before it.
        f"CASE WHEN {broken} IS NOT NULL THEN NULL WHEN event_type IS NOT NULL THEN array({last}) "
        f"ELSE filter(array({first}, {last}), each -> each.event IS NOT NULL) END AS happened",
    )
    rows = parts.withColumn("each", f.explode_outer("happened"))
    return rows.selectExpr("* EXCEPT (happened, each)", "each.event", "each.at_us")
