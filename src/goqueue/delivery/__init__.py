"""One group on one partition: what is settled, what is in flight, what comes back when."""

from goqueue.delivery.backoff import rest_ns
from goqueue.delivery.position import Position, PositionStated
from goqueue.delivery.queue import DeliveryQueue, Held
from goqueue.delivery.ranges import Range, Ranges, runs
from goqueue.delivery.receipts import Receipt, Receipts

__all__ = [
    "DeliveryQueue",
    "Held",
    "Position",
    "PositionStated",
    "Range",
    "Ranges",
    "Receipt",
    "Receipts",
    "rest_ns",
    "runs",
]
