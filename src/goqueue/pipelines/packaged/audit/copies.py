"""Two topics beside each other: is one an exact copy of the other, each row once, keys in order?"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.packaged.audit.findings import EXAMPLES_MAX
from goqueue.pipelines.packaged.audit.options import CopyOptions
from goqueue.pipelines.packaged.audit.running import expressed, topic_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CopyFindings", "Difference", "audit_copy", "compare_rows"]


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
    """Compare `against`, the copy, with the topic it was made of."""
    source = _identified(spark, options, options.topic, options.identity, "--id")
    identity = options.target_identity or options.identity
    target = _identified(spark, options, options.against, identity, "--target-id")
    return compare_rows(source, target)


def compare_rows(source: "DataFrame", target: "DataFrame") -> CopyFindings:
    """Compare rows of (identity, key, partition, offset)."""
    counts = _counts(source, "in_source").join(_counts(target, "in_target"), "identity", "full")
    counts = counts.na.fill(0, ["in_source", "in_target"]).cache()
    disordered = _disordered(source, target).cache()
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


def _disordered(source: "DataFrame", target: "DataFrame") -> "DataFrame":
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
