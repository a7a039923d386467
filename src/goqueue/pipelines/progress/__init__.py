"""How far pipelines are: batch by batch, in all, and from what a checkpoint holds."""

from goqueue.pipelines.progress.batch import (
    IN,
    LETTERS,
    OUT,
    ROWS,
    BatchProgress,
    PartitionProgress,
    Violations,
    batch_progress,
    counter_name,
)
from goqueue.pipelines.progress.journal import (
    CheckpointBusy,
    Journal,
    Totals,
    folder_of,
    is_held,
    read_totals,
)
from goqueue.pipelines.progress.status import Status, read_status, with_ends

__all__ = [
    "IN",
    "LETTERS",
    "OUT",
    "ROWS",
    "BatchProgress",
    "CheckpointBusy",
    "Journal",
    "PartitionProgress",
    "Status",
    "Totals",
    "Violations",
    "batch_progress",
    "counter_name",
    "folder_of",
    "is_held",
    "read_status",
    "read_totals",
    "with_ends",
]
