"""Commands about groups: membership, positions, leases, what becomes of leased messages."""

from goqueue.broker.consuming.counting import Counting, Scouting
from goqueue.broker.consuming.delivering import Delivering, Surveying, fill
from goqueue.broker.consuming.group_retention import GROUP_RETENTION_NS, GroupRetention
from goqueue.broker.consuming.membership import Membership
from goqueue.broker.consuming.moving import Carrying, Moving
from goqueue.broker.consuming.positions import Positions, Probing, SeekingReset
from goqueue.broker.consuming.redriving import Redriving, Sifting
from goqueue.broker.consuming.settling import Settling

__all__ = [
    "GROUP_RETENTION_NS",
    "Carrying",
    "Counting",
    "Delivering",
    "GroupRetention",
    "Membership",
    "Moving",
    "Positions",
    "Probing",
    "Redriving",
    "Scouting",
    "SeekingReset",
    "Settling",
    "Sifting",
    "Surveying",
    "fill",
]
