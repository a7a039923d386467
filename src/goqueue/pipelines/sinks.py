"""Sources and sinks of a pipeline as DataFrames.

A source is a read of topics with decoding, a watermark and, if asked for, the dead letters of what
cannot be decoded. A sink is rows for a topic, files, or a table on the screen; dead letters are
written with the rows of the same batch.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from goqueue.pipelines.errors import StepInvalid, refusing
from goqueue.pipelines.progress import IN, LETTERS, ROWS
from goqueue.pipelines.spec import Pipeline, Sink, Source, interval, option_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = [
    "Rows",
    "Table",
    "check_sink",
    "encoded",
    "place_of",
    "read_source",
    "source_options",
    "united",
    "writer",
]


class Rows:
    """What a source returns: rows, and the dead letters of those that cannot be decoded."""

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
        options["mode"] = decode.mode.upper()
        options |= {
            name: str(given)
            for name, given in (
                ("valueSchema", decode.schema),
                ("schemaSubject", decode.subject),
                ("schemaVersion", decode.version),
                ("messageName", decode.message),
            )
            if given is not None
        }
        if decode.evolution == "latest":
            options["schemaEvolution"] = "latest"
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


# What the connector takes beside the value; everything else is encoded.
_KNOWN = (
    "topic",
    "partition",
    "key",
    "headers",
    "priority",
    "delay",
    "deliver_at",
)
_EVERY_TOPIC = "*"
# What a dead letter has beside values that the connector encodes.
_RAW_VALUE = "raw_value"


class Table(msgspec.Struct, frozen=True):
    """The first rows of a batch, as texts."""

    batch: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int


def encoded(result: "DataFrame", sink: Sink) -> "DataFrame":
    """The rows as they are written."""
    from pyspark.sql import functions as sql

    if sink.parquet is not None:
        with refusing("sink"):
            # One file per batch, or per folder: a file per task would become a swamp.
            by = [sql.col(name) for name in sink.partition_by]
            return result.repartition(*by) if by else result.repartition(1)
    if sink.topic is None:
        return result
    rows = result
    with refusing("sink"):
        if sink.encode != "raw":
            others = [name for name in rows.columns if name not in _KNOWN]
            kept = [name for name in rows.columns if name in _KNOWN]
            columns = sql.struct(*others)
            # With a subject the connector encodes.
            value = (sql.to_json(columns) if sink.subject is None else columns).alias("value")
            key = [] if sink.key is None else [sql.expr(sink.key).cast("string").alias("key")]
            dropped = {"key"} if key else set()
            return rows.select(*(name for name in kept if name not in dropped), *key, value)
        if sink.key is not None:
            rows = rows.withColumn("key", sql.expr(sink.key).cast("string"))
    if "value" not in rows.columns:
        words = "there is no column `value`; `encode: json` makes one of all columns"
        raise StepInvalid("sink", words)
    return rows


def united(rows: "DataFrame", sink: Sink, letters: "Sequence[DataFrame]") -> "DataFrame":
    """The rows and the dead letters beside them, each with its topic: one transaction for all."""
    from pyspark.sql import functions as sql

    if not letters:
        return rows
    with refusing("sink"):
        if sink.topic is not None and sink.topic != _EVERY_TOPIC:
            rows = rows.withColumn("topic", sql.lit(sink.topic))
        for name in ("key", "value") if sink.subject is None else ("key",):
            if name in rows.columns:
                rows = rows.withColumn(name, sql.col(name).cast("binary"))
        for each in letters:
            letter = each if sink.subject is None else each.withColumnRenamed("value", _RAW_VALUE)
            rows = rows.unionByName(letter, allowMissingColumns=True)
    return rows


def place_of(sink: Sink) -> str:
    """Where rows go, for people."""
    if sink.topic is not None:
        return "topics" if sink.topic == _EVERY_TOPIC else sink.topic
    return "console" if sink.parquet is None else sink.parquet


def sink_options(pipeline: Pipeline, link: Mapping[str, str]) -> dict[str, str]:
    """The options of the connector for a topic; those of the file go over the command line's."""
    sink = pipeline.sink
    options = {**link, **option_texts(sink.options)}
    if sink.subject is not None:
        options |= {"valueFormat": sink.encode, "schemaSubject": sink.subject}
        if sink.register:
            options["registerSchema"] = "true"
        if sink.message is not None:
            options["messageName"] = sink.message
    has_letters = any(
        source.decode is not None and source.decode.mode == "dlq"
        for source in pipeline.views.values()
    )
    if sink.topic is not None and sink.topic != _EVERY_TOPIC and not has_letters:
        options["topic"] = sink.topic
    return options


def check_sink(rows: "DataFrame", pipeline: Pipeline, link: Mapping[str, str]) -> None:
    """What the connector would refuse at the start of a query, without starting one.

    It asks the broker for the topic; one that does not answer is `ServerUnreachable`.
    """
    from goqueue.spark import ColumnInvalid, GoQueueSource, OptionInvalid

    sink = pipeline.sink
    if sink.topic is None:
        return
    try:
        GoQueueSource(sink_options(pipeline, link)).streamWriter(rows.schema, overwrite=False)
    except (ColumnInvalid, OptionInvalid) as error:
        raise StepInvalid("sink", str(error)) from error


def writer(
    rows: "DataFrame",
    pipeline: Pipeline,
    folder: Path,
    link: Mapping[str, str],
    show: Callable[[Table], None],
) -> "DataStreamWriter":
    """The writer of a stream, to be given its trigger, checkpoint and name."""
    sink = pipeline.sink
    writing = rows.writeStream.outputMode(pipeline.output_mode)
    if sink.topic is not None:
        return writing.format("goqueue").options(**sink_options(pipeline, link))
    if sink.parquet is not None:
        path = sink.parquet if "://" in sink.parquet else str(folder / sink.parquet)
        writing = writing.format("parquet").options(**option_texts(sink.options))
        return writing.partitionBy(*sink.partition_by).option("path", path)
    assert sink.console is not None, "a sink is one of the three"
    limit = sink.console

    def tabulate(batch: "DataFrame", number: int) -> None:
        show(_table(batch, number, limit))

    return writing.foreachBatch(tabulate)


def _table(batch: "DataFrame", number: int, limit: int) -> Table:
    """Let all rows pass, so that they are counted and their expectations checked."""
    rows: list[Row] = []
    count = 0
    for row in batch.toLocalIterator():
        count += 1
        if count <= limit:
            rows.append(row)
    cells = tuple(tuple(_cell(value) for value in row) for row in rows)
    return Table(number, tuple(batch.columns), cells, count)


def _cell(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    return "" if value is None else str(value)
