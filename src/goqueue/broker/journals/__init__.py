"""Internal logs that are the truth of a machine, and what is written to them."""

from goqueue.broker.journals.changes import (
    Change,
    Delivered,
    DeliveryReleased,
    GivenBack,
    Numbered,
    PositionAdded,
    PositionChange,
    PositionCut,
    PositionMoved,
    Settled,
    Started,
    TopicChange,
    TopicDeleted,
    TopicStated,
    state_position,
)
from goqueue.broker.journals.folding import fold
from goqueue.broker.journals.journal import (
    JOURNAL_SETTINGS,
    Journal,
    JournalLimits,
    Snapshot,
    piece_name,
)
from goqueue.broker.journals.statement import Restatement, SnapshotWriter, Statement

__all__ = [
    "JOURNAL_SETTINGS",
    "Change",
    "Delivered",
    "DeliveryReleased",
    "GivenBack",
    "Journal",
    "JournalLimits",
    "Numbered",
    "PositionAdded",
    "PositionChange",
    "PositionCut",
    "PositionMoved",
    "Restatement",
    "Settled",
    "Snapshot",
    "SnapshotWriter",
    "Started",
    "Statement",
    "TopicChange",
    "TopicDeleted",
    "TopicStated",
    "fold",
    "piece_name",
    "state_position",
]
