"""An audit of a topic by SQL: what `Counting` finds row by row, found by Spark for any size.

Two passes over the numbers, none over the values: numbers are reduced by partition first.
"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.packaged.audit.findings import (
    EXAMPLES_MAX,
    Findings,
    Gap,
    Place,
    ProducerFindings,
)
from goqueue.pipelines.packaged.audit.options import AuditOptions, CopyOptions
from goqueue.pipelines.packaged.wiring import OptionWrong, Wiring

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["audit", "audit_rows", "expressed", "topic_rows"]

_KEY = "coalesce(cast(key AS STRING), '')"


def audit(spark: "SparkSession", options: AuditOptions) -> Findings:
    """Look at a topic."""
    rows = topic_rows(spark, options, options.topic)
    if options.identity is not None:
        # What has an identity of its own is the only thing that its producer sent.
        rows = expressed(rows, "--id", f"cast({options.identity} AS STRING) AS producer")
        rows = rows.selectExpr("producer", "0L AS sequence", "partition", "offset")
        return audit_rows(rows, None, {})
    producer, sequence = options.producer or _KEY, options.sequence
    rows = expressed(rows, "--producer", f"cast({producer} AS STRING) AS producer")
    rows = expressed(rows, "--sequence", f"try_cast({sequence} AS BIGINT) AS sequence")
    rows = rows.select("producer", "sequence", "partition", "offset")
    return audit_rows(rows, options.first, options.expected)


def topic_rows(
    spark: "SparkSession", options: AuditOptions | CopyOptions, topic: str
) -> "DataFrame":
    """The rows of a topic, with headers as a map, for expressions such as `headers['n']`."""
    return read_topic(spark, options.wiring, topic, options.starting, options.ending)


def read_topic(
    spark: "SparkSession", wiring: Wiring, topic: str, starting: str, ending: str
) -> "DataFrame":
    reader = spark.read.format("goqueue").options(
        **wiring.options(
            subscribe=topic, includeHeaders="true", startingOffsets=starting, endingOffsets=ending
        )
    )
    return reader.load()


def expressed(rows: "DataFrame", option: str, expression: str) -> "DataFrame":
    """The rows with one column more; an expression that makes no sense is the option's fault."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        return rows.selectExpr("*", expression)
    except (AnalysisException, ParseException) as error:
        words = (error.getMessage() or str(error)).strip().splitlines()[0]
        raise OptionWrong(option, words.split(" SQLSTATE", 1)[0]) from error


def audit_rows(rows: "DataFrame", first: int | None, expected: dict[str, int]) -> Findings:
    """Look at rows of (producer, sequence, partition, offset), in any order."""
    from pyspark.sql import functions as f

    readable = rows.where("producer IS NOT NULL AND sequence IS NOT NULL")
    # The first row of each number in each partition, and how many there are.
    firsts = (
        readable.groupBy("producer", "partition", "sequence")
        .agg(f.count(f.lit(1)).alias("rows"), f.min("offset").alias("offset"))
        .cache()
    )
    try:
        disordered = _disordered(firsts).cache()
        broken = disordered.groupBy("producer").agg(f.count(f.lit(1)).alias("disorders"))
        per_producer = (
            firsts.groupBy("producer", "sequence")
            .agg(f.sum("rows").alias("rows"))
            .groupBy("producer")
            .agg(
                f.sum("rows").alias("rows"),
                f.count(f.lit(1)).alias("numbers"),
                f.min("sequence").alias("lowest"),
                f.max("sequence").alias("highest"),
            )
            .join(broken, "producer", "left")
        )
        per_producer = _with_bounds(per_producer, first, expected).cache()
        sums = per_producer.selectExpr(
            "count(*) AS producers",
            "coalesce(sum(rows), 0) AS rows",
            "coalesce(sum(missing), 0) AS missing",
            "coalesce(sum(duplicates), 0) AS duplicates",
            "coalesce(sum(disorders), 0) AS disorders",
        ).first()
        assert sums is not None, "an aggregate has a row"
        unreadable = rows.where("producer IS NULL OR sequence IS NULL").count()
        return Findings(
            rows=int(sums.rows) + unreadable,
            producers=int(sums.producers),
            unreadable=unreadable,
            missing=int(sums.missing),
            duplicates=int(sums.duplicates),
            disorders=int(sums.disorders),
            absent=_absent(per_producer, expected),
            troubled=_troubled(per_producer),
            gaps=_gaps(firsts, per_producer) if sums.missing else (),
            duplicate_rows=_duplicates(readable, firsts) if sums.duplicates else (),
            disordered_rows=_places(disordered) if sums.disorders else (),
        )
    finally:
        firsts.unpersist()
        disordered.unpersist()
        per_producer.unpersist()


def _disordered(firsts: "DataFrame") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy("producer", "partition").orderBy("offset")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    rows = firsts.withColumn("highest", f.max("sequence").over(before))
    return rows.where("sequence < highest").drop("highest", "rows")


def _with_bounds(
    per_producer: "DataFrame", first: int | None, expected: dict[str, int]
) -> "DataFrame":
    """With `first`, `last` and what is wrong, as `Counting` takes them for one producer."""
    from pyspark.sql import functions as f

    begin = f.col("lowest") if first is None else f.lit(first).cast("bigint")
    wanted = f.create_map(*(f.lit(each) for pair in expected.items() for each in pair))
    count = wanted[f.col("producer")] if expected else f.lit(None)
    upto = f.greatest(f.col("highest"), begin + count.cast("bigint") - f.lit(1))
    return (
        per_producer.withColumn("first", f.least(begin, f.col("lowest")))
        .withColumn("last", f.coalesce(upto, f.col("highest")))
        .withColumn("missing", f.expr("last - first + 1 - numbers"))
        .withColumn("duplicates", f.expr("rows - numbers"))
        .withColumn("disorders", f.coalesce("disorders", f.lit(0)))
    )


def _absent(per_producer: "DataFrame", expected: dict[str, int]) -> tuple[str, ...]:
    wanted = sorted(name for name, count in expected.items() if count)
    if not wanted:
        return ()
    found = per_producer.where(per_producer.producer.isin(wanted)).select("producer").collect()
    present = {row.producer for row in found}
    return tuple(name for name in wanted if name not in present)


def _troubled(per_producer: "DataFrame") -> tuple[ProducerFindings, ...]:
    rows = per_producer.where("missing > 0 OR duplicates > 0 OR disorders > 0")
    rows = rows.drop("numbers", "lowest", "highest").orderBy("producer").limit(EXAMPLES_MAX)
    return tuple(msgspec.convert(row.asDict(), ProducerFindings) for row in rows.collect())


def _gaps(firsts: "DataFrame", per_producer: "DataFrame") -> tuple[Gap, ...]:
    """The first ranges of missing numbers: before, between and after those that are there."""
    numbers = firsts.select("producer", "sequence").distinct()
    edges = per_producer.where("missing > 0").select("producer", "first", "last")
    with_edges = (
        numbers.join(edges.select("producer"), "producer")
        .unionByName(edges.selectExpr("producer", "first - 1 AS sequence"))
        .unionByName(edges.selectExpr("producer", "last + 1 AS sequence"))
        .distinct()
    )
    before = "lag(sequence) OVER (PARTITION BY producer ORDER BY sequence)"
    rows = with_edges.selectExpr("producer", f"{before} + 1 AS first", "sequence - 1 AS last")
    rows = rows.where("first <= last").orderBy("producer", "first").limit(EXAMPLES_MAX)
    return tuple(Gap(row.producer, row["first"], row["last"]) for row in rows.collect())


def _duplicates(readable: "DataFrame", firsts: "DataFrame") -> tuple[Place, ...]:
    from pyspark.sql import functions as f

    twice = firsts.groupBy("producer", "sequence").agg(f.sum("rows").alias("rows"))
    twice = twice.where("rows > 1").orderBy("producer", "sequence").limit(EXAMPLES_MAX)
    rank = "row_number() OVER (PARTITION BY producer, sequence ORDER BY partition, offset)"
    rows = readable.join(f.broadcast(twice.drop("rows")), ["producer", "sequence"])
    return _places(rows.selectExpr("*", f"{rank} AS rank").where("rank > 1"))


def _places(rows: "DataFrame") -> tuple[Place, ...]:
    columns = ("producer", "sequence", "partition", "offset")
    found = rows.select(*columns).orderBy(*columns).limit(EXAMPLES_MAX).collect()
    return tuple(Place(*row) for row in found)
