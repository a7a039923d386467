"""The numbers and names by which producers and transactions are told apart."""

from typing import Annotated

from msgspec import Meta

from goqueue.gateways.http.bodies.scalars import INT32_MAX, INT64_MAX

__all__ = ["EPOCH_MAX", "Epoch", "ProducerId", "SequenceNumber", "TransactionId"]

EPOCH_MAX = 32_767

# Zero is the broker's own, which no caller can be.
ProducerId = Annotated[int, Meta(ge=1, le=INT64_MAX, examples=[1])]
Epoch = Annotated[int, Meta(ge=0, le=EPOCH_MAX)]
SequenceNumber = Annotated[int, Meta(ge=0, le=INT32_MAX)]
TransactionId = Annotated[str, Meta(min_length=1, max_length=249, examples=["7-3"])]
