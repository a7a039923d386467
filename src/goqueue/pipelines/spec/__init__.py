"""Pipeline files: their form, how they are read, and what is wrong with them."""

from goqueue.pipelines.spec.checks import interval
from goqueue.pipelines.spec.files import PipelineInvalid, parse_pipeline, read_pipeline
from goqueue.pipelines.spec.pipeline import (
    Decode,
    Expectation,
    Pipeline,
    Sink,
    Source,
    Step,
    Watermark,
)
from goqueue.pipelines.spec.reference import reference
from goqueue.pipelines.spec.texts import option_texts

__all__ = [
    "Decode",
    "Expectation",
    "Pipeline",
    "PipelineInvalid",
    "Sink",
    "Source",
    "Step",
    "Watermark",
    "interval",
    "option_texts",
    "parse_pipeline",
    "read_pipeline",
    "reference",
]
