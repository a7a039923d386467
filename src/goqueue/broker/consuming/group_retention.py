"""Retention of groups: one that nobody is in and nobody committed for is forgotten after a while.

Looks at a few groups in each turn. Never at a clock that was put: a node counts from the wall time
at its start with the clock that only goes forward. Nothing is forgotten in the first hour of a
life, so that those who could not be heard while the node was down find their places.
"""

from goqueue.broker.consuming.membership import Membership
from goqueue.broker.state import NodeState
from goqueue.groups import Group
from goqueue.model import HOUR, Now

__all__ = ["GROUP_RETENTION_NS", "GroupRetention"]

GROUP_RETENTION_NS = 168 * HOUR
_GRACE_NS = HOUR
_GROUPS_PER_TURN = 200
# So many places are looked at for one unit of a turn.
_PLACES_PER_UNIT = 20


class GroupRetention:
    """Forgets groups that are empty for long."""

    def __init__(self, state: NodeState, membership: Membership, retention_ns: int | None) -> None:
        """Without a retention groups stay for ever."""
        self._state = state
        self._membership = membership
        self._retention_ns = retention_ns
        self._began: Now | None = None
        self._to_look_at: list[int] = []

    def begin(self, now: Now) -> None:
        """A life of the node begins."""
        self._began = now

    def do_a_share(self, now: Now) -> None:
        """Look at some groups, and forget those whose time is over."""
        if self._retention_ns is None or self._began is None:
            return
        if now.instant - self._began.instant < _GRACE_NS:
            return
        if not self._to_look_at:
            self._to_look_at = [group.number for group in self._state.groups]
        limit = self._began.wall + now.instant - self._began.instant - self._retention_ns
        for _ in range(min(_GROUPS_PER_TURN, len(self._to_look_at))):
            if self._state.budget.is_spent:
                return
            self._state.budget.spend()
            group = self._state.groups.numbered(self._to_look_at.pop())
            if group is not None and not group.members and self._is_over(group, limit):
                self._membership.forget(group)

    def _is_over(self, group: Group, limit: int) -> bool:
        """Whether nothing was done with a group since `limit`, and no transaction holds it."""
        if max(group.stated.created_at, group.stated.emptied_at) > limit:
            return False
        positions = self._state.positions.get(group.number, {})
        self._state.budget.spend(len(positions) // _PLACES_PER_UNIT)
        return all(each.updated_at <= limit and not each.pins for each in positions.values())
