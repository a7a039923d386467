"""The node: the machines of the broker composed into one."""

from goqueue.broker.consuming import fill
from goqueue.broker.journals import JournalLimits
from goqueue.broker.node import Node, NodeEvent
from goqueue.broker.starting import GROUPS_LOG, TOPICS_LOG, Opened

__all__ = ["GROUPS_LOG", "TOPICS_LOG", "JournalLimits", "Node", "NodeEvent", "Opened", "fill"]
