"""Commands about groups: membership, positions, leases, what becomes of leased messages."""

from goqueue.broker.consuming.counting import PriorityIndexer, IndexingPriorities
from goqueue.broker.consuming.delivering import Polls, ReadingAhead, fill
from goqueue.broker.consuming.group_retention import GROUP_RETENTION_NS, GroupRetention
from goqueue.broker.consuming.membership import Membership
from goqueue.broker.consuming.moving import CarriedBatch, DeadLetterMover
from goqueue.broker.consuming.positions import Positions, Probing, SeekingReset
from goqueue.broker.consuming.redriving import Redriver, RedriveScan
from goqueue.broker.consuming.settling import Settlements

__all__ = [
    "GROUP_RETENTION_NS",
    "CarriedBatch",
    "PriorityIndexer",
    "Polls",
    "GroupRetention",
    "Membership",
    "DeadLetterMover",
    "Positions",
    "Probing",
    "Redriver",
    "IndexingPriorities",
    "SeekingReset",
    "Settlements",
    "RedriveScan",
    "ReadingAhead",
    "fill",
]
