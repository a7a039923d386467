"""Consumer groups: members, generations and partition assignment.

`Groups` has all groups of a node, `Group` one of them with its members, `assign` computes an
assignment, `cooperative` moves partitions without interrupting the others. Positions are in
`goqueue.delivery`; joins, heartbeats and rebalances as commands of the node are in
`goqueue.broker.groups`.
"""

from goqueue.groups.assignment import assign
from goqueue.groups.changes import (
    GroupChange,
    GroupDeleted,
    GroupStated,
    MemberStated,
    PartitionsRevoked,
)
from goqueue.groups.group import Group
from goqueue.groups.groups import Groups, JoinDecision
from goqueue.groups.receivers import is_receiver, received_topics, receiver_of

__all__ = [
    "Group",
    "GroupChange",
    "GroupDeleted",
    "GroupStated",
    "Groups",
    "JoinDecision",
    "MemberStated",
    "PartitionsRevoked",
    "assign",
    "is_receiver",
    "received_topics",
    "receiver_of",
]
