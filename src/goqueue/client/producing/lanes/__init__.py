"""The ways to the partitions: gathered, numbered, sent one batch at a time, answered for."""

from goqueue.client.producing.lanes.accumulator import Accumulator
from goqueue.client.producing.lanes.buffer import Buffer
from goqueue.client.producing.lanes.identity import Fixed, Identity, Registration, Registry
from goqueue.client.producing.lanes.lane import PartitionSender, SenderContext
from goqueue.client.producing.lanes.parcel import ProducerBatch, Receipt, Sent
from goqueue.client.producing.lanes.sequence import PartitionSequence

__all__ = [
    "Accumulator",
    "Buffer",
    "Fixed",
    "Identity",
    "PartitionSender",
    "ProducerBatch",
    "Receipt",
    "Registration",
    "Registry",
    "SenderContext",
    "Sent",
    "PartitionSequence",
]
