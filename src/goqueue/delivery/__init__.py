"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.delays import Delayed, Delays, DelaysStated
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.lease_handles import LeaseHandles, LeaseName
from goqueue.delivery.leases import Lease, LeasePart
from goqueue.delivery.message_state import MessageState
from goqueue.delivery.position import (
    REASON_BYTES_MAX,
    Position,
    PositionStated,
    TransactionHolds,
    cut_reason,
)
from goqueue.delivery.priority_index import PriorityIndex
from goqueue.delivery.queue import BACKOFF_MAX, DeliveryQueue, NewLease, backoff_ns
from goqueue.delivery.ranges import Ranges, Stretch
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
    "LeaseHandles",
    "LeaseName",
    "LeasePart",
    "MessageState",
    "NewLease",
    "Position",
    "PositionStated",
    "PriorityIndex",
    "Ranges",
    "Stretch",
    "Timer",
    "TransactionHolds",
    "Wheel",
    "backoff_ns",
    "cut_reason",
]
