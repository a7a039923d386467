"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.census import Census
from goqueue.delivery.delays import Delayed, Delays, DelaysStated
from goqueue.delivery.key_order import Known
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.leases import Held
from goqueue.delivery.progress import (
    REASON_BYTES_MAX,
    Pins,
    Position,
    PositionStated,
    Range,
    Ranges,
    Stretch,
    cut_reason,
    runs,
)
from goqueue.delivery.queue import RESTING_MAX, DeliveryQueue, rest_ns
from goqueue.delivery.receipts import Receipt, Receipts
from goqueue.delivery.wheel import WHEEL_REACH_NS, Timer, Wheel

__all__ = [
    "LANES",
    "REASON_BYTES_MAX",
    "RESTING_MAX",
    "WHEEL_REACH_NS",
    "Census",
    "Delayed",
    "Delays",
    "DelaysStated",
    "DeliveryQueue",
    "Held",
    "Known",
    "LaneFacts",
    "Lanes",
    "Pins",
    "Position",
    "PositionStated",
    "Range",
    "Ranges",
    "Receipt",
    "Receipts",
    "Stretch",
    "Timer",
    "Wheel",
    "cut_reason",
    "rest_ns",
    "runs",
]
