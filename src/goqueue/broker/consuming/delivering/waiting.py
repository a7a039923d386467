"""Polls that found nothing yet, and who is to be woken by what.

Invariant: a group is hungry for the topics of its members as long as one of its polls waits.
"""

import msgspec

from goqueue.groups import Group
from goqueue.model import RequestId
from goqueue.model.requests import Poll

__all__ = ["WaitingPoll", "WaitingPolls"]


class WaitingPoll(msgspec.Struct, frozen=True):
    """A poll that found nothing yet."""

    request: RequestId
    command: Poll
    group: int


class WaitingPolls:
    """Waiting polls by request, by group, and groups with one by topic."""

    def __init__(self) -> None:
        self._by_request: dict[RequestId, WaitingPoll] = {}
        self._by_group: dict[int, dict[RequestId, WaitingPoll]] = {}
        self._hungry: dict[str, dict[int, None]] = {}
        self._appetites: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._by_request)

    def __contains__(self, poll: WaitingPoll) -> bool:
        return poll.request in self._by_request

    @property
    def requests(self) -> list[RequestId]:
        return list(self._by_request)

    def get(self, request: RequestId) -> WaitingPoll | None:
        return self._by_request.get(request)

    def of_group(self, group: int) -> list[WaitingPoll]:
        """In the order in which they came."""
        return list(self._by_group.get(group, {}).values())

    def of_member(self, group: int, member_id: str) -> bool:
        """Whether a poll of this member waits: then the member is there."""
        polls = self._by_group.get(group, {})
        return any(poll.command.member_id == member_id for poll in polls.values())

    def hungry_for(self, topic: str) -> list[int]:
        """The numbers of the groups that a commit to this topic may serve."""
        return list(self._hungry.get(topic, ()))

    def add(self, poll: WaitingPoll, group: Group) -> None:
        self._by_request[poll.request] = poll
        self._by_group.setdefault(group.number, {})[poll.request] = poll
        self.note_topics(group)

    def note_topics(self, group: Group) -> None:
        """The members of a group may have subscribed to more since the poll began."""
        if group.number not in self._by_group:
            return
        appetite = self._appetites.setdefault(group.number, {})
        for topic in group.topics:
            if topic not in appetite:
                appetite[topic] = None
                self._hungry.setdefault(topic, {})[group.number] = None

    def remove(self, poll: WaitingPoll) -> None:
        del self._by_request[poll.request]
        polls = self._by_group[poll.group]
        del polls[poll.request]
        if polls:
            return
        del self._by_group[poll.group]
        for topic in self._appetites.pop(poll.group, ()):
            hungry = self._hungry[topic]
            del hungry[poll.group]
            if not hungry:
                del self._hungry[topic]
