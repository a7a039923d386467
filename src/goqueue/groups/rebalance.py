"""How far the rebalance of one cooperative group is: what is given up until when, who was told.

Derived from journal entries, except for the deadlines and for who was told: after a restart all
deadlines start again, and members that have to give up something are told again.

Invariant: a partition has a deadline if and only if it is to be given up, once `set_deadlines` has
seen the change.
"""

from collections.abc import Iterable, Mapping

from goqueue.groups.changes import MemberStated
from goqueue.groups.cooperative import revoking_of
from goqueue.model import SECOND, Instant, LogId
from goqueue.model.requests import RebalanceState

__all__ = ["Rebalance"]

# A partition that is not given up by then is taken away.
_REVOCATION_NS = 60 * SECOND

_Assignment = Mapping[str, tuple[LogId, ...]]


class Rebalance:
    """Revocations, deadlines and news of one group; nothing of it in an eager group."""

    def __init__(self) -> None:
        # The generation in which each partition was assigned to its owner.
        self._since: dict[LogId, int] = {}
        self._revoking: dict[str, dict[LogId, None]] = {}
        self._deadlines: dict[LogId, Instant] = {}
        # Members that have to act and were not told, of these those whose polls were not answered
        # for it, and members that were not told the generation.
        self._news: dict[str, None] = {}
        self._unhinted: dict[str, None] = {}
        self._untold: dict[str, None] = {}

    # Queries

    @property
    def state(self) -> RebalanceState:
        if self._revoking:
            return RebalanceState.PENDING_REVOKE
        return RebalanceState.PENDING_ASSIGN if self._untold else RebalanceState.NONE

    @property
    def unhinted(self) -> tuple[str, ...]:
        """Members that have to send a heartbeat, and whose polls did not say so yet."""
        return tuple(self._unhinted)

    @property
    def revoking_count(self) -> int:
        """How many partitions are to be given up."""
        return sum(map(len, self._revoking.values()))

    def revoking(self, member_id: str) -> Mapping[LogId, None]:
        """What a member has to give up, in order."""
        return self._revoking.get(member_id, _NOTHING)

    def since(self, log: LogId) -> int:
        """The generation in which the owner of a partition got it."""
        return self._since.get(log, 0)

    def has_news(self, member_id: str) -> bool:
        """Whether a change concerns a member that was not told of it."""
        return member_id in self._news

    def is_unhinted(self, member_id: str) -> bool:
        """Whether a poll of a member is to say that it has to send a heartbeat."""
        return member_id in self._unhinted

    def deadline_of(self, member_id: str) -> Instant | None:
        """When the first partition of a member is taken away."""
        revoking = self.revoking(member_id)
        return min(
            (self._deadlines[log] for log in revoking if log in self._deadlines), default=None
        )

    def next_deadline(self) -> Instant | None:
        return min(self._deadlines.values(), default=None)

    def overdue(self, now: Instant) -> dict[str, tuple[LogId, ...]]:
        """What should have been given up by now, by member."""
        found = {
            id_: tuple(log for log in logs if self._deadlines.get(log, now) <= now)
            for id_, logs in self._revoking.items()
        }
        return {id_: logs for id_, logs in found.items() if logs}

    # Changes

    def clear(self) -> None:
        """The group is eager, or its partitions are shared: nothing is ever given up."""
        self._since, self._revoking, self._deadlines = {}, {}, {}

    def restate(self, members: Iterable[MemberStated]) -> None:
        """Another assignment holds."""
        self._since, self._revoking = {}, {}
        for member in members:
            self._since.update(member.owned())
            revoking = revoking_of(member)
            if revoking:
                self._revoking[member.member_id] = dict.fromkeys(revoking)

    def revoke(self, member_id: str, logs: Iterable[LogId], *, is_forced: bool) -> None:
        """A member does not own these partitions any more."""
        revoking = self._revoking.get(member_id, {})
        for log in logs:
            self._since.pop(log, None)
            self._deadlines.pop(log, None)
            revoking.pop(log, None)
        if not revoking:
            self._revoking.pop(member_id, None)
        if is_forced:
            self._news[member_id] = self._unhinted[member_id] = None

    def announce(
        self, before: _Assignment, after: _Assignment, was: Mapping[str, object], *, is_next: bool
    ) -> None:
        """Find out whom a change concerns; `was` is what had to be given up before."""
        untold = after if is_next else self._untold
        self._untold = {id_: None for id_ in untold if id_ in after}
        news = {id_: None for id_ in self._news if id_ in after}
        self._unhinted = {id_: None for id_ in self._unhinted if id_ in after}
        for member_id, logs in after.items():
            is_moved = logs != before.get(member_id, ())
            if is_moved or self._revoking.get(member_id) != was.get(member_id):
                news[member_id] = self._unhinted[member_id] = None
        self._news = news

    def silence(self) -> None:
        """Nobody is to be told anything: the group is eager."""
        self._news, self._unhinted, self._untold = {}, {}, {}

    def all_revoking(self) -> Mapping[str, object]:
        """What is to be given up now, by member."""
        return self._revoking

    def set_deadlines(self, now: Instant) -> None:
        """Give what is to be given up since the last change its time; other deadlines run on."""
        deadline = Instant(now + _REVOCATION_NS)
        self._deadlines = {
            log: self._deadlines.get(log, deadline)
            for logs in self._revoking.values()
            for log in logs
        }

    def restart(self, now: Instant) -> None:
        """A life of the node begins."""
        self._untold, self._deadlines = {}, {}
        self._news = dict.fromkeys(self._revoking)
        self._unhinted = dict.fromkeys(self._revoking)
        self.set_deadlines(now)

    # Telling

    def hint(self, member_id: str) -> None:
        """A poll of a member says that it has to send a heartbeat; the heartbeat tells the rest."""
        self._unhinted.pop(member_id, None)

    def tell(self, member_id: str) -> None:
        """A heartbeat of a member tells it everything."""
        self._news.pop(member_id, None)
        self.hint(member_id)
        self.know(member_id)

    def know(self, member_id: str) -> None:
        """A member was told the current generation."""
        self._untold.pop(member_id, None)


_NOTHING: Mapping[LogId, None] = {}
