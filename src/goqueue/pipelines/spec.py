"""The pipeline file as values, and the checks beyond their types.

Owns the Structs of a file, the checks that need no Spark, and the conversion of YAML values to the
texts that Spark expects in options and settings. Never imports Spark.

The description of each field is its line in the reference page, so it is written for authors of
pipeline files.
"""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

__all__ = [
    "SOURCE",
    "Decode",
    "Expectation",
    "Pipeline",
    "Problem",
    "Sink",
    "Source",
    "Step",
    "Watermark",
    "check",
    "interval",
    "option_texts",
]


def option_texts(given: Mapping[str, object]) -> dict[str, str]:
    """Truth and numbers as Spark writes them, times by ISO 8601, lists and mappings as JSON."""
    return {name: _text(value) for name, value in given.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        # YAML reads `…Z` as a time without a zone, having brought it to UTC.
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return moment.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(value, separators=(",", ":"), default=str)
    return str(value)


# The view that `source:` is read as.
SOURCE = "source"

_Topics = Annotated[
    list[str] | str,
    msgspec.Meta(
        description="A topic or a list of topics; or set the option `assign` or `subscribePattern`."
    ),
]
_Options = Annotated[
    dict[str, Any],
    msgspec.Meta(
        description="Connector options, see spark-options.md. Lists and mappings become JSON. The "
        "server is that of the command line unless `goqueue.servers` is set."
    ),
]


class Decode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The schema of the values. Without it `value` is bytes, with it a struct: `value.id`."""

    schema: Annotated[
        str | None,
        msgspec.Meta(
            description="Fields of JSON in Spark's notation: `id BIGINT, at TIMESTAMP`; or "
            "`subject`."
        ),
    ] = None
    subject: Annotated[
        str | None,
        msgspec.Meta(description="Subject of the schema registry whose schema the values have."),
    ] = None
    format: Annotated[
        Literal["json", "avro", "protobuf"],
        msgspec.Meta(
            description="Format of the values; `avro` and `protobuf` need `subject` and the extra "
            "of that name."
        ),
    ] = "json"
    version: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(description="Version of the subject; default: the latest at the start."),
    ] = None
    message: Annotated[
        str | None,
        msgspec.Meta(description="Message of a Protobuf file; default: the first."),
    ] = None
    evolution: Annotated[
        Literal["fixed", "latest"],
        msgspec.Meta(
            description="When the subject has a new version: read its values into the columns of "
            "the start (`fixed`), or plan the pipeline again with the new columns (`latest`)."
        ),
    ] = "fixed"
    mode: Annotated[
        Literal["permissive", "failfast", "dlq"],
        msgspec.Meta(
            description="For values that do not match: set `value` to null and `_corrupt` to the "
            "bytes (`permissive`), fail the pipeline (`failfast`), or write them to `dead_letters` "
            "in the same transaction as the result (`dlq`, for the sink `topic`)."
        ),
    ] = "permissive"
    dead_letters: Annotated[
        str | None, msgspec.Meta(description="Topic for records that cannot be decoded.")
    ] = None


class Watermark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How late rows may arrive; an aggregate by time is final after that."""

    column: Annotated[
        str,
        msgspec.Meta(
            description="Column with the event time; a field `value.at` becomes the column `at`."
        ),
    ]
    delay: Annotated[str, msgspec.Meta(description="Maximum lateness: `10 minutes`.")]


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Topics, read as one view."""

    topics: _Topics | None = None
    options: _Options = {}
    decode: Annotated[
        Decode | None, msgspec.Meta(description="Schema of the values, see below.")
    ] = None
    watermark: Annotated[
        Watermark | None, msgspec.Meta(description="Maximum lateness of rows, see below.")
    ] = None

    @property
    def topic_names(self) -> list[str]:
        """The topics that are named; none where a pattern or partitions are."""
        given = self.topics.split(",") if isinstance(self.topics, str) else self.topics or []
        return [name.strip() for name in given]


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One transformation. Its result is a view; the last one goes to the sink."""

    name: Annotated[str, msgspec.Meta(description="View name for later steps.")]
    sql: Annotated[
        str | None,
        msgspec.Meta(description="A SELECT over the view `source` and earlier steps."),
    ] = None
    python: Annotated[
        str | None,
        msgspec.Meta(
            description="`module:function` that receives the DataFrame of the previous step and "
            "returns one. The module may be in the folder of the file."
        ),
    ] = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition that every row of a step should meet."""

    name: Annotated[str, msgspec.Meta(description="Name under which violations are counted.")]
    that: Annotated[str, msgspec.Meta(description="SQL condition; null counts as a violation.")]
    on_violation: Annotated[
        Literal["warn", "drop", "fail"],
        msgspec.Meta(
            description="`warn` counts, `drop` also drops the row, `fail` ends the pipeline before "
            "anything of the batch becomes visible."
        ),
    ] = "warn"
    step: Annotated[
        str | None,
        msgspec.Meta(description="Step to check; default: the last one."),
    ] = None


class Sink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target: exactly one of `topic`, `parquet` and `console`."""

    topic: Annotated[
        str | None,
        msgspec.Meta(
            description="A topic, written exactly once; `*` if a column `topic` names it per row. "
            "Other columns: `value`, `key`, `headers`, `partition`, `priority`, …"
        ),
    ] = None
    encode: Annotated[
        Literal["raw", "json", "avro", "protobuf"],
        msgspec.Meta(
            description="`raw` writes the column `value`; `json`, `avro` and `protobuf` encode all "
            "columns that are not columns of the connector. `avro` and `protobuf` need `subject`."
        ),
    ] = "raw"
    subject: Annotated[
        str | None,
        msgspec.Meta(
            description="Subject of the schema registry whose latest schema values are encoded "
            "with, in registry framing."
        ),
    ] = None
    register: Annotated[
        bool,
        msgspec.Meta(
            description="Make the schema from the columns and register it for `subject`, if it is "
            "compatible."
        ),
    ] = False
    message: Annotated[
        str | None,
        msgspec.Meta(description="Message of a Protobuf file; default: the first."),
    ] = None
    key: Annotated[str | None, msgspec.Meta(description="SQL expression for the key of a row.")] = (
        None
    )
    options: Annotated[
        dict[str, Any],
        msgspec.Meta(description="Options of the connector or of Spark's Parquet writer."),
    ] = {}
    parquet: Annotated[
        str | None,
        msgspec.Meta(
            description="A folder of Parquet files, one file per batch and partition value; "
            "relative to the file. Exactly once for readers that use Spark."
        ),
    ] = None
    partition_by: Annotated[
        list[str], msgspec.Meta(description="Partition columns; for `parquet`.")
    ] = []
    console: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=1000)] | None,
        msgspec.Meta(description="Number of rows of every batch to print as a table."),
    ] = None


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file: sources, steps, one sink."""

    name: Annotated[
        str, msgspec.Meta(description="Name of the pipeline: letters, digits, `.`, `_`, `-`.")
    ]
    description: Annotated[str, msgspec.Meta(description="One line for `pipeline list`.")] = ""
    source: Annotated[
        Source | None, msgspec.Meta(description="The source, as the view `source`.")
    ] = None
    sources: Annotated[
        dict[str, Source],
        msgspec.Meta(description="Instead of `source`: several sources, each a view by its name."),
    ] = {}
    steps: Annotated[list[Step], msgspec.Meta(description="Transformations, in order.")] = []
    expectations: Annotated[
        list[Expectation], msgspec.Meta(description="Conditions that rows should meet.")
    ] = []
    sink: Annotated[Sink, msgspec.Meta(description="Target of the result.")]
    output_mode: Annotated[
        Literal["append", "update", "complete"],
        msgspec.Meta(
            description="Rows of an aggregate to write: final ones, changed ones, or all."
        ),
    ] = "append"
    trigger: Annotated[
        str | None,
        msgspec.Meta(
            description="When a batch starts: an interval such as `5 seconds`, `available_now` "
            "(existing rows in several batches, then end), `once` (in one batch, then end). "
            "Default: when the previous one is done; for `parquet` every minute, to limit the "
            "number of files."
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        msgspec.Meta(
            description="Checkpoint folder, relative to the file; default: `_pipelines/NAME` "
            "beside it. Without its contents the pipeline starts from the beginning."
        ),
    ] = None
    group: Annotated[
        str | None,
        msgspec.Meta(
            description="A consumer group that shows the progress and lag of the pipeline at the "
            "broker. For display only: the checkpoint decides."
        ),
    ] = None
    observe: Annotated[
        dict[str, str],
        msgspec.Meta(description="Aggregates of every batch of the result, by name: `sum(x)`."),
    ] = {}
    configuration: Annotated[
        dict[str, str | int | float | bool],
        msgspec.Meta(description="Spark settings: `spark.…`."),
    ] = {}

    @property
    def views(self) -> Mapping[str, Source]:
        """The sources by the names of their views."""
        return self.sources if self.source is None else {SOURCE: self.source}

    @property
    def topic_names(self) -> list[str]:
        """Every topic that is read, in order."""
        found = {name for source in self.views.values() for name in source.topic_names}
        return sorted(found)


_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_INTERVAL = re.compile(r"([1-9]\d{0,8}) ?([a-z]+)", re.IGNORECASE)
_UNITS = {
    "ms": "milliseconds",
    "millisecond": "milliseconds",
    "s": "seconds",
    "second": "seconds",
    "m": "minutes",
    "minute": "minutes",
    "h": "hours",
    "hour": "hours",
    "d": "days",
    "day": "days",
}
_GIVEN = frozenset(
    (
        *("topic", "path", "checkpointlocation", "queryname"),
        *("valueformat", "schemasubject", "registerschema", "messagename"),
    )
)
_TRIGGERS = ("available_now", "once")


class Problem(ValueError):
    """What is wrong, and the path of where."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


def check(pipeline: Pipeline) -> None:
    """Raise the first problem, in the order of the reference."""
    for problem in _problems(pipeline):
        raise problem


def interval(text: str) -> str | None:
    """The interval as Spark writes it, `5 seconds` of `5s`; None if it is none."""
    told = _INTERVAL.fullmatch(text.strip())
    if told is None:
        return None
    unit = told[2].lower()
    words = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
    return None if words is None else f"{told[1]} {words}"


def _problems(pipeline: Pipeline) -> Iterator[Problem]:
    if not _NAME.fullmatch(pipeline.name):
        yield Problem(("name",), "is made of at most 100 letters, digits, `.`, `_` and `-`")
    if (pipeline.source is None) is not bool(pipeline.sources):
        yield Problem((), "give exactly one of `source` and `sources`")
    for name, source in pipeline.sources.items():
        if not _IDENTIFIER.fullmatch(name):
            yield Problem(("sources", name), "a view is named by letters, digits and `_`")
        yield from _of_source(source, ("sources", name))
    if pipeline.source is not None:
        yield from _of_source(pipeline.source, ("source",))
    if len(pipeline.sources) > 1 and not pipeline.steps:
        yield Problem((), "several sources need a step that brings them together")
    yield from _of_steps(pipeline)
    yield from _of_expectations(pipeline)
    yield from _of_sink(pipeline)
    yield from _of_the_rest(pipeline)


def _of_the_rest(pipeline: Pipeline) -> Iterator[Problem]:
    trigger = pipeline.trigger
    if trigger is not None and trigger not in _TRIGGERS and interval(trigger) is None:
        yield Problem(("trigger",), "is `available_now`, `once` or an interval: `5 seconds`")
    if pipeline.group is not None and not _NAME.fullmatch(pipeline.group):
        yield Problem(("group",), "is made of letters, digits, `.`, `_` and `-`")
    for name in pipeline.observe:
        if not _IDENTIFIER.fullmatch(name):
            yield Problem(("observe", name), "is named by letters, digits and `_`")
    for name in pipeline.configuration:
        if not name.startswith("spark."):
            yield Problem(("configuration", name), "is no setting of Spark: they begin `spark.`")


def _of_source(source: Source, path: tuple[str, ...]) -> Iterator[Problem]:
    lowered = {name.lower(): name for name in source.options}
    others = [name for name in ("assign", "subscribepattern") if name in lowered]
    if len(others) + (source.topics is not None) != 1:
        words = "give one of `topics` and the options `assign` and `subscribePattern`"
        yield Problem((*path, "topics"), words)
    if source.topics is not None and not all(source.topic_names):
        yield Problem((*path, "topics"), "a topic has no name")
    if source.topics == []:
        yield Problem((*path, "topics"), "is empty")
    for own, instead in (
        ("subscribe", "topics"),
        ("valueformat", "decode"),
        ("valueschema", "decode"),
        ("mode", "decode"),
        ("dlqtopic", "decode"),
        ("schemasubject", "decode"),
        ("schemaversion", "decode"),
        ("messagename", "decode"),
        ("schemaevolution", "decode"),
    ):
        if own in lowered:
            where = (*path, "options", lowered[own])
            yield Problem(where, f"is given by `{instead}` in a pipeline")
    if source.decode is not None:
        yield from _of_decode(source.decode, (*path, "decode"))
    watermark = source.watermark
    if watermark is not None and interval(watermark.delay) is None:
        yield Problem((*path, "watermark", "delay"), "is an interval: `10 minutes`")


def _of_decode(decode: Decode, path: tuple[str, ...]) -> Iterator[Problem]:
    if (decode.mode == "dlq") is not (decode.dead_letters is not None):
        yield Problem(path, "`mode: dlq` and `dead_letters` go together")
    if (decode.schema is None) is (decode.subject is None):
        yield Problem(path, "give exactly one of `schema` and `subject`")
    if decode.format != "json" and decode.subject is None:
        yield Problem((*path, "format"), "needs `subject`")
    for name, default in (("version", None), ("message", None), ("evolution", "fixed")):
        if getattr(decode, name) != default and decode.subject is None:
            yield Problem((*path, name), "needs `subject`")
    if decode.message is not None and decode.format != "protobuf":
        yield Problem((*path, "message"), "is for `format: protobuf`")
    if decode.evolution == "latest" and decode.version is not None:
        yield Problem((*path, "evolution"), "contradicts `version`, which names one")


def _of_steps(pipeline: Pipeline) -> Iterator[Problem]:
    taken = set(pipeline.views)
    for index, step in enumerate(pipeline.steps):
        path = ("steps", index)
        if not _IDENTIFIER.fullmatch(step.name):
            yield Problem((*path, "name"), "a view is named by letters, digits and `_`")
        if step.name in taken:
            yield Problem((*path, "name"), f"there is a view `{step.name}` already")
        taken.add(step.name)
        if (step.sql is None) is (step.python is None):
            yield Problem(path, "give exactly one of `sql` and `python`")
        if step.python is not None and not _FUNCTION.fullmatch(step.python):
            yield Problem((*path, "python"), "is `module:function`")
        if step.python is not None and index == 0 and len(pipeline.sources) > 1:
            yield Problem((*path, "python"), "is given one view: bring the sources together first")


def _of_expectations(pipeline: Pipeline) -> Iterator[Problem]:
    views = {*pipeline.views, *(step.name for step in pipeline.steps)}
    seen: set[str] = set()
    for index, expectation in enumerate(pipeline.expectations):
        path = ("expectations", index)
        if not _IDENTIFIER.fullmatch(expectation.name):
            yield Problem((*path, "name"), "is made of letters, digits and `_`")
        if expectation.name in seen:
            yield Problem((*path, "name"), f"there is an expectation `{expectation.name}` already")
        seen.add(expectation.name)
        if expectation.step is not None and expectation.step not in views:
            words = f"there is no step `{expectation.step}`, only {', '.join(sorted(views))}"
            yield Problem((*path, "step"), words)


def _of_sink(pipeline: Pipeline) -> Iterator[Problem]:
    sink = pipeline.sink
    given = [name for name in ("topic", "parquet", "console") if getattr(sink, name) is not None]
    if len(given) != 1:
        yield Problem(("sink",), "give exactly one of `topic`, `parquet` and `console`")
        return
    for name, default in (("encode", "raw"), ("key", None), ("subject", None)):
        if sink.topic is None and getattr(sink, name) != default:
            yield Problem(("sink", name), "is for the sink `topic`")
    if sink.partition_by and sink.parquet is None:
        yield Problem(("sink", "partition_by"), "is for the sink `parquet`")
    if sink.parquet is not None and pipeline.output_mode != "append":
        yield Problem(("output_mode",), "is `append` for the sink `parquet`: files do not change")
    yield from _of_encoding(sink)
    yield from _of_sink_options(sink)
    for name, source in pipeline.views.items():
        has_letters = source.decode is not None and source.decode.mode == "dlq"
        if has_letters and sink.topic is None:
            path = (("source",) if pipeline.source is not None else ("sources", name)) + ("decode",)
            words = "`mode: dlq` needs the sink `topic`: both are written in one transaction"
            yield Problem(path, words)


def _of_encoding(sink: Sink) -> Iterator[Problem]:
    if sink.subject is not None and sink.encode == "raw":
        yield Problem(("sink", "subject"), "needs `encode`: json, avro or protobuf")
    if sink.encode in {"avro", "protobuf"} and sink.subject is None:
        yield Problem(("sink", "encode"), "needs `subject`")
    if sink.register and sink.subject is None:
        yield Problem(("sink", "register"), "needs `subject`")
    if sink.message is not None and (sink.encode != "protobuf" or sink.register):
        yield Problem(("sink", "message"), "is for `encode: protobuf` without `register`")


def _of_sink_options(sink: Sink) -> Iterator[Problem]:
    for name in sink.options:
        if sink.console is not None:
            yield Problem(("sink", "options"), "the sink `console` has none")
        if name.lower() in _GIVEN:
            yield Problem(("sink", "options", name), "is given by the pipeline")
