"""Partition assignment: range, round robin and sticky, over all subscribed topics at once.

Pure functions of subscriptions and partition counts, so every node computes the same assignment. A
partition is assigned only to a member that subscribed to its topic.

Invariant: every partition of a subscribed topic has exactly one owner.

Cost: logarithmic per partition and subscription, so that ten thousand members can join a group.
"""

from bisect import bisect_left
from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace

from goqueue.model import LogId
from goqueue.model.requests import Assignor

__all__ = ["Assignment", "Subscriptions", "assign"]

# Member ids are the keys, in the order in which members are considered.
Subscriptions = Mapping[str, tuple[str, ...]]
Assignment = dict[str, tuple[LogId, ...]]
_Takers = Mapping[str, list[str]]


def assign(
    assignor: Assignor,
    subscriptions: Subscriptions,
    partitions: Mapping[str, int],
    previous: Mapping[str, tuple[LogId, ...]],
) -> Assignment:
    """Assign every partition of every subscribed topic; unknown topics have none."""
    members = sorted(subscriptions)
    takers: dict[str, list[str]] = {}
    for member in members:
        for topic in dict.fromkeys(subscriptions[member]):
            takers.setdefault(topic, []).append(member)
    logs = [LogId(topic, n) for topic in sorted(takers) for n in range(partitions.get(topic, 0))]
    if assignor is Assignor.RANGE:
        shares = _range(members, takers, partitions)
    elif assignor is Assignor.ROUND_ROBIN:
        shares = _round_robin(members, logs, takers)
    else:
        shares = _sticky(members, logs, takers, previous)
    return {member: tuple(sorted(shares[member])) for member in members}


def _range(
    members: list[str], takers: _Takers, partitions: Mapping[str, int]
) -> dict[str, list[LogId]]:
    shares: dict[str, list[LogId]] = {member: [] for member in members}
    for topic in sorted(takers):
        each, extra = divmod(partitions.get(topic, 0), len(takers[topic]))
        first = 0
        for index, member in enumerate(takers[topic]):
            following = first + each + (index < extra)
            shares[member].extend(LogId(topic, n) for n in range(first, following))
            first = following
    return shares


def _round_robin(members: list[str], logs: list[LogId], takers: _Takers) -> dict[str, list[LogId]]:
    shares: dict[str, list[LogId]] = {member: [] for member in members}
    seats = {member: seat for seat, member in enumerate(members)}
    seated = {topic: [seats[member] for member in takers[topic]] for topic in takers}
    turn = 0
    for log in logs:
        # Round robin over all members; those that did not subscribe to the topic are skipped.
        takers_seats = seated[log.topic]
        index = bisect_left(takers_seats, turn)
        seat = takers_seats[index if index < len(takers_seats) else 0]
        shares[members[seat]].append(log)
        turn = (seat + 1) % len(members)
    return shares


def _sticky(
    members: list[str],
    logs: list[LogId],
    takers: _Takers,
    previous: Mapping[str, tuple[LogId, ...]],
) -> dict[str, list[LogId]]:
    """Keep assignments as far as balance allows; the rest goes to the smallest shares."""
    wanted = {topic: dict.fromkeys(takers[topic]) for topic in takers}
    owners: dict[LogId, str] = {}
    for member in members:
        for log in previous.get(member, ()):
            if member in wanted.get(log.topic, ()):
                owners.setdefault(log, member)
    shares = _Shares(members, takers)
    for log in logs:
        if log in owners:
            shares.logs[owners[log]].append(log)
    for log in logs:
        if log not in owners:
            shares.logs[shares.least(log.topic)].append(log)
    shares.level()
    return shares.logs


class _Shares:
    """The share of each member, and for each topic the subscriber with the smallest share.

    The heaps hold past sizes: a stale entry is corrected when it surfaces, and a share that shrank
    is pushed again.
    """

    def __init__(self, members: list[str], takers: _Takers) -> None:
        self.logs: dict[str, list[LogId]] = {member: [] for member in members}
        self._least = {topic: [(0, member) for member in takers[topic]] for topic in takers}
        self._topics: dict[str, list[str]] = {member: [] for member in members}
        for topic in takers:
            for member in takers[topic]:
                self._topics[member].append(topic)

    def least(self, topic: str) -> str:
        """The subscriber of this topic with the smallest share."""
        heap = self._least[topic]
        while True:
            size, member = heap[0]
            if size == len(self.logs[member]):
                return member
            heapreplace(heap, (len(self.logs[member]), member))

    def level(self) -> None:
        """Move as few partitions as possible until no move improves the balance."""
        has_moved = True
        while has_moved:
            has_moved = False
            givers = [(-len(logs), member) for member, logs in self.logs.items()]
            heapify(givers)
            while givers:
                size, giver = givers[0]
                if -size != len(self.logs[giver]):
                    heapreplace(givers, (-len(self.logs[giver]), giver))
                elif self._has_given(giver):
                    has_moved = True
                else:
                    heappop(givers)

    def _has_given(self, giver: str) -> bool:
        """Move one partition to a member with at least two fewer, if there is one."""
        mine = self.logs[giver]
        tried: dict[str, None] = {}
        for index in reversed(range(len(mine))):
            topic = mine[index].topic
            if topic in tried:
                continue
            tried[topic] = None
            taker = self.least(topic)
            if len(self.logs[taker]) + 1 < len(mine):
                self.logs[taker].append(mine.pop(index))
                for each in self._topics[giver]:
                    heappush(self._least[each], (len(mine), giver))
                return True
        return False
