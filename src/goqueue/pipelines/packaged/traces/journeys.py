"""What traces tell: how long each hop takes, which journeys were slowest, which never ended.

A journey is the way of one message to one group. It has hops:

    publish    the broker has it, until it is persisted
    wait       persisted (for a delayed message: due), until the group fetches it first
    work       fetched first, until it is acknowledged; redeliveries are part of it
    total      all of that
"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.packaged.traces.options import TracesOptions
from goqueue.pipelines.packaged.traces.spans import BROKEN, events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["HopLatency", "Incomplete", "Journey", "TraceReport", "report_on", "trace_report"]

_HOPS = {
    "publish": "persisted - received",
    "wait": "fetched - greatest(persisted, coalesce(fired, persisted))",
    "work": "acked - fetched",
    "total": "acked - received",
}
_EVENTS = {
    "received": "publish.received",
    "persisted": "publish.persisted",
    "fired": "delay.fired",
    "fetched": "consume.fetched",
    "acked": "consume.acked",
    "rejected": "consume.rejected",
    "buried": "dlq.routed",
}
_OF_A_GROUP = ("fetched", "acked", "rejected", "buried")
_STATES = {
    "unpublished": "persisted IS NULL",
    "unfetched": "persisted IS NOT NULL AND fetched IS NULL AND buried IS NULL",
    "unsettled": "fetched IS NOT NULL AND acked IS NULL AND rejected IS NULL AND buried IS NULL",
    "rejected": "acked IS NULL AND (rejected IS NOT NULL OR buried IS NOT NULL)",
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


class Journey(msgspec.Struct, frozen=True, kw_only=True):
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
    slowest: tuple[Journey, ...] = ()
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
    """One row for each message and group that read it; one for a message that nobody read."""
    whole = found.where(f"{BROKEN} IS NULL AND topic IS NOT NULL")
    place = ["trace_id", "topic", "partition", "offset"]

    def first_times(names: tuple[str, ...]) -> list[str]:
        return [f"min(at_us) FILTER (WHERE event = '{_EVENTS[name]}') AS {name}" for name in names]

    alone = tuple(name for name in _EVENTS if name not in _OF_A_GROUP)
    messages = _aggregated(whole, place, first_times(alone))
    read = whole.where(whole.event.isin([_EVENTS[name] for name in _OF_A_GROUP]))
    groups = _aggregated(read, [*place, "consumer_group"], first_times(_OF_A_GROUP))
    same = None
    for name in place:
        equal = messages[name].eqNullSafe(groups[name])
        same = equal if same is None else same & equal
    assert same is not None
    joined = messages.join(groups, same, "left").select(
        *(messages[name] for name in (*place, *alone)),
        *(groups[name] for name in ("consumer_group", *_OF_A_GROUP)),
    )
    return joined.selectExpr("*", *(f"{hop} AS {name}" for name, hop in _HOPS.items()))


def _aggregated(rows: "DataFrame", keys: list[str], expressions: list[str]) -> "DataFrame":
    from pyspark.sql import functions as f

    return rows.groupBy(*keys).agg(*(f.expr(each) for each in expressions))


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


def _slowest(ways: "DataFrame", count: int) -> tuple[Journey, ...]:
    from pyspark.sql import functions as f

    rows = ways.where("total IS NOT NULL").orderBy(f.desc("total"), "trace_id").limit(count)
    names = ("trace_id", "topic", "partition", "offset", "consumer_group")
    rows = rows.selectExpr(*names, *(f"{hop} / 1000D AS {hop}_ms" for hop in _HOPS))
    return tuple(msgspec.convert(row.asDict(), Journey) for row in rows.collect())


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
