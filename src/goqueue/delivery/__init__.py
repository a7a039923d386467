"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.census import Census
from goqueue.delivery.delays import Delayed, Delays, DelaysStated
from goqueue.delivery.key_order import Known
from goqueue.delivery.lanes import LANES, LaneFacts, Lanes
from goqueue.delivery.leases import Held
from goqueue.delivery.progress import Pins, Position, PositionStated, Range, Ranges, Stretch, runs
from goqueue.delivery.queue import DeliveryQueue, rest_ns
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
    "rest_ns",
    "runs",
]
