"""The node: the machines of the broker composed into one."""

from goqueue.broker.groups.leases import fill
from goqueue.broker.journal import JournalLimits
from goqueue.broker.node import Node, NodeEvent
from goqueue.broker.recovery.start import GROUPS_LOG, TOPICS_LOG, Opened
from goqueue.broker.storage_health import StorageHealth
from goqueue.broker.turns import TURN_UNITS, TurnBudget

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
