"""How a node comes to know what it knew."""

from goqueue.broker.starting.memory import JournaledState
from goqueue.broker.starting.recollecting import PartitionReplay, ReplayingRecords
from goqueue.broker.starting.starting import GROUPS_LOG, TOPICS_LOG, Opened, Replaying, NodeStart

__all__ = [
    "GROUPS_LOG",
    "TOPICS_LOG",
    "JournaledState",
    "Opened",
    "PartitionReplay",
    "Replaying",
    "ReplayingRecords",
    "NodeStart",
]
