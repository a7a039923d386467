"""Dead letters as a table, and the report about them.

What a letter says of itself is in its headers; here they become columns. A message of the topic
that is no letter (nobody keeps others from publishing there) is counted and never put back.
"""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["COLUMNS", "REDRIVEN_HEADER", "LetterGroup", "Report", "Sample", "letters", "report"]

REDRIVEN_HEADER = "goqueue.dlq.redriven-from"
_PREFIX = "goqueue.dlq."

# Column, header, and type: what `--where` may speak of, beside the columns of the connector.
COLUMNS = {
    "origin": ("topic", "STRING"),
    "origin_partition": ("partition", "INT"),
    "origin_offset": ("offset", "BIGINT"),
    "consumer_group": ("group", "STRING"),
    "cause": ("cause", "STRING"),
    "reason": ("reason", "STRING"),
    "deliveries": ("deliveries", "INT"),
    "hops": ("hops", "INT"),
    "died": ("time", "TIMESTAMP"),
}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One letter, by its place in the topic of the letters."""

    partition: int
    offset: int
    origin_partition: int
    origin_offset: int
    key: str | None
    value: str | None


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Letters that died of the same in the same group. `redriven` of them were put back before."""

    origin: str
    consumer_group: str
    cause: str
    reason: str
    letters: int
    redriven: int
    selected: int
    first_died: str
    last_died: str
    samples: tuple[Sample, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All letters that are kept, the largest group first; and what was done."""

    topic: str
    dead_letter_topic: str
    letters: int = 0
    redriven: int = 0
    selected: int = 0
    strangers: int = 0
    sent: int = 0
    is_sent: bool = False
    groups: tuple[LetterGroup, ...] = ()


def fact(header: str) -> str:
    """The expression for what a header says; of several with the same name the first counts."""
    return f"get(filter(headers, each -> each.key = '{header}'), 0).value"


def letters(rows: "DataFrame") -> "DataFrame":
    """The columns of letters; `origin` is null for a message that is none."""
    expressions = [
        f"try_cast(cast({fact(_PREFIX + header)} AS STRING) AS {kind}) AS {name}"
        for name, (header, kind) in COLUMNS.items()
    ]
    return rows.selectExpr("*", *expressions)


def report(marked: "DataFrame", samples: int) -> tuple[LetterGroup, ...]:
    """Group letters that are marked as `is_redriven` and `is_selected`."""
    from pyspark.sql import functions as f

    text = "left(cast({0} AS STRING), 200)"
    sample = (
        "named_struct('partition', partition, 'offset', offset, 'origin_partition', "
        f"origin_partition, 'origin_offset', origin_offset, 'key', {text.format('key')}, "
        f"'value', {text.format('value')})"
    )
    first = f"min_by({sample}, struct(timestamp, partition, offset), {max(1, samples)})"
    grouped = (
        marked.where("origin IS NOT NULL")
        .groupBy("origin", "consumer_group", "cause", "reason")
        .agg(
            f.expr("count(*)").alias("letters"),
            f.expr("count_if(is_redriven)").alias("redriven"),
            f.expr("count_if(is_selected)").alias("selected"),
            f.expr("min(coalesce(died, timestamp))").cast("string").alias("first_died"),
            f.expr("max(coalesce(died, timestamp))").cast("string").alias("last_died"),
            f.expr(first).alias("samples"),
        )
        .orderBy(f.desc("letters"), "origin", "consumer_group", "cause", "reason")
    )
    found = []
    for row in grouped.collect():
        group = row.asDict(recursive=True)
        group["samples"] = group["samples"][:samples]
        for name in ("consumer_group", "cause", "reason"):
            group[name] = group[name] or ""
        found.append(msgspec.convert(group, LetterGroup))
    return tuple(found)
