"""The metadata of one partition's log: offsets, segments, epochs, retention, compaction."""

from goqueue.log.batch_mark import BatchMark
from goqueue.log.compaction import KeptRange, Leftover, NewestOffsets, plan_compaction
from goqueue.log.control import (
    ControlKind,
    Marker,
    cancellation,
    cancelled_by,
    ended_by,
    epoch_of,
    epoch_start,
    placeholder,
)
from goqueue.log.epochs import Epochs
from goqueue.log.index import ENTRY_SIZE, IndexEntry, SparseIndex
from goqueue.log.log import Appended, Log
from goqueue.log.producer_replay import Interruption, statements_in
from goqueue.log.producer_state import OffsetRanges, ProducersStated, ProducerState, TransactionEnd
from goqueue.log.recovery import (
    Assembly,
    Checked,
    LogState,
    RecoveryPoint,
    Tail,
    UnfinishedBatch,
    assemble,
    is_sealed,
    tail_to_scan,
    unfinished_batch,
)
from goqueue.log.segments import DamagedRange, Segments
from goqueue.log.watermarks import Watermarks

__all__ = [
    "ENTRY_SIZE",
    "Appended",
    "Assembly",
    "BatchMark",
    "Checked",
    "ControlKind",
    "DamagedRange",
    "Epochs",
    "IndexEntry",
    "Interruption",
    "KeptRange",
    "Leftover",
    "Log",
    "LogState",
    "Marker",
    "NewestOffsets",
    "OffsetRanges",
    "ProducerState",
    "ProducersStated",
    "RecoveryPoint",
    "Segments",
    "SparseIndex",
    "Tail",
    "TransactionEnd",
    "UnfinishedBatch",
    "Watermarks",
    "assemble",
    "cancellation",
    "cancelled_by",
    "ended_by",
    "epoch_of",
    "epoch_start",
    "is_sealed",
    "placeholder",
    "plan_compaction",
    "statements_in",
    "tail_to_scan",
    "unfinished_batch",
]
