"""Publishing: messages gathered into batches, one at a time per partition, a receipt for each."""

from goqueue.client.producing.draft import draft
from goqueue.client.producing.due import BrokerClock, Due
from goqueue.client.producing.lanes import (
    Accumulator,
    Fixed,
    Identity,
    Parcel,
    Receipt,
    Registration,
    Registry,
    Sent,
    Sequence,
)
from goqueue.client.producing.partitioner import Partitioner
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.settings import Gathering

__all__ = [
    "Accumulator",
    "BrokerClock",
    "Due",
    "Fixed",
    "Gathering",
    "Identity",
    "Parcel",
    "Partitioner",
    "Producer",
    "Receipt",
    "Registration",
    "Registry",
    "Sent",
    "Sequence",
    "draft",
]
