"""What happened since the process started, counted where it happens."""

from goqueue.broker.counts.counts import Counts
from goqueue.broker.counts.kinds import (
    AckType,
    Departure,
    GroupCounts,
    PairCounts,
    TopicCounts,
    Trigger,
)

__all__ = [
    "AckType",
    "Counts",
    "Departure",
    "GroupCounts",
    "PairCounts",
    "TopicCounts",
    "Trigger",
]
