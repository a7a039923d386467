"""Publishing: messages gathered into batches, one at a time per partition, a receipt for each."""

from goqueue.client.producing.draft import draft
from goqueue.client.producing.due import BrokerClock, Due
from goqueue.client.producing.lanes import (
    Accumulator,
    Fixed,
    Identity,
    ProducerBatch,
    Receipt,
    Registration,
    Registry,
    Sent,
    PartitionSequence,
)
from goqueue.client.producing.partitioner import Partitioner
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.settings import ProducerConfig

__all__ = [
    "Accumulator",
    "BrokerClock",
    "Due",
    "Fixed",
    "ProducerConfig",
    "Identity",
    "ProducerBatch",
    "Partitioner",
    "Producer",
    "Receipt",
    "Registration",
    "Registry",
    "Sent",
    "PartitionSequence",
    "draft",
]
