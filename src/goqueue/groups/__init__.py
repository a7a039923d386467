"""Consumer groups: members, generations and partition assignment.

`Groups` has all groups of a node, `Group` one of them with its members, `assign` shares partitions
out. Positions are in `goqueue.delivery`; joins, heartbeats and rebalances as commands of the node
are in `goqueue.broker.groups.membership`.
"""

from goqueue.groups.assignment import assign
from goqueue.groups.changes import GroupChange, GroupDeleted, GroupStated, MemberStated
from goqueue.groups.group import Group, is_receiver, receiver_of
from goqueue.groups.groups import Groups

__all__ = [
    "Group",
    "GroupChange",
    "GroupDeleted",
    "GroupStated",
    "Groups",
    "MemberStated",
    "assign",
    "is_receiver",
    "receiver_of",
]
