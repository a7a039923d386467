"""A source as a DataFrame: topics, decoded as told, with its watermark, and its dead letters."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.pipelines.progress import IN, LETTERS, ROWS
from goqueue.pipelines.spec import Source, interval, option_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Rows", "read_source", "source_options"]


class Rows:
    """What a source gives: rows, and beside them the letters of those that cannot be decoded."""

    def __init__(self, good: "DataFrame", letters: "DataFrame | None") -> None:
        self.good = good
        self.letters = letters


def read_source(spark: "SparkSession", view: str, source: Source, link: Mapping[str, str]) -> Rows:
    """The rows of a source. With dead letters the topics are read twice: once for each."""
    from pyspark.sql import functions as sql

    from goqueue.spark import split_bad

    rows = spark.readStream.format("goqueue").options(**source_options(source, link)).load()
    letters = None
    if source.decode is not None and source.decode.mode == "dlq":
        count = sql.count(sql.lit(1)).alias(ROWS)
        # Counted here, because Spark counts a row as often as it is read.
        good, _ = split_bad(rows.observe(f"{IN}{view}", count))
        _, bad = split_bad(rows)
        rows, letters = good, bad.observe(f"{LETTERS}{view}", count)
    if source.watermark is not None:
        rows = _marked(rows, source.watermark.column, source.watermark.delay)
    return Rows(rows, letters)


def source_options(source: Source, link: Mapping[str, str]) -> dict[str, str]:
    """The options of the connector; those of the file go over those of the command line."""
    options = {**link, **option_texts(source.options)}
    if source.topics is not None:
        options["subscribe"] = ",".join(source.topic_names)
    decode = source.decode
    if decode is not None:
        options["valueFormat"] = decode.format
        options["valueSchema"] = decode.schema
        options["mode"] = decode.mode.upper()
        if decode.dead_letters is not None:
            options["dlqTopic"] = decode.dead_letters
    return options


def _marked(rows: "DataFrame", column: str, delay: str) -> "DataFrame":
    from pyspark.sql import functions as sql

    if column not in rows.columns:
        # Spark takes columns only, and no fields.
        name = column.rpartition(".")[2]
        rows = rows.withColumn(name, sql.expr(column))
        column = name
    wait = interval(delay)
    assert wait is not None, "checked when the file was read"
    return rows.withWatermark(column, wait)
