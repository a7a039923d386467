"""Publishing: messages gathered into batches, one at a time per partition, a receipt for each."""

from goqueue.client.producing.accumulator import Accumulator
from goqueue.client.producing.delayed import DelayedPublisher, Due
from goqueue.client.producing.draft import draft
from goqueue.client.producing.parcel import Parcel, Receipt, Sent
from goqueue.client.producing.partitioner import Partitioner
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.settings import Gathering

__all__ = [
    "Accumulator",
    "DelayedPublisher",
    "Due",
    "Gathering",
    "Parcel",
    "Partitioner",
    "Producer",
    "Receipt",
    "Sent",
    "draft",
]
