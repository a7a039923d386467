"""What must be true of a node, known from what was asked of it and answered."""

from goqueue.sim.node.truth.deliveries import Delivery, Handed, QueueTruth
from goqueue.sim.node.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.node.truth.ledger import Fate, Ledger, MessageTruth, Place, TopicTruth, is_copy
from goqueue.sim.node.truth.letters import Death, Letters, Origin

__all__ = [
    "Death",
    "Delivery",
    "Fate",
    "GroupTruth",
    "Handed",
    "Ledger",
    "Letters",
    "MemberTruth",
    "MessageTruth",
    "Origin",
    "Place",
    "QueueTruth",
    "TopicTruth",
    "is_copy",
]
