"""Bodies that add to a transaction: partitions that it writes, and progress of groups."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.gateways.http.bodies.groups import MemberId
from goqueue.gateways.http.bodies.positions import PositionsIn
from goqueue.gateways.http.bodies.scalars import Generation, Name, PartitionNumber
from goqueue.gateways.http.bodies.settlement import Handle
from goqueue.gateways.http.bodies.transactions.scalars import Epoch, ProducerId

__all__ = ["AddOffsetsBody", "AddPartitionBody"]


class AddPartitionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition that the transaction will write to."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name
    topic: Name
    partition: PartitionNumber


class AddOffsetsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Progress of a group that takes effect with the commit: positions, and acknowledgements.

    At least one of them is given; `member_id` and `generation` go with the positions.
    """

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: Name
    group: Name
    offsets: PositionsIn | None = None
    receipt_handles: Annotated[list[Handle], Meta(min_length=1, max_length=1000)] | None = None
    member_id: MemberId | None = None
    generation: Generation | None = None
