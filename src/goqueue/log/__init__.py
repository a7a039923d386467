"""The metadata of one partition's log: offsets, segments, epochs, retention, compaction."""

from goqueue.log.batch_mark import BatchMark
from goqueue.log.batches import Appended
from goqueue.log.compaction import KeptRange, Leftover, NewestOffsets, plan_compaction
from goqueue.log.control import (
    ControlKind,
    Marker,
    Restored,
    cancellation,
    cancelled_by,
    ended_by,
    epoch_of,
    epoch_start,
    placeholder,
    restored,
    restored_by,
)
from goqueue.log.epochs import Epochs
from goqueue.log.index import ENTRY_SIZE, IndexEntry, SparseIndex
from goqueue.log.log import Log
from goqueue.log.offset_ranges import OffsetRanges
from goqueue.log.producer_replay import Interruption, Statement, statements_in
from goqueue.log.producer_state import ProducersStated, ProducerState, TransactionEnd
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
from goqueue.log.replica import STANDALONE, Replica, ReplicaRole
from goqueue.log.segments import DamagedRange, Segments
from goqueue.log.watermarks import Watermarks

__all__ = [
    "ENTRY_SIZE",
    "STANDALONE",
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
    "Replica",
    "ReplicaRole",
    "Restored",
    "Segments",
    "SparseIndex",
    "Statement",
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
    "restored",
    "restored_by",
    "statements_in",
    "tail_to_scan",
    "unfinished_batch",
]
