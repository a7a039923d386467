"""Audits a topic for loss, duplicates and order, and compares a copy with its source.

Producers number what they send without gaps. So each number of a producer is in the topic
(otherwise messages were lost), once (otherwise there are duplicates), and rises within each
partition (otherwise the order is broken). A number that is repeated in its partition is a
duplicate, not a break of order.

`SequenceCounts` counts rows that a caller hands in, one by one and without Spark. `audit_rows`
finds the same by SQL for any size, in two passes over the numbers and none over the values; a test
compares the two. `audit_copy` checks that one topic is an exact copy of another.

Invariant: the findings about a producer follow from its rows in offset order per partition; the
order in which partitions are counted does not matter.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.connection import ConnectionOptions, OptionWrong
from goqueue.pipelines.packaged_options import AuditOptions, CopyOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "CopyFindings",
    "Difference",
    "Findings",
    "Gap",
    "Place",
    "ProducerFindings",
    "SequenceCounts",
    "audit",
    "audit_copy",
    "audit_rows",
    "compare_rows",
    "expressed",
    "gaps_of",
    "topic_rows",
]


class Difference(msgspec.Struct, frozen=True, order=True):
    """An identity that is not as often in the target as in the source."""

    identity: str
    in_source: int
    in_target: int


class CopyFindings(msgspec.Struct, frozen=True, kw_only=True):
    """What differs. `disorders` are rows that come after a later one of their key."""

    source_rows: int = 0
    target_rows: int = 0
    missing: int = 0
    surplus: int = 0
    unreadable: int = 0
    disorders: int = 0
    differences: tuple[Difference, ...] = ()
    disordered: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.surplus or self.unreadable or self.disorders)


def audit_copy(spark: "SparkSession", options: CopyOptions) -> CopyFindings:
    """Compare `against`, the copy, with its source topic."""
    source = _identified(spark, options, options.topic, options.identity, "--id")
    identity = options.target_identity or options.identity
    target = _identified(spark, options, options.against, identity, "--target-id")
    return compare_rows(source, target)


def compare_rows(source: "DataFrame", target: "DataFrame") -> CopyFindings:
    """Compare rows of (identity, key, partition, offset)."""
    counts = _counts(source, "in_source").join(_counts(target, "in_target"), "identity", "full")
    counts = counts.na.fill(0, ["in_source", "in_target"]).cache()
    disordered = _keys_out_of_order(source, target).cache()
    try:
        sums = counts.selectExpr(
            "coalesce(sum(in_source), 0) AS source_rows",
            "coalesce(sum(in_target), 0) AS target_rows",
            "coalesce(sum(greatest(in_source - in_target, 0)), 0) AS missing",
            "coalesce(sum(greatest(in_target - in_source, 0)), 0) AS surplus",
        ).first()
        assert sums is not None, "an aggregate has a row"
        differing = counts.where("in_source != in_target").orderBy("identity").limit(EXAMPLES_MAX)
        late = disordered.select("identity").orderBy("identity").limit(EXAMPLES_MAX)
        unreadable = sum(rows.where("identity IS NULL").count() for rows in (source, target))
        return CopyFindings(
            **{name: int(number) for name, number in sums.asDict().items()},
            unreadable=unreadable,
            disorders=disordered.count(),
            differences=tuple(Difference(*row) for row in differing.collect()),
            disordered=tuple(row.identity for row in late.collect()),
        )
    finally:
        counts.unpersist()
        disordered.unpersist()


def _identified(
    spark: "SparkSession", options: CopyOptions, topic: str, identity: str, option: str
) -> "DataFrame":
    rows = topic_rows(spark, options, topic)
    rows = expressed(rows, option, f"cast({identity} AS STRING) AS identity")
    return rows.select("identity", "key", "partition", "offset")


def _counts(rows: "DataFrame", name: str) -> "DataFrame":
    counted = rows.where("identity IS NOT NULL").groupBy("identity").count()
    return counted.withColumnRenamed("count", name)


def _keys_out_of_order(source: "DataFrame", target: "DataFrame") -> "DataFrame":
    """Rows of the target that come after a later one of the same key.

    Only rows that are there once in the source say where they belong; of their copies the first
    counts. A key lies in one partition of the source, so its offsets are its order.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    once = (
        source.where("identity IS NOT NULL AND key IS NOT NULL")
        .groupBy("identity")
        .agg(
            f.count(f.lit(1)).alias("rows"),
            f.first("key").alias("key"),
            f.first("partition").alias("from_partition"),
            f.first("offset").alias("from_offset"),
        )
        .where("rows = 1")
    )
    copies = target.groupBy("identity", "partition").agg(f.min("offset").alias("offset"))
    before = Window.partitionBy("key", "from_partition", "partition").orderBy("offset")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    rows = copies.join(once, "identity").withColumn("latest", f.max("from_offset").over(before))
    return rows.where("from_offset < latest")


EXAMPLES_MAX = 20


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a row is, and its number."""

    producer: str
    sequence: int
    partition: int
    offset: int


class Gap(msgspec.Struct, frozen=True, order=True):
    """Numbers that are missing, both ends included."""

    producer: str
    first: int
    last: int


class ProducerFindings(msgspec.Struct, frozen=True, kw_only=True):
    """About one producer. Duplicates are rows beyond the first of their number."""

    producer: str
    rows: int
    first: int
    last: int
    missing: int = 0
    duplicates: int = 0
    disorders: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.duplicates or self.disorders)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """About all of a topic, with the first few examples of each kind."""

    rows: int = 0
    producers: int = 0
    unreadable: int = 0
    missing: int = 0
    duplicates: int = 0
    disorders: int = 0
    absent: tuple[str, ...] = ()
    troubled: tuple[ProducerFindings, ...] = ()
    gaps: tuple[Gap, ...] = ()
    duplicate_rows: tuple[Place, ...] = ()
    disordered_rows: tuple[Place, ...] = ()

    @property
    def is_clean(self) -> bool:
        wrong = (self.unreadable, self.missing, self.duplicates, self.disorders, self.absent)
        return not any(wrong)


class SequenceCounts:
    """Counts rows off. `expected` says how many numbers a producer used, from `first` on."""

    def __init__(
        self, *, first: int | None = None, expected: Mapping[str, int] | None = None
    ) -> None:
        self._first = first
        self._expected = dict(expected or {})
        self._rows = 0
        self._unreadable = 0
        self._counts: dict[str, int] = {}
        # By producer the first place of each number, and by partition the numbers that were there.
        self._places: dict[str, dict[int, Place]] = {}
        self._numbers: dict[tuple[str, int], set[int]] = {}
        self._highest: dict[tuple[str, int], int] = {}
        self._disorders: dict[str, int] = {}
        self._duplicate_rows: list[Place] = []
        self._disordered_rows: list[Place] = []

    def add(self, producer: str | None, sequence: int | None, partition: int, offset: int) -> None:
        """Count a row; those of a partition come in the order of their offsets."""
        self._rows += 1
        if producer is None or sequence is None:
            self._unreadable += 1
            return
        self._counts[producer] = self._counts.get(producer, 0) + 1
        place = Place(producer, sequence, partition, offset)
        places = self._places.setdefault(producer, {})
        known = places.setdefault(sequence, place)
        if known is not place:
            places[sequence] = min(known, place)
            self._duplicate_rows.append(max(known, place))
        numbers = self._numbers.setdefault((producer, partition), set())
        if sequence in numbers:
            return
        numbers.add(sequence)
        highest = self._highest.get((producer, partition), sequence)
        if sequence < highest:
            self._disorders[producer] = self._disorders.get(producer, 0) + 1
            self._disordered_rows.append(place)
        self._highest[producer, partition] = max(sequence, highest)

    def findings(self) -> Findings:
        each = [self._of(producer) for producer in sorted(self._places)]
        gaps: list[Gap] = []
        for found in each:
            if found.missing and len(gaps) < EXAMPLES_MAX:
                gaps += gaps_of(found, self._places[found.producer])
        absent = sorted(name for name, count in self._expected.items() if count)
        absent = [name for name in absent if name not in self._places]
        return Findings(
            rows=self._rows,
            producers=len(each),
            unreadable=self._unreadable,
            missing=sum(found.missing for found in each),
            duplicates=sum(found.duplicates for found in each),
            disorders=sum(found.disorders for found in each),
            absent=tuple(absent),
            troubled=tuple(found for found in each if not found.is_clean)[:EXAMPLES_MAX],
            gaps=tuple(gaps[:EXAMPLES_MAX]),
            duplicate_rows=tuple(sorted(self._duplicate_rows)[:EXAMPLES_MAX]),
            disordered_rows=tuple(sorted(self._disordered_rows)[:EXAMPLES_MAX]),
        )

    def _of(self, producer: str) -> ProducerFindings:
        seen = self._places[producer]
        first, last = _bounds(producer, min(seen), max(seen), self._first, self._expected)
        rows = self._counts[producer]
        return ProducerFindings(
            producer=producer,
            rows=rows,
            first=first,
            last=last,
            missing=last - first + 1 - len(seen),
            duplicates=rows - len(seen),
            disorders=self._disorders.get(producer, 0),
        )


def gaps_of(found: ProducerFindings, seen: Iterable[int]) -> list[Gap]:
    """The ranges that a producer's numbers leave out."""
    gaps = []
    expected = found.first
    for number in [*sorted(set(seen)), found.last + 1]:
        if number > expected:
            gaps.append(Gap(found.producer, expected, min(number, found.last + 1) - 1))
        expected = max(expected, number + 1)
    return gaps


def _bounds(
    producer: str, lowest: int, highest: int, first: int | None, expected: Mapping[str, int]
) -> tuple[int, int]:
    """The first and the last number that should be there."""
    start = lowest if first is None else min(first, lowest)
    if producer in expected:
        begin = lowest if first is None else first
        return start, max(highest, begin + expected[producer] - 1)
    return start, highest


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
    return read_topic(spark, options.connection, topic, options.starting, options.ending)


def read_topic(
    spark: "SparkSession", connection: ConnectionOptions, topic: str, starting: str, ending: str
) -> "DataFrame":
    reader = spark.read.format("goqueue").options(
        **connection.options(
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
        disordered = _rows_out_of_order(firsts).cache()
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


def _rows_out_of_order(firsts: "DataFrame") -> "DataFrame":
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy("producer", "partition").orderBy("offset")
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    rows = firsts.withColumn("highest", f.max("sequence").over(before))
    return rows.where("sequence < highest").drop("highest", "rows")


def _with_bounds(
    per_producer: "DataFrame", first: int | None, expected: dict[str, int]
) -> "DataFrame":
    """With `first`, `last` and what is wrong, as `SequenceCounts` takes them for one producer."""
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
