"""What must be true of a node, known from what was asked of it and answered."""

from goqueue.sim.node.truth.delays import DELIVER_AT, DelayTruth
from goqueue.sim.node.truth.deliveries import Delivery, Handed, QueueTruth
from goqueue.sim.node.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.node.truth.ledger import (
    Fate,
    Ledger,
    MessageTruth,
    TopicTruth,
    is_copy,
    is_hidden,
    log_name,
)
from goqueue.sim.node.truth.letters import Death, Letters, Origin
from goqueue.sim.node.truth.places import Place
from goqueue.sim.node.truth.transactions import IdentityTruth, KeyTruth, TransactionTruth

__all__ = [
    "DELIVER_AT",
    "Death",
    "DelayTruth",
    "Delivery",
    "Fate",
    "GroupTruth",
    "Handed",
    "IdentityTruth",
    "KeyTruth",
    "Ledger",
    "Letters",
    "MemberTruth",
    "MessageTruth",
    "Origin",
    "Place",
    "QueueTruth",
    "TopicTruth",
    "TransactionTruth",
    "is_copy",
    "is_hidden",
    "log_name",
]
