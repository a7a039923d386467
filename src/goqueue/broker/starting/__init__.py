"""How a node comes to know what it knew."""

from goqueue.broker.starting.memory import Memory
from goqueue.broker.starting.recollecting import Recollecting, ReplayingRecords
from goqueue.broker.starting.starting import GROUPS_LOG, TOPICS_LOG, Opened, Replaying, Starting

__all__ = [
    "GROUPS_LOG",
    "TOPICS_LOG",
    "Memory",
    "Opened",
    "Recollecting",
    "Replaying",
    "ReplayingRecords",
    "Starting",
]
