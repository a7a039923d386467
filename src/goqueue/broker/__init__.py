"""The node: the machines of the broker composed into one."""

from goqueue.broker.budget import TURN_UNITS, TurnBudget
from goqueue.broker.consuming import fill
from goqueue.broker.journals import JournalLimits
from goqueue.broker.node import Node, NodeEvent
from goqueue.broker.starting import GROUPS_LOG, TOPICS_LOG, Opened
from goqueue.broker.storage_health import StorageHealth

__all__ = [
    "GROUPS_LOG",
    "TOPICS_LOG",
    "TURN_UNITS",
    "JournalLimits",
    "Node",
    "NodeEvent",
    "Opened",
    "StorageHealth",
    "TurnBudget",
    "fill",
]
