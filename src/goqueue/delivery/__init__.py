"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.delays import Delayed, Delays, DelaysStated
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.leases import Lease
from goqueue.delivery.message_state import MessageState
from goqueue.delivery.position import (
    REASON_BYTES_MAX,
    Position,
    PositionStated,
    TransactionHolds,
    cut_reason,
)
from goqueue.delivery.priority_index import PriorityIndex
from goqueue.delivery.queue import BACKOFF_MAX, DeliveryQueue, backoff_ns
from goqueue.delivery.ranges import Range, Ranges, Stretch, runs
from goqueue.delivery.receipts import Receipt, Receipts
from goqueue.delivery.wheel import WHEEL_REACH_NS, Timer, Wheel

__all__ = [
    "BACKOFF_MAX",
    "LANES",
    "REASON_BYTES_MAX",
    "WHEEL_REACH_NS",
    "Delayed",
    "Delays",
    "DelaysStated",
    "DeliveryQueue",
    "LaneFacts",
    "Lanes",
    "Lease",
    "MessageState",
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
    "backoff_ns",
    "cut_reason",
    "runs",
]
