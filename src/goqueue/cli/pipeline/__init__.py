"""`goqueue pipeline`: data pipelines on Spark, run, checked and looked at."""

from goqueue.cli.pipeline.command import pipeline

__all__ = ["pipeline"]
