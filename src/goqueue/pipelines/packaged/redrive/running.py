"""A look at dead letters, and the way back for those that are selected.

Spark selects and the broker moves: letters are named to it by their places, and each is moved at
most once, atomically, whoever asks and how often. So a redrive that was cut off is simply repeated,
and `goqueue dlq redrive` may be used beside it.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from goqueue.client import TopicNotFound
from goqueue.pipelines.packaged.redrive.copies import mark_redriven
from goqueue.pipelines.packaged.redrive.letters import Report, letters, report
from goqueue.pipelines.packaged.redrive.options import RedriveOptions
from goqueue.pipelines.packaged.wiring import OptionWrong

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["redrive"]

_AT_ONCE = 10_000


def redrive(spark: "SparkSession", options: RedriveOptions) -> Report:
    """Report on the letters; put the selected ones back if that is asked for."""
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
    known = mark_redriven(rows, options.wiring, empty.dead_letter_topic, targets, facts.since)
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
    """The topic that keeps the letters, and whether one has died yet."""
    with options.wiring.connect() as client:
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
        **options.wiring.options(subscribe=name, includeHeaders="true", headersAs="array")
    )
    return reader.load()


def _targets(options: RedriveOptions, origins: list[str]) -> list[str]:
    """The topics that letters went or go to, as far as they are there."""
    names = origins if options.to is None else sorted({*origins, options.to})
    found = []
    with options.wiring.connect() as client:
        for name in names:
            try:
                client.topics.describe(name)
            except TopicNotFound:
                if name == options.to:
                    raise OptionWrong("--to", f"there is no topic {name!r}") from None
                # Letters of a topic that is gone stay where they are, unless `--to` takes them.
            else:
                found.append(name)
    return found


def _selected(marked: "DataFrame", options: RedriveOptions) -> "DataFrame":
    """With `is_selected`: what the options say, not put back yet, the oldest first."""
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
    """Name the selected letters to the broker, the oldest first; how many it moved."""
    chosen = marked.where("is_selected").select("partition", "offset", "timestamp")
    chosen = chosen.orderBy("timestamp", "partition", "offset")
    moved = 0
    with options.wiring.connect() as client:
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
