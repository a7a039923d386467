"""Expectations as part of a plan: counted where the rows pass, and acted upon there.

A row for which a condition is null violates it, because nobody can say that it holds.

Invariant: violations of all expectations about a step are counted before any row is dropped.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.pipelines.plan.failures import VIOLATED
from goqueue.pipelines.plan.refusals import StepInvalid, refusing
from goqueue.pipelines.progress import counter_name
from goqueue.pipelines.spec import Expectation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["expect"]

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
