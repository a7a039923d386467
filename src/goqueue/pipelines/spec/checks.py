"""What a pipeline must be beyond its types, as far as it can be judged without Spark."""

import re
from collections.abc import Iterator

from goqueue.pipelines.spec.pipeline import Pipeline, Sink, Source

__all__ = ["Problem", "check", "interval"]

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
    ):
        if own in lowered:
            where = (*path, "options", lowered[own])
            yield Problem(where, f"is given by `{instead}` in a pipeline")
    decode = source.decode
    if decode is not None and (decode.mode == "dlq") is not (decode.dead_letters is not None):
        yield Problem((*path, "decode"), "`mode: dlq` and `dead_letters` go together")
    watermark = source.watermark
    if watermark is not None and interval(watermark.delay) is None:
        yield Problem((*path, "watermark", "delay"), "is an interval: `10 minutes`")


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
    for name, default in (("encode", "raw"), ("key", None)):
        if sink.topic is None and getattr(sink, name) != default:
            yield Problem(("sink", name), "is for the sink `topic`")
    if sink.partition_by and sink.parquet is None:
        yield Problem(("sink", "partition_by"), "is for the sink `parquet`")
    if sink.parquet is not None and pipeline.output_mode != "append":
        yield Problem(("output_mode",), "is `append` for the sink `parquet`: files do not change")
    yield from _of_sink_options(sink)
    for name, source in pipeline.views.items():
        has_letters = source.decode is not None and source.decode.mode == "dlq"
        if has_letters and sink.topic is None:
            path = (("source",) if pipeline.source is not None else ("sources", name)) + ("decode",)
            words = "`mode: dlq` needs the sink `topic`: both are written in one transaction"
            yield Problem(path, words)


def _of_sink_options(sink: Sink) -> Iterator[Problem]:
    for name in sink.options:
        if sink.console is not None:
            yield Problem(("sink", "options"), "the sink `console` has none")
        if name.lower() in {"topic", "path", "checkpointlocation", "queryname"}:
            yield Problem(("sink", "options", name), "is given by the pipeline")
