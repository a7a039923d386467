"""Dead letters of records that Spark could not use: rows for a dead-letter topic.

A letter has the key, value, headers and priority of the record and the headers `goqueue.dlq.*` that
the broker gives its own, so that whoever reads or redrives letters need not know who wrote them.
The sink writes letters and results of a micro-batch in one transaction, by their column `topic`.
"""

import datetime as dt
from collections.abc import Iterable

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType

__all__ = ["LETTER", "PREFIX", "Origin", "letter_headers", "split_bad"]

LETTER = "_letter"
PREFIX = "goqueue.dlq."
_REASON_MAX = 1000
_NEEDED = ("topic", "partition", "offset", "key", "value")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a letter's record was, and why it could not be used by `group`."""

    topic: str
    partition: int
    offset: int
    group: str
    reason: str


def letter_headers(
    origin: Origin, headers: Iterable[tuple[str, bytes]], now: dt.datetime
) -> list[tuple[str, bytes]]:
    """The headers of a record, and those that say why and where it died."""
    given = list(headers)
    hops = next((value for name, value in given if name == f"{PREFIX}hops"), b"0")
    facts = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(origin.offset),
        "group": origin.group,
        "deliveries": "1",
        "hops": str(int(hops) + 1 if hops.isdigit() and len(hops) < 10 else 1),
        "time": now.astimezone(dt.UTC).isoformat().replace("+00:00", "Z"),
        "cause": "rejected",
        "reason": origin.reason[:_REASON_MAX],
    }
    kept = [each for each in given if not each[0].startswith(PREFIX)]
    return kept + [(PREFIX + name, fact.encode()) for name, fact in facts.items()]


def split_bad(
    rows: DataFrame,
    *,
    when: str | Column | None = None,
    dlq_topic: str | None = None,
    reason: str | Column | None = None,
    group: str = "spark",
) -> tuple[DataFrame, DataFrame]:
    """The good rows, and the bad ones as rows for a dead-letter topic.

    Of rows read with mode `DLQ` the bad ones are those with a letter, and that is all to be said.
    Of others `when` says which are bad, as SQL or as a column, `dlq_topic` where they go and
    `reason` why; these need the columns of a read, `value` as bytes. Null is not bad.

    To write both in one transaction, give the results a column `topic` and unite them:
    `results.unionByName(bad, allowMissingColumns=True)`, written without the option `topic`.
    """
    if when is None:
        if LETTER not in rows.columns:
            raise ValueError(f"there is no column `{LETTER}`: read with mode `DLQ`, or say `when`")
        if dlq_topic is not None or reason is not None:
            raise ValueError("letters of mode `DLQ` have their topic and reason already")
        bad = rows.where(sf.col(LETTER).isNotNull()).select(f"{LETTER}.*")
        return rows.where(sf.col(LETTER).isNull()).drop(LETTER), bad
    if dlq_topic is None or reason is None:
        raise ValueError("`when` needs `dlq_topic` and `reason`")
    missing = [name for name in _NEEDED if name not in rows.columns]
    if missing:
        raise ValueError(f"there is no column `{missing[0]}`, which a letter is made of")
    is_bad = sf.coalesce(sf.expr(when) if isinstance(when, str) else when, sf.lit(False))
    words = sf.lit(reason) if isinstance(reason, str) else reason
    columns = [sf.lit(dlq_topic).alias("topic"), sf.col("key"), sf.col("value")]
    columns.append(_headers(rows, words, group).alias("headers"))
    if "priority" in rows.columns:
        columns.append(sf.col("priority"))
    return rows.where(~is_bad), rows.where(is_bad).select(*columns)


def _headers(rows: DataFrame, reason: Column, group: str) -> Column:
    """The headers of letters, in the form in which the rows have theirs."""
    utc = sf.to_utc_timestamp(sf.current_timestamp(), sf.current_timezone())
    facts = {
        "topic": sf.col("topic"),
        "partition": sf.col("partition").cast("string"),
        "offset": sf.col("offset").cast("string"),
        "group": sf.lit(group),
        "deliveries": sf.lit("1"),
        "hops": sf.lit("1"),
        "time": sf.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
        "cause": sf.lit("rejected"),
        "reason": sf.substring(sf.coalesce(reason, sf.lit("")), 1, _REASON_MAX),
    }
    named = {PREFIX + name: fact.cast(BinaryType()) for name, fact in facts.items()}
    kind = _kind_of(rows, "headers")
    if isinstance(kind, ArrayType):
        pairs = [
            sf.struct(sf.lit(name).alias("key"), fact.alias("value"))
            for name, fact in named.items()
        ]
        kept = sf.filter("headers", lambda each: ~each["key"].startswith(PREFIX))
        return sf.concat(sf.coalesce(kept, sf.array()), sf.array(*pairs))
    made = sf.create_map(*(part for name, fact in named.items() for part in (sf.lit(name), fact)))
    if not isinstance(kind, MapType):
        return made
    kept = sf.map_filter("headers", lambda name, _: ~name.startswith(PREFIX))
    return sf.when(sf.col("headers").isNull(), made).otherwise(sf.map_concat(kept, made))


def _kind_of(rows: DataFrame, name: str) -> DataType | None:
    return rows.schema[name].dataType if name in rows.columns else None
