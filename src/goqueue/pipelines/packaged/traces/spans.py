"""Span files as events: the only place that knows how a line looks.

Lines are those of docs/reference/span-files.md: one span each, with the events that happened in it.
Compressed files are read like others, and files that are not finished (their names begin with a
dot) are passed over. Lines that cannot be read are counted: the last one may be torn.
"""

from typing import TYPE_CHECKING

from goqueue.pipelines.packaged.traces.options import TracesOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BROKEN", "events"]

BROKEN = "_broken"
_LINE = f"""
    trace_id STRING, topic STRING, partition INT, offset BIGINT, consumer_group STRING,
    events ARRAY<STRUCT<timestamp: STRING, event_type: STRING>>, {BROKEN} STRING
"""


def events(spark: "SparkSession", options: TracesOptions) -> "DataFrame":
    """All events: trace_id, topic, partition, offset, consumer_group, event, at_us; or BROKEN."""
    from pyspark.sql import functions as f

    lines = (
        spark.read.schema(_LINE)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", BROKEN)
        .option("recursiveFileLookup", "true")
        .json(list(options.paths))
    )
    # JSON that is no span is as broken as what is no JSON.
    broken = f"coalesce({BROKEN}, if(trace_id IS NULL OR events IS NULL, 'no span', NULL))"
    rows = lines.withColumn(BROKEN, f.expr(broken))
    happened = f.explode_outer(f.when(f.col(BROKEN).isNull(), f.col("events")))
    found = rows.withColumn("happened", happened).selectExpr(
        "trace_id",
        "topic",
        "partition",
        "offset",
        "coalesce(consumer_group, '') AS consumer_group",
        "happened.event_type AS event",
        "unix_micros(try_to_timestamp(happened.timestamp)) AS at_us",
        BROKEN,
    )
    if options.topics:
        found = found.where(found.topic.isin(list(options.topics)) | found[BROKEN].isNotNull())
    return found
