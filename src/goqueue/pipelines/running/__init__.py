"""Running pipelines, and stopping them in order."""

from goqueue.pipelines.running.mirror import GroupMirror
from goqueue.pipelines.running.runner import (
    RunFailed,
    Wish,
    checkpoint_of,
    local_checkpoint,
    query_name,
    run_pipeline,
)
from goqueue.pipelines.running.stopping import Stop, stopped_by_signals

__all__ = [
    "GroupMirror",
    "RunFailed",
    "Stop",
    "Wish",
    "checkpoint_of",
    "local_checkpoint",
    "query_name",
    "run_pipeline",
    "stopped_by_signals",
]
