"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.census import Census
from goqueue.delivery.delays import Delayed, Delays, DelaysStated
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.position import Position, PositionStated
from goqueue.delivery.queue import DeliveryQueue, Held, rest_ns
from goqueue.delivery.ranges import Range, Ranges, Stretch, runs
from goqueue.delivery.receipts import Receipt, Receipts
from goqueue.delivery.wheel import WHEEL_REACH_NS, Timer, Wheel

__all__ = [
    "LANES",
    "WHEEL_REACH_NS",
    "Census",
    "Delayed",
    "Delays",
    "DelaysStated",
    "DeliveryQueue",
    "Held",
    "LaneFacts",
    "Lanes",
    "Position",
    "PositionStated",
    "Range",
    "Ranges",
    "Receipt",
    "Receipts",
    "Stretch",
    "Timer",
    "Wheel",
    "rest_ns",
    "runs",
]
