"""A look at dead letters, and the way back for those that are selected.

Whatever can be told to the broker in its own words (all letters of a topic, or those of a reason)
is done by the broker, which moves each letter at most once. Other selections are published here,
with notes in the ledger. Once there are notes the broker is not asked any more, because it does not
read them: `goqueue dlq redrive` on the same letters would put them back a second time.
"""

from typing import TYPE_CHECKING

import msgspec

from goqueue.client import TopicNotFound
from goqueue.pipelines.packaged.redrive.ledger import Ledger, open_ledger
from goqueue.pipelines.packaged.redrive.letters import REDRIVEN_HEADER, Report, letters, report
from goqueue.pipelines.packaged.redrive.options import RedriveOptions
from goqueue.pipelines.packaged.wiring import OptionWrong, PipelineFailed

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
    ledger = open_ledger(options.wiring, name)
    rows = letters(_read(spark, options, name)).cache()
    try:
        return _look(spark, options, ledger, rows, empty)
    finally:
        rows.unpersist()


def _look(
    spark: "SparkSession",
    options: RedriveOptions,
    ledger: Ledger,
    rows: "DataFrame",
    empty: Report,
) -> Report:
    facts = rows.selectExpr(
        "count_if(origin IS NULL) AS strangers",
        "unix_micros(min(timestamp)) AS since",
        "array_sort(collect_set(origin)) AS origins",
    ).first()
    assert facts is not None, "an aggregate has a row"
    if facts.since is None:
        return empty
    targets = _targets(options, list(facts.origins))
    known = ledger.marked(spark, rows, sorted(targets), facts.since)
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
        if options.is_plain and not ledger.is_there:
            return msgspec.structs.replace(found, sent=_ask_broker(options), by_broker=True)
        sent = _send(spark, options, ledger, marked, targets)
        return msgspec.structs.replace(found, sent=sent)
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


def _targets(options: RedriveOptions, origins: list[str]) -> dict[str, int]:
    """How many partitions the topics have that letters went or go to, by name."""
    names = origins if options.to is None else sorted({*origins, options.to})
    found = {}
    with options.wiring.connect() as client:
        for name in names:
            try:
                found[name] = len(client.topics.partitions(name))
            except TopicNotFound:
                if name == options.to:
                    raise OptionWrong("--to", f"there is no topic {name!r}") from None
                # Letters of a topic that is gone stay where they are, unless `--to` takes them.
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


def _ask_broker(options: RedriveOptions) -> int:
    moved = 0
    with options.wiring.connect() as client:
        while moved < options.letters_max:
            some = client.dead_letters.redrive(
                options.topic,
                limit=min(_AT_ONCE, options.letters_max - moved),
                to_topic=options.to,
                reason=options.reason,
            )
            if not some:
                break
            moved += some
    return moved


def _send(
    spark: "SparkSession",
    options: RedriveOptions,
    ledger: Ledger,
    marked: "DataFrame",
    targets: dict[str, int],
) -> int:
    """Publish copies and notes by one decision; how many letters were put back by it."""
    from pyspark.sql import functions as f

    ledger = ledger.make()
    sizes = spark.createDataFrame(sorted(targets.items()), "target STRING, partitions INT")
    goal = f.lit(options.to) if options.to is not None else f.col("origin")
    chosen = marked.where("is_selected").withColumn("target", goal).join(sizes, "target")
    place = f"concat('{ledger.letters}-', partition, ':', offset)"
    others = f"filter(headers, each -> each.key != '{REDRIVEN_HEADER}')"
    added = f"array(named_struct('key', '{REDRIVEN_HEADER}', 'value', cast({place} AS BINARY)))"
    copies = chosen.selectExpr(
        "target AS topic",
        "origin_partition % partitions AS partition",
        "key",
        "value",
        "priority",
        f"concat({others}, {added}) AS headers",
        "struct(timestamp, partition AS letter, offset) AS place",
    )
    notes = chosen.selectExpr(
        f"'{ledger.topic}' AS topic",
        "0 AS partition",
        "cast(mark AS BINARY) AS key",
        "cast(to_json(struct(target, origin, origin_partition, origin_offset, "
        "current_timestamp() AS redriven)) AS BINARY) AS value",
        "2 AS priority",
        "filter(headers, each -> false) AS headers",
        "struct(timestamp, partition AS letter, offset) AS place",
    )
    # One task for all: letters of a partition go back in the order in which they died.
    rows = copies.unionByName(notes).coalesce(1).sortWithinPartitions("place").drop("place")
    rows.write.format("goqueue").options(**options.wiring.options(**ledger.key)).mode(
        "append"
    ).save()
    return _noted(spark, ledger, chosen)


def _noted(spark: "SparkSession", ledger: Ledger, chosen: "DataFrame") -> int:
    """How many of the chosen letters this ledger has now: none if another redrive was faster."""
    now = open_ledger(ledger.wiring, ledger.letters)
    known = now.marks(spark, since=ledger.end)
    wanted = chosen.select("mark")
    missing = wanted.join(known, "mark", "left_anti").count()
    if missing:
        words = "another redrive of the same letters was decided at the same time"
        raise PipelineFailed(f"{words}, and nothing was sent by this one: look at them again")
    return int(wanted.count())
