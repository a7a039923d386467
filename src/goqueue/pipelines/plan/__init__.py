"""Pipelines as plans of Spark, and Spark's words about what is wrong with them."""

from goqueue.pipelines.plan.building import Plan, build
from goqueue.pipelines.plan.failures import Failure, Fault, explain
from goqueue.pipelines.plan.refusals import StepInvalid
from goqueue.pipelines.plan.sinks import Table, check_sink, place_of, writer
from goqueue.pipelines.plan.sources import source_options

__all__ = [
    "Failure",
    "Fault",
    "Plan",
    "StepInvalid",
    "Table",
    "build",
    "check_sink",
    "explain",
    "place_of",
    "source_options",
    "writer",
]
