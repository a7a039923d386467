"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.delays import Delayed, Delays, DelaysStated
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.leases import Held
from goqueue.delivery.position import (
    REASON_BYTES_MAX,
    Position,
    PositionStated,
    TransactionHolds,
    cut_reason,
)
from goqueue.delivery.priority_index import PriorityIndex
from goqueue.delivery.queue import RESTING_MAX, DeliveryQueue, rest_ns
from goqueue.delivery.ranges import Range, Ranges, Stretch, runs
from goqueue.delivery.receipts import Receipt, Receipts
from goqueue.delivery.wheel import WHEEL_REACH_NS, Timer, Wheel

__all__ = [
    "LANES",
    "REASON_BYTES_MAX",
    "RESTING_MAX",
    "WHEEL_REACH_NS",
    "Delayed",
    "Delays",
    "DelaysStated",
    "DeliveryQueue",
    "Held",
    "LaneFacts",
    "Lanes",
    "Position",
    "PositionStated",
    "PriorityIndex",
    "Range",
    "Ranges",
    "Receipt",
    "Receipts",
    "Stretch",
    "Timer",
    "TransactionHolds",
    "Wheel",
    "cut_reason",
    "rest_ns",
    "runs",
]
