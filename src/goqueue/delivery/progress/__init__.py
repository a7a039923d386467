"""How far a group has come on a partition: settled, counted, held by transactions."""

from goqueue.delivery.progress.pins import Pins
from goqueue.delivery.progress.position import (
    REASON_BYTES_MAX,
    Position,
    PositionStated,
    cut_reason,
)
from goqueue.delivery.progress.ranges import Range, Ranges, Stretch, runs

__all__ = [
    "REASON_BYTES_MAX",
    "Pins",
    "Position",
    "PositionStated",
    "Range",
    "Ranges",
    "Stretch",
    "cut_reason",
    "runs",
]
