"""One partition's log as metadata: offsets, segments, indexes, epochs, retention, compaction."""

from goqueue.log.compaction import KeptRange, NewestOffsets, plan_compaction
from goqueue.log.control import (
    ControlKind,
    cancellation,
    cancelled_by,
    epoch_of,
    epoch_start,
    placeholder,
)
from goqueue.log.epochs import Epochs
from goqueue.log.index import ENTRY_SIZE, IndexEntry, SparseIndex
from goqueue.log.log import Appended, Log
from goqueue.log.recovery import (
    Assembly,
    Checked,
    LogState,
    RecoveryPoint,
    Tail,
    assemble,
    is_sealed,
    tail_to_scan,
)
from goqueue.log.segments import DamagedRange, Segments
from goqueue.log.watermarks import Watermarks

__all__ = [
    "ENTRY_SIZE",
    "Appended",
    "Assembly",
    "Checked",
    "ControlKind",
    "DamagedRange",
    "Epochs",
    "IndexEntry",
    "KeptRange",
    "Log",
    "LogState",
    "NewestOffsets",
    "RecoveryPoint",
    "Segments",
    "SparseIndex",
    "Tail",
    "Watermarks",
    "assemble",
    "cancellation",
    "cancelled_by",
    "epoch_of",
    "epoch_start",
    "is_sealed",
    "placeholder",
    "plan_compaction",
    "tail_to_scan",
]
