"""Topics, groups, letters, delays, transactions and the node, as people administer them."""

from goqueue.client.admin.dead_letters import DeadLetters
from goqueue.client.admin.delayed import DelayedMessages
from goqueue.client.admin.groups import Groups
from goqueue.client.admin.node import Node
from goqueue.client.admin.replies import (
    DelayedMessage,
    DelayStats,
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    Health,
    LaneStats,
    MemberDescription,
    NodeStats,
    Partition,
    PartitionEnds,
    PartitionLag,
    PositionReset,
    PriorityStats,
    ResetOffsets,
    Topic,
    TopicConfig,
    TopicStats,
    TransactionDescription,
    TransactionPartition,
    TransactionStats,
    Version,
)
from goqueue.client.admin.topics import Topics
from goqueue.client.admin.transactions import Transactions

__all__ = [
    "DeadLetters",
    "DelayStats",
    "DelayedMessage",
    "DelayedMessages",
    "GroupDescription",
    "GroupLag",
    "GroupOffsets",
    "GroupSummary",
    "Groups",
    "Health",
    "LaneStats",
    "MemberDescription",
    "Node",
    "NodeStats",
    "Partition",
    "PartitionEnds",
    "PartitionLag",
    "PositionReset",
    "PriorityStats",
    "ResetOffsets",
    "Topic",
    "TopicConfig",
    "TopicStats",
    "Topics",
    "TransactionDescription",
    "TransactionPartition",
    "TransactionStats",
    "Transactions",
    "Version",
]
