"""Internal logs that are the truth of a machine, and what is written to them."""

from goqueue.broker.journals.changes import (
    Change,
    Delivered,
    DeliveryReleased,
    GivenBack,
    Numbered,
    PositionAdded,
    PositionChange,
    PositionMoved,
    Settled,
    Started,
    TopicChange,
    TopicDeleted,
    TopicStated,
    state_position,
)
from goqueue.broker.journals.folding import fold
from goqueue.broker.journals.journal import JOURNAL_SETTINGS, Journal, JournalLimits

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
    "PositionMoved",
    "Settled",
    "Started",
    "TopicChange",
    "TopicDeleted",
    "TopicStated",
    "fold",
    "state_position",
]
