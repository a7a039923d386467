"""Topics, groups, dead letters and the node, as people administer them."""

from goqueue.client.admin.dead_letters import DeadLetters
from goqueue.client.admin.groups import Groups
from goqueue.client.admin.node import Node
from goqueue.client.admin.replies import (
    GroupDescription,
    GroupLag,
    GroupOffsets,
    GroupSummary,
    Health,
    MemberDescription,
    NodeStats,
    Partition,
    PartitionEnds,
    PartitionLag,
    PositionReset,
    ResetOffsets,
    Topic,
    TopicConfig,
    TopicStats,
    Version,
)
from goqueue.client.admin.topics import Topics

__all__ = [
    "DeadLetters",
    "GroupDescription",
    "GroupLag",
    "GroupOffsets",
    "GroupSummary",
    "Groups",
    "Health",
    "MemberDescription",
    "Node",
    "NodeStats",
    "Partition",
    "PartitionEnds",
    "PartitionLag",
    "PositionReset",
    "ResetOffsets",
    "Topic",
    "TopicConfig",
    "TopicStats",
    "Topics",
    "Version",
]
