"""Polls that found nothing yet: which commit or ack wakes them, and what is ready for them.

A group's *ready* partitions have something to lease that no waiting poll got yet. A commit or an
ack concerns one partition: it makes that one ready, and polls are served from ready partitions
alone, so the other partitions of a waiting poll are not visited.

Invariant: a group is listed with the topics of its members as long as one of its polls waits, and
nothing is ready for a group without such a poll.
"""

from collections.abc import Iterable

import msgspec

from goqueue.groups import Group
from goqueue.model import LogId, RequestId
from goqueue.model.requests import Poll
from goqueue.security import Principal

__all__ = ["Unseen", "WaitingPoll", "WaitingPolls"]


class WaitingPoll(msgspec.Struct, frozen=True):
    """A poll that found nothing yet."""

    request: RequestId
    command: Poll
    group: int
    # Whom it leases for.
    principal: Principal


class Unseen:
    """Partitions of a member that are still to be looked at, and how many of them were."""

    __slots__ = ("logs", "seen", "share")

    def __init__(self, share: tuple[str, ...], logs: tuple[LogId, ...]) -> None:
        self.share = share
        self.logs = logs
        self.seen = 0


class _GroupPolls:
    """What waits in one group."""

    __slots__ = ("by_member", "immediate", "polls", "ready", "topics", "unseen")

    def __init__(self) -> None:
        # In the order in which they came.
        self.polls: dict[RequestId, WaitingPoll] = {}
        self.by_member: dict[str, dict[RequestId, WaitingPoll]] = {}
        # Those that wait for what is being read and for no more.
        self.immediate: dict[RequestId, WaitingPoll] = {}
        self.ready: dict[LogId, None] = {}
        # Partitions that were not looked at since a poll came for them, or since they changed
        # hands, by the share that they are.
        self.unseen: dict[tuple[str, ...], Unseen] = {}
        self.topics: dict[str, None] = {}


class WaitingPolls:
    """Waiting polls by request, by group and member, and groups with one by topic."""

    def __init__(self) -> None:
        self._by_request: dict[RequestId, WaitingPoll] = {}
        self._by_group: dict[int, _GroupPolls] = {}
        self._waiting_groups: dict[str, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._by_request)

    def __contains__(self, poll: WaitingPoll) -> bool:
        return poll.request in self._by_request

    @property
    def requests(self) -> list[RequestId]:
        return list(self._by_request)

    def get(self, request: RequestId) -> WaitingPoll | None:
        return self._by_request.get(request)

    def has_any(self, group: int) -> bool:
        return group in self._by_group

    def of_group(self, group: int) -> list[WaitingPoll]:
        """In the order in which they came."""
        waiting = self._by_group.get(group)
        return [] if waiting is None else list(waiting.polls.values())

    def of_member(self, group: int, member_id: str) -> bool:
        """Whether a poll of this member waits: then the member is there."""
        waiting = self._by_group.get(group)
        return waiting is not None and member_id in waiting.by_member

    def of_holder(self, group: int, holder: str) -> list[WaitingPoll]:
        """The polls of one member, or of all that receive from a topic."""
        waiting = self._by_group.get(group)
        return [] if waiting is None else list(waiting.by_member.get(holder, {}).values())

    def groups_waiting_for(self, topic: str) -> list[int]:
        """The numbers of the groups that a commit to this topic may serve."""
        return list(self._waiting_groups.get(topic, ()))

    def immediate(self, group: int) -> list[WaitingPoll]:
        """Polls that are answered when nothing is being read for them any more."""
        waiting = self._by_group.get(group)
        return [] if waiting is None else list(waiting.immediate.values())

    # Coming and going

    def add(self, poll: WaitingPoll, group: Group) -> None:
        self._by_request[poll.request] = poll
        waiting = self._by_group.setdefault(group.number, _GroupPolls())
        waiting.polls[poll.request] = poll
        waiting.by_member.setdefault(poll.command.member_id, {})[poll.request] = poll
        if poll.command.wait_ns <= 0:
            waiting.immediate[poll.request] = poll
        self.add_topics(group)

    def add_topics(self, group: Group) -> None:
        """The members of a group may have subscribed to more since the poll began."""
        waiting = self._by_group.get(group.number)
        if waiting is None:
            return
        for topic in group.polled_topics:
            if topic not in waiting.topics:
                waiting.topics[topic] = None
                self._waiting_groups.setdefault(topic, {})[group.number] = None

    def remove(self, poll: WaitingPoll) -> None:
        del self._by_request[poll.request]
        waiting = self._by_group[poll.group]
        del waiting.polls[poll.request]
        waiting.immediate.pop(poll.request, None)
        member_id = poll.command.member_id
        of_member = waiting.by_member[member_id]
        del of_member[poll.request]
        if not of_member:
            del waiting.by_member[member_id]
        if waiting.polls:
            return
        del self._by_group[poll.group]
        for topic in waiting.topics:
            hungry = self._waiting_groups[topic]
            del hungry[poll.group]
            if not hungry:
                del self._waiting_groups[topic]

    # What is ready

    def mark_ready(self, group: int, log: LogId) -> None:
        """A partition has something to hand out."""
        waiting = self._by_group.get(group)
        if waiting is not None:
            waiting.ready[log] = None

    def ready(self, group: int) -> list[LogId]:
        waiting = self._by_group.get(group)
        return [] if waiting is None else list(waiting.ready)

    def mark_empty(self, group: int, log: LogId) -> None:
        """A partition has nothing left."""
        waiting = self._by_group.get(group)
        if waiting is not None:
            waiting.ready.pop(log, None)

    def pass_turn(self, group: int, log: LogId) -> None:
        """A partition was drawn from: others that are ready come before it."""
        waiting = self._by_group.get(group)
        if waiting is not None and log in waiting.ready:
            del waiting.ready[log]
            waiting.ready[log] = None

    def has_ready(self, group: int) -> bool:
        waiting = self._by_group.get(group)
        return waiting is not None and bool(waiting.ready)

    def candidates(self, group: Group, log: LogId | None) -> Iterable[WaitingPoll]:
        """Polls that something ready may be for, in the order in which they came.

        With `log`, only those that this partition may be for.
        """
        waiting = self._by_group.get(group.number)
        if waiting is None or not waiting.ready:
            return ()
        if group.is_shared:
            return list(waiting.polls.values())
        owners = dict.fromkeys(map(group.owner, waiting.ready if log is None else (log,)))
        polls = [waiting.by_member.get(owner, {}) for owner in owners if owner is not None]
        return [poll for of_member in polls for poll in of_member.values()]

    # Looking

    def waits_for(self, group: Group, log: LogId) -> bool:
        """Whether a poll waits that a partition may serve."""
        waiting = self._by_group.get(group.number)
        if waiting is None:
            return False
        if not group.is_shared:
            return group.owner(log) in waiting.by_member
        return any(group.is_assigned(member_id, log) for member_id in waiting.by_member)

    def add_unseen(self, group: Group, member_id: str) -> None:
        """The partitions of a member are still to be looked at, once for all who share them."""
        waiting = self._by_group.get(group.number)
        if waiting is not None:
            share = group.share_of(member_id)
            # What was looked at since another poll came for it is known to be ready or not.
            if share not in waiting.unseen:
                waiting.unseen[share] = Unseen(share, group.leasable(member_id))

    def is_unseen(self, group: Group, member_id: str) -> bool:
        """Whether the partitions of a member are still to be looked at."""
        waiting = self._by_group.get(group.number)
        return waiting is not None and group.share_of(member_id) in waiting.unseen

    def unseen(self, group: int) -> list[Unseen]:
        """Partitions that are still to be looked at, as members have them."""
        waiting = self._by_group.get(group)
        return [] if waiting is None else list(waiting.unseen.values())

    def mark_seen(self, group: int, share: tuple[str, ...]) -> None:
        """The partitions of a share were looked at."""
        waiting = self._by_group.get(group)
        if waiting is not None:
            waiting.unseen.pop(share, None)

    def clear_unseen(self, group: int) -> None:
        """The partitions of members are others now."""
        waiting = self._by_group.get(group)
        if waiting is not None:
            waiting.unseen.clear()
