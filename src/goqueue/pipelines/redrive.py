"""Reports dead letters and redrives those that are selected.

Headers of dead letters become columns, by which they are grouped and selected. A message of the
topic that is no dead letter (anyone may publish there) is counted and never redriven.

Spark selects and the broker moves: dead letters are named by their positions, and the broker moves
each at most once, atomically. So a redrive that was interrupted is simply repeated, and `goqueue
dlq redrive` may be used at the same time.

The broker does not report what it has redriven, but every copy names its dead letter in a header.
The report finds the copies that retention has kept by reading the target topics from the time of
the oldest dead letter. Only the report and the count of `--max` depend on it.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from goqueue.client import TopicNotFound
from goqueue.model import DEAD_LETTER_PREFIX, REDRIVEN_HEADER
from goqueue.pipelines.connection import ConnectionOptions, OptionWrong
from goqueue.pipelines.packaged_options import RedriveOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "COLUMNS",
    "REDRIVEN_HEADER",
    "LetterGroup",
    "Report",
    "Sample",
    "letters",
    "mark_redriven",
    "redrive",
    "report",
]


def mark_redriven(
    letters: "DataFrame",
    connection: ConnectionOptions,
    kept_in: str,
    targets: list[str],
    since_us: int,
) -> "DataFrame":
    """The dead letters that are kept in a topic, with `is_redriven`."""
    place = f"concat('{kept_in}-', partition, ':', offset) AS place"
    copies = _copies(letters.sparkSession, connection, targets, since_us)
    rows = letters.selectExpr("*", place).join(copies, "place", "left")
    # A copy is younger than its dead letter: a topic that is created again has the same offsets.
    return rows.selectExpr(
        "* EXCEPT (place, copied)", "coalesce(copied >= timestamp, false) AS is_redriven"
    )


def _copies(
    spark: "SparkSession", connection: ConnectionOptions, targets: list[str], since_us: int
) -> "DataFrame":
    """Where copies in the targets say that they come from, and the time of the youngest."""
    if not targets:
        return spark.createDataFrame([], "place STRING, copied TIMESTAMP")
    reader = spark.read.format("goqueue").options(
        **connection.options(
            subscribe=",".join(targets),
            # The broker counts in nanoseconds: the millisecond before is surely not too late.
            startingTimestamp=str(max(0, since_us // 1000 - 1)),
            includeHeaders="true",
            headersAs="array",
        )
    )
    place = f"cast({fact(REDRIVEN_HEADER)} AS STRING) AS place"
    rows = reader.load().selectExpr(place, "timestamp").where("place IS NOT NULL")
    return rows.groupBy("place").agg({"timestamp": "max"}).toDF("place", "copied")


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
    """One dead letter, by its position in the dead-letter topic."""

    partition: int
    offset: int
    origin_partition: int
    origin_offset: int
    key: str | None
    value: str | None


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one group with one cause. `redriven` of them were redriven before."""

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
    """All dead letters that are kept, the largest group first; and what was done."""

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
    """The columns of dead letters; `origin` is null for a message that is none."""
    expressions = [
        f"try_cast(cast({fact(DEAD_LETTER_PREFIX + header)} AS STRING) AS {kind}) AS {name}"
        for name, (header, kind) in COLUMNS.items()
    ]
    return rows.selectExpr("*", *expressions)


def report(marked: "DataFrame", samples: int) -> tuple[LetterGroup, ...]:
    """Group dead letters that are marked as `is_redriven` and `is_selected`."""
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


_AT_ONCE = 10_000


def redrive(spark: "SparkSession", options: RedriveOptions) -> Report:
    """Report on the dead letters; redrive the selected ones if that is asked for."""
    name, is_there = _letters_of(options)
    empty = Report(topic=options.topic, dead_letter_topic=name, is_sent=options.is_sent)
    if not is_there:
        return empty
    rows = letters(_read(spark, options, name)).cache()
    try:
        return _look(options, rows, empty)
    finally:
        rows.unpersist()


def _look(options: RedriveOptions, rows: "DataFrame", empty: Report) -> Report:
    facts = rows.selectExpr(
        "count_if(origin IS NULL) AS strangers",
        "unix_micros(min(timestamp)) AS since",
        "array_sort(collect_set(origin)) AS origins",
    ).first()
    assert facts is not None, "an aggregate has a row"
    if facts.since is None:
        return empty
    targets = _targets(options, list(facts.origins))
    known = mark_redriven(rows, options.connection, empty.dead_letter_topic, targets, facts.since)
    marked = _selected(known, options).cache()
    try:
        groups = report(marked, options.samples)
        found = msgspec.structs.replace(
            empty,
            letters=sum(group.letters for group in groups),
            redriven=sum(group.redriven for group in groups),
            selected=sum(group.selected for group in groups),
            strangers=int(facts.strangers),
            groups=groups,
        )
        if not options.is_sent or not found.selected:
            return found
        return msgspec.structs.replace(found, sent=_send(options, marked))
    finally:
        marked.unpersist()


def _letters_of(options: RedriveOptions) -> tuple[str, bool]:
    """The dead-letter topic, and whether it exists yet."""
    with options.connection.connect() as client:
        try:
            name = client.topics.describe(options.topic).config.dead_letter_topic
        except TopicNotFound as error:
            raise OptionWrong("--topic", f"there is no topic {options.topic!r}") from error
        if not name:
            words = f"{options.topic!r} holds dead letters: name the topic they came from"
            raise OptionWrong("--topic", words)
        try:
            client.topics.describe(name)
        except TopicNotFound:
            return name, False
    return name, True


def _read(spark: "SparkSession", options: RedriveOptions, name: str) -> "DataFrame":
    reader = spark.read.format("goqueue").options(
        **options.connection.options(subscribe=name, includeHeaders="true", headersAs="array")
    )
    return reader.load()


def _targets(options: RedriveOptions, origins: list[str]) -> list[str]:
    """The existing topics that dead letters were or are redriven to."""
    names = origins if options.to is None else sorted({*origins, options.to})
    found = []
    with options.connection.connect() as client:
        for name in names:
            try:
                client.topics.describe(name)
            except TopicNotFound:
                if name == options.to:
                    raise OptionWrong("--to", f"there is no topic {name!r}") from None
                # Dead letters of a deleted topic stay where they are, unless `--to` names another.
            else:
                found.append(name)
    return found


def _selected(marked: "DataFrame", options: RedriveOptions) -> "DataFrame":
    """With `is_selected`: what the options select and is not redriven yet, the oldest first."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    wanted = f.expr("origin IS NOT NULL AND NOT is_redriven")
    if options.reason is not None:
        wanted &= (f.col("reason") == options.reason) | (f.col("cause") == options.reason)
    wanted &= f.col("origin") == (options.origin or options.topic)
    if options.group is not None:
        wanted &= f.col("consumer_group") == options.group
    try:
        if options.where is not None:
            wanted &= f.expr(options.where)
        chosen = marked.withColumn("is_chosen", f.coalesce(wanted, f.expr("false")))
    except AnalysisException as error:
        words = (error.getMessage() or str(error)).split(" SQLSTATE", 1)[0]
        raise OptionWrong("--where", words.splitlines()[0]) from error
    oldest = Window.partitionBy("is_chosen").orderBy("timestamp", "partition", "offset")
    return chosen.withColumn(
        "is_selected",
        f.col("is_chosen") & (f.row_number().over(oldest) <= options.letters_max),
    )


def _send(options: RedriveOptions, marked: "DataFrame") -> int:
    """Name the selected dead letters to the broker, the oldest first; how many it moved."""
    chosen = marked.where("is_selected").select("partition", "offset", "timestamp")
    chosen = chosen.orderBy("timestamp", "partition", "offset")
    moved = 0
    with options.connection.connect() as client:
        for some in _portions((row.partition, row.offset) for row in chosen.toLocalIterator()):
            moved += client.dead_letters.redrive(
                options.origin or options.topic,
                limit=_AT_ONCE,
                to_topic=options.to,
                letters=some,
            )
    return moved


def _portions(places: Iterable[tuple[int, int]]) -> Iterator[dict[int, list[int]]]:
    """Offsets by partition, as many at once as the broker takes."""
    left = iter(places)
    while some := list(itertools.islice(left, _AT_ONCE)):
        portion: dict[int, list[int]] = {}
        for partition, offset in some:
            portion.setdefault(partition, []).append(offset)
        yield portion
