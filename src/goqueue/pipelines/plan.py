"""Builds the Spark plan of a pipeline: views in order, expectations, the result, the sink.

Builds and analyses; reads no topic and starts nothing. Each plan has a session of its own over the
same Spark, so views of two pipelines never meet. A step in Python is a function from the folder of
the pipeline file or from an installed module; those of the folder are pickled by value, so
executors need not find it. Expectations are counted where the rows pass; a row for which a
condition is null violates it.

Invariant: a plan contains every expectation, and the violations of all expectations about a step
are counted before any row is dropped.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.pipelines.errors import VIOLATED, StepInvalid, refusing
from goqueue.pipelines.progress import OUT, ROWS, counter_name
from goqueue.pipelines.sinks import encoded, read_source, united
from goqueue.pipelines.spec import Expectation, Pipeline, Step, option_texts

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Plan", "Transform", "build", "expect", "find_function"]

Transform = Callable[["DataFrame"], "DataFrame"]


def find_function(name: str, folder: Path, place: str) -> Transform:
    """The function that `module:function` names."""
    module_name, _, attribute = name.partition(":")
    module = _module(module_name, folder, place)
    found = getattr(module, attribute, None)
    if not callable(found):
        raise StepInvalid(place, f"`{module_name}` has no function `{attribute}`")
    function: Transform = found
    return function


def _module(name: str, folder: Path, place: str) -> "ModuleType":
    from pyspark import cloudpickle

    sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(name)
    except Exception as error:
        # The module is a user's own: whatever it raises is said with its name.
        words = f"`{name}` cannot be imported: {type(error).__name__}: {error}"
        raise StepInvalid(place, words) from error
    finally:
        sys.path.remove(str(folder))
    file = getattr(module, "__file__", None)
    if file is not None and folder.resolve() in Path(file).resolve().parents:
        package = sys.modules[name.partition(".")[0]]
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]  # bundled as it is
    return module


_SAMPLE_MAX = 200


def expect(rows: "DataFrame", step: str, expectations: Sequence[Expectation]) -> "DataFrame":
    """The rows of a step, observed, without those that are to be dropped."""
    from pyspark.sql import functions as sql

    if not expectations:
        return rows
    conditions = {each.name: _condition(rows, each) for each in expectations}
    counts = [sql.count_if(~holds).alias(name) for name, holds in conditions.items()]
    observed = rows.observe(counter_name(step), *counts)
    for each in expectations:
        if each.on_violation == "fail":
            observed = observed.where(_or_fail(conditions[each.name], each, step))
    for each in expectations:
        if each.on_violation == "drop":
            observed = observed.where(conditions[each.name])
    return observed


def _condition(rows: "DataFrame", expectation: Expectation) -> "Column":
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BooleanType

    place = f"expectation `{expectation.name}`"
    with refusing(place):
        condition = sql.expr(expectation.that)
        kind = rows.select(condition).schema[0].dataType
    if not isinstance(kind, BooleanType):
        raise StepInvalid(place, f"is of type {kind.simpleString()}, not true or false")
    return sql.coalesce(condition, sql.lit(False))


def _or_fail(holds: "Column", expectation: Expectation, step: str) -> "Column":
    """True, or an error that shows the row: by its words it is recognised again."""
    from pyspark.sql import functions as sql

    head = f"{VIOLATED} `{expectation.name}` of `{step}` is violated by "
    row = sql.substring(sql.to_json(sql.struct("*")), 1, _SAMPLE_MAX)
    words = sql.concat(sql.lit(head), sql.coalesce(row, sql.lit("a row")))
    return sql.when(holds, sql.lit(True)).otherwise(sql.raise_error(words).cast("boolean"))


class Plan:
    """The views by name, in order, and what goes to the sink."""

    def __init__(
        self,
        pipeline: Pipeline,
        views: "dict[str, DataFrame]",
        letters: "Sequence[DataFrame]",
    ) -> None:
        self.pipeline = pipeline
        self.views = views
        self.written = united(encoded(self.result, pipeline.sink), pipeline.sink, letters)

    @property
    def result(self) -> "DataFrame":
        """The last view."""
        return list(self.views.values())[-1]

    @property
    def schemas(self) -> dict[str, str]:
        """The columns of every view, as Spark writes them."""
        return {
            name: ", ".join(
                f"{field.name} {field.dataType.simpleString()}" for field in rows.schema
            )
            for name, rows in self.views.items()
        }

    def explained(self) -> str:
        """The logical plan of what is written, as Spark would carry it out."""
        # A query that is not started has no plan beyond the analysed one, so it is asked for.
        session = self.written.sparkSession._jsparkSession  # noqa: SLF001 - see above
        analysed = self.written._jdf.queryExecution().analyzed()  # noqa: SLF001 - see above
        return str(session.sessionState().optimizer().execute(analysed).toString())


def build(spark: "SparkSession", pipeline: Pipeline, folder: Path, link: Mapping[str, str]) -> Plan:
    """The plan of a pipeline whose file is in `folder`; `link` says how to reach the broker.

    Raises `StepInvalid` with the step and what is wrong with it.
    """
    spark = spark.newSession()
    for name, value in option_texts(pipeline.configuration).items():
        # Static settings are those of the session: it was created with them, or they cannot change.
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    last = pipeline.steps[-1].name if pipeline.steps else list(pipeline.views)[-1]
    views: dict[str, DataFrame] = {}
    letters: list[DataFrame] = []
    for name, source in pipeline.views.items():
        with refusing(f"`{name}`"):
            rows = read_source(spark, name, source, link)
        letters += [] if rows.letters is None else [rows.letters]
        _add(views, name, rows.good, pipeline, last)
    for step in pipeline.steps:
        _add(views, step.name, _step(spark, step, views, folder), pipeline, last)
    with refusing("observe"):
        views[last] = _observed(views[last], pipeline.observe)
    plan = Plan(pipeline, views, letters)
    _check_expectations(plan, last)
    _check_mode(spark, plan)
    return plan


def _add(
    views: "dict[str, DataFrame]", name: str, rows: "DataFrame", pipeline: Pipeline, last: str
) -> None:
    about = [each for each in pipeline.expectations if (each.step or last) == name]
    views[name] = expect(rows, name, about)
    views[name].createOrReplaceTempView(name)


def _step(
    spark: "SparkSession", step: Step, views: "dict[str, DataFrame]", folder: Path
) -> "DataFrame":
    place = f"step `{step.name}`"
    if step.sql is not None:
        with refusing(place):
            # Only a query: a command would be carried out here and now.
            spark._jsparkSession.sessionState().sqlParser().parseQuery(step.sql)  # noqa: SLF001 - Spark has no other way to parse only
            rows = spark.sql(step.sql)
    else:
        assert step.python is not None, "a step is one of the two"
        function = find_function(step.python, folder, place)
        with refusing(place):
            rows = function(list(views.values())[-1])
        if not hasattr(rows, "isStreaming"):
            raise StepInvalid(place, f"gives {type(rows).__name__} back, and no DataFrame")
    if not rows.isStreaming:
        raise StepInvalid(place, "reads none of the sources, so there is no stream")
    return rows


def _observed(rows: "DataFrame", aggregates: Mapping[str, str]) -> "DataFrame":
    from pyspark.sql import functions as sql

    wanted = [sql.expr(text).alias(name) for name, text in aggregates.items()]
    return rows.observe(OUT, sql.count(sql.lit(1)).alias(ROWS), *wanted)


def _check_expectations(plan: Plan, last: str) -> None:
    """Spark omits a step that nothing uses, and its expectations with it."""
    text = str(plan.written._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - Spark only prints it
    for each in plan.pipeline.expectations:
        step = each.step or last
        if f"CollectMetrics {counter_name(step)}," not in text:
            words = f"is about `{step}`, of which nothing reaches the sink"
            raise StepInvalid(f"expectation `{each.name}`", words)


def _check_mode(spark: "SparkSession", plan: Plan) -> None:
    """Ask Spark what it would ask when the query starts: whether it can run such a plan at all."""
    jvm = spark._jvm  # noqa: SLF001 - the check has no other entrance
    assert jvm is not None, "a session of this machine has a JVM"
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = getattr(modes, plan.pipeline.output_mode.capitalize())()
    with refusing(f"output_mode `{plan.pipeline.output_mode}`"):
        checker.checkForStreaming(plan.written._jdf.queryExecution().analyzed(), mode)  # noqa: SLF001 - see above
