"""The ways to the partitions: gathered, numbered, sent one batch at a time, answered for."""

from goqueue.client.producing.lanes.accumulator import Accumulator
from goqueue.client.producing.lanes.buffer import Buffer
from goqueue.client.producing.lanes.identity import Fixed, Identity, Registration, Registry
from goqueue.client.producing.lanes.lane import Lane, Road
from goqueue.client.producing.lanes.parcel import Parcel, Receipt, Sent
from goqueue.client.producing.lanes.sequence import Sequence

__all__ = [
    "Accumulator",
    "Buffer",
    "Fixed",
    "Identity",
    "Lane",
    "Parcel",
    "Receipt",
    "Registration",
    "Registry",
    "Road",
    "Sent",
    "Sequence",
]
