"""Latencies of each hop, the slowest traces and the unfinished ones, from span files.

Lines are those of docs/reference/span-files.md: one span each, with its events. Compressed files
are read too; unfinished files (their names begin with a dot) are skipped. Unreadable lines are
counted: the last one may be torn.

A journey is the path of one message, at one position, to one group. It has hops:

    publish    received by the broker, until persisted
    wait       fetchable (persisted, fired, dead or redriven), until the group fetches it
    work       first fetched, until acknowledged, redeliveries included
    total      all of these

A message that dies or is redriven continues at another position, where a new journey begins.
"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.packaged_options import TracesOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BROKEN",
    "HopLatency",
    "Incomplete",
    "MessageTrace",
    "TraceReport",
    "events",
    "report_on",
    "trace_report",
]

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


_HOPS = {
    "publish": "persisted - received",
    "wait": "fetched - ready",
    "work": "acked - fetched",
    "total": "acked - coalesce(received, ready)",
}
# Columns of a journey: the first time of an event, but the last of those that make it ready.
_OF_A_PLACE = {
    "received": "min(at_us) FILTER (WHERE event = 'publish.received')",
    "persisted": "min(at_us) FILTER (WHERE event = 'publish.persisted')",
    "scheduled": "min(at_us) FILTER (WHERE event = 'delay.scheduled')",
    "ready": "max(at_us) FILTER (WHERE event IN "
    "('publish.persisted', 'delay.fired', 'dlq.routed', 'dlq.redriven'))",
    "refused": "min(at_us) FILTER (WHERE event = 'publish.validation_failed')",
}
_OF_A_GROUP = {
    "fetched": "min(at_us) FILTER (WHERE event = 'consume.fetched')",
    "acked": "min(at_us) FILTER (WHERE event = 'consume.acked')",
    "rejected": "min(at_us) FILTER (WHERE event = 'consume.rejected')",
}
_EVENTS_OF_A_GROUP = ("consume.fetched", "consume.acked", "consume.rejected")
_OF_A_TRACE = {
    "is_dead": "bool_or(event = 'dlq.routed')",
    "is_fired": "bool_or(event IN ('delay.fired', 'delay.cancelled'))",
}
# Why a journey has not ended, the first that holds. One that waits at another place has.
_STATES = {
    "refused": "refused IS NOT NULL",
    "unpublished": "ready IS NULL",
    "delayed": "fetched IS NULL AND scheduled IS NOT NULL AND NOT is_fired",
    "unfetched": "fetched IS NULL AND scheduled IS NULL",
    "dead": "fetched IS NOT NULL AND acked IS NULL AND (rejected IS NOT NULL OR is_dead)",
    "unsettled": "fetched IS NOT NULL AND acked IS NULL",
}
_POINTS = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


class HopLatency(msgspec.Struct, frozen=True, kw_only=True):
    """How long a hop took over all journeys of a topic."""

    topic: str
    hop: str
    journeys: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class MessageTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One message on its way to one group; a hop that did not end has no time."""

    trace_id: str
    topic: str
    partition: int | None
    offset: int | None
    consumer_group: str
    publish_ms: float | None
    wait_ms: float | None
    work_ms: float | None
    total_ms: float | None


class Incomplete(msgspec.Struct, frozen=True, kw_only=True):
    """Journeys that have not ended, by where they stopped."""

    topic: str
    state: str
    journeys: int
    example: str


class TraceReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    events: int = 0
    broken_lines: int = 0
    journeys: int = 0
    completed: int = 0
    latencies: tuple[HopLatency, ...] = ()
    slowest: tuple[MessageTrace, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()


def trace_report(spark: "SparkSession", options: TracesOptions) -> TraceReport:
    """Look at span files."""
    return report_on(events(spark, options), options.slowest)


def report_on(found: "DataFrame", slowest: int) -> TraceReport:
    """Look at events."""
    found = found.cache()
    ways = _journeys(found).cache()
    try:
        counts = found.selectExpr(
            f"count_if({BROKEN} IS NULL) AS events", f"count_if({BROKEN} IS NOT NULL) AS broken"
        ).first()
        sums = ways.selectExpr("count(*) AS journeys", "count(total) AS completed").first()
        assert counts is not None, "an aggregate has a row"
        assert sums is not None, "an aggregate has a row"
        return TraceReport(
            events=int(counts.events),
            broken_lines=int(counts.broken),
            journeys=int(sums.journeys),
            completed=int(sums.completed),
            latencies=_latencies(ways),
            slowest=_slowest(ways, slowest),
            incomplete=_incomplete(ways),
        )
    finally:
        found.unpersist()
        ways.unpersist()


def _journeys(found: "DataFrame") -> "DataFrame":
    """One row for each position and group that read it; one for a position that was not read."""
    from pyspark.sql import functions as f

    def summed(rows: "DataFrame", keys: list[str], columns: dict[str, str]) -> "DataFrame":
        return rows.groupBy(*keys).agg(*(f.expr(each).alias(to) for to, each in columns.items()))

    whole = found.where(f"{BROKEN} IS NULL AND event NOT LIKE 'rebalance.%' AND topic != ''")
    place = ["trace_id", "topic", "partition", "offset"]
    messages = summed(whole, place, _OF_A_PLACE)
    read = whole.where(whole.event.isin(list(_EVENTS_OF_A_GROUP)))
    # Under other names, because both come from the same events.
    groups = summed(read, [*place, "consumer_group"], _OF_A_GROUP)
    groups = groups.toDF(*(f"read_{name}" for name in groups.columns))
    same = " AND ".join(f"{name} = read_{name}" for name in place)
    joined = messages.join(groups, f.expr(same), "left").selectExpr(
        *messages.columns,
        *(f"read_{name} AS {name}" for name in ("consumer_group", *_OF_A_GROUP)),
    )
    joined = joined.join(summed(whole, ["trace_id"], _OF_A_TRACE), "trace_id")
    return joined.selectExpr("*", *(f"{hop} AS {name}" for name, hop in _HOPS.items()))


def _latencies(ways: "DataFrame") -> tuple[HopLatency, ...]:
    from pyspark.sql import functions as f

    hops = ", ".join(f"'{hop}', {hop}" for hop in _HOPS)
    # A message that several groups read was published once.
    tall = ways.selectExpr("*", f"stack({len(_HOPS)}, {hops}) AS (hop, took_us)")
    tall = tall.where("took_us IS NOT NULL")
    once = tall.where("hop = 'publish'").dropDuplicates(
        ["trace_id", "topic", "partition", "offset"]
    )
    tall = tall.where("hop != 'publish'").unionByName(once)
    points = ", ".join(map(str, _POINTS.values()))
    rows = tall.groupBy("topic", "hop").agg(
        f.count(f.lit(1)).alias("journeys"),
        f.expr(f"percentile_approx(took_us, array({points}), 100000)").alias("points"),
        f.max("took_us").alias("longest"),
    )
    order = {hop: number for number, hop in enumerate(_HOPS)}
    return tuple(
        HopLatency(
            topic=row.topic,
            hop=row.hop,
            journeys=row.journeys,
            max_ms=row.longest / 1000,
            **{name: took / 1000 for name, took in zip(_POINTS, row.points, strict=True)},
        )
        for row in sorted(rows.collect(), key=lambda row: (row.topic, order[row.hop]))
    )


def _slowest(ways: "DataFrame", count: int) -> tuple[MessageTrace, ...]:
    from pyspark.sql import functions as f

    rows = ways.where("total IS NOT NULL").orderBy(f.desc("total"), "trace_id").limit(count)
    names = ("trace_id", "topic", "partition", "offset", "consumer_group")
    rows = rows.selectExpr(*names, *(f"{hop} / 1000D AS {hop}_ms" for hop in _HOPS))
    return tuple(msgspec.convert(row.asDict(), MessageTrace) for row in rows.collect())


def _incomplete(ways: "DataFrame") -> tuple[Incomplete, ...]:
    from pyspark.sql import functions as f

    cases = " ".join(f"WHEN {condition} THEN '{state}'" for state, condition in _STATES.items())
    rows = ways.selectExpr("topic", "trace_id", f"CASE {cases} END AS state")
    rows = (
        rows.where("state IS NOT NULL")
        .groupBy("topic", "state")
        .agg(f.count(f.lit(1)).alias("journeys"), f.min("trace_id").alias("example"))
        .orderBy("topic", "state")
    )
    found = rows.collect()
    return tuple(msgspec.convert(row.asDict(), Incomplete) for row in found)
