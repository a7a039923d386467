"""Packaged pipelines as their commands play them; imports Spark, so only for a run."""

from goqueue.cli.pipeline.packaged.plays.archiving import Request, run_archive
from goqueue.cli.pipeline.packaged.plays.auditing import expectations, run_audit
from goqueue.cli.pipeline.packaged.plays.redriving import run_redrive
from goqueue.cli.pipeline.packaged.plays.replaying import run_replay
from goqueue.cli.pipeline.packaged.plays.tracing import run_traces

__all__ = [
    "Request",
    "expectations",
    "run_archive",
    "run_audit",
    "run_redrive",
    "run_replay",
    "run_traces",
]
