"""Who gets which partitions: range, round robin, sticky, over all subscribed topics at once.

Pure functions of the subscriptions and the partition counts, so every node that computes an
assignment computes the same one. A partition goes only to a member that subscribed to its topic.

Invariant: every partition of a topic that somebody subscribed to has exactly one owner.
"""

from collections.abc import Mapping

from goqueue.model import LogId
from goqueue.model.requests import Assignor

__all__ = ["Assignment", "Subscriptions", "assign"]

# Member ids are the keys, in the order in which members are considered.
Subscriptions = Mapping[str, tuple[str, ...]]
Assignment = dict[str, tuple[LogId, ...]]


def assign(
    assignor: Assignor,
    subscriptions: Subscriptions,
    partitions: Mapping[str, int],
    previous: Mapping[str, tuple[LogId, ...]],
) -> Assignment:
    """Share out every partition of every subscribed topic; topics that do not exist have none."""
    members = sorted(subscriptions)
    topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
    logs = [LogId(topic, n) for topic in topics for n in range(partitions.get(topic, 0))]
    takers = {
        topic: [member for member in members if topic in subscriptions[member]] for topic in topics
    }
    if assignor is Assignor.RANGE:
        shares = _range(members, topics, takers, partitions)
    elif assignor is Assignor.ROUND_ROBIN:
        shares = _round_robin(members, logs, takers)
    else:
        shares = _sticky(members, logs, takers, previous)
    return {member: tuple(sorted(shares[member])) for member in members}


def _range(
    members: list[str],
    topics: list[str],
    takers: Mapping[str, list[str]],
    partitions: Mapping[str, int],
) -> dict[str, list[LogId]]:
    shares: dict[str, list[LogId]] = {member: [] for member in members}
    for topic in topics:
        each, extra = divmod(partitions.get(topic, 0), len(takers[topic]))
        first = 0
        for index, member in enumerate(takers[topic]):
            following = first + each + (index < extra)
            shares[member].extend(LogId(topic, n) for n in range(first, following))
            first = following
    return shares


def _round_robin(
    members: list[str], logs: list[LogId], takers: Mapping[str, list[str]]
) -> dict[str, list[LogId]]:
    shares: dict[str, list[LogId]] = {member: [] for member in members}
    turn = 0
    for log in logs:
        # The turn goes round all members; those that did not subscribe to the topic are passed.
        while members[turn % len(members)] not in takers[log.topic]:
            turn += 1
        shares[members[turn % len(members)]].append(log)
        turn += 1
    return shares


def _sticky(
    members: list[str],
    logs: list[LogId],
    takers: Mapping[str, list[str]],
    previous: Mapping[str, tuple[LogId, ...]],
) -> dict[str, list[LogId]]:
    """Keep what each member has as far as balance allows, then give the rest to who has least."""
    there = set(logs)
    owners: dict[LogId, str] = {}
    for member in members:
        for log in previous.get(member, ()):
            if log in there and member in takers[log.topic]:
                owners.setdefault(log, member)
    shares: dict[str, list[LogId]] = {member: [] for member in members}
    for log in logs:
        if log in owners:
            shares[owners[log]].append(log)
    for log in logs:
        if log not in owners:
            shares[_least(takers[log.topic], shares)].append(log)
    _level(shares, takers)
    return shares


def _least(candidates: list[str], shares: Mapping[str, list[LogId]]) -> str:
    return min(candidates, key=lambda member: (len(shares[member]), member))


def _level(shares: dict[str, list[LogId]], takers: Mapping[str, list[str]]) -> None:
    """Move partitions, as few as possible, until no move would make two members more equal."""
    has_moved = True
    while has_moved:
        has_moved = False
        for giver in sorted(shares, key=lambda member: (-len(shares[member]), member)):
            for index in reversed(range(len(shares[giver]))):
                log = shares[giver][index]
                taker = _least(takers[log.topic], shares)
                if len(shares[taker]) + 1 < len(shares[giver]):
                    shares[taker].append(shares[giver].pop(index))
                    has_moved = True
                    break
            if has_moved:
                break
