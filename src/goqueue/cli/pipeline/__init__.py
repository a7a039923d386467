"""`goqueue pipeline`: run, check and inspect data pipelines on Spark."""

from goqueue.cli.pipeline.command import pipeline

__all__ = ["pipeline"]
