"""How far a group has come on a partition: settled, counted, held by transactions."""

from goqueue.delivery.progress.pins import Pins
from goqueue.delivery.progress.position import Position, PositionStated
from goqueue.delivery.progress.ranges import Range, Ranges, Stretch, runs

__all__ = ["Pins", "Position", "PositionStated", "Range", "Ranges", "Stretch", "runs"]
