"""Consumer groups: membership, generations, and partition assignment."""

from goqueue.groups.assignment import assign
from goqueue.groups.changes import GroupChange, GroupDeleted, GroupStated, MemberStated
from goqueue.groups.group import Group
from goqueue.groups.groups import Groups

__all__ = [
    "Group",
    "GroupChange",
    "GroupDeleted",
    "GroupStated",
    "Groups",
    "MemberStated",
    "assign",
]
