"""Every order of events in a small cooperative group: three members, two topics, twelve events.

In each state a member may join with either or both topics, leave, or give up one partition or all
that it has to, and a topic may grow or shrink. States that were met before are not searched again;
generations count only by their order.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from goqueue.groups import Group, Groups, GroupStated
from goqueue.model import Instant, LogId, Now, Timestamp
from goqueue.model.requests import Assignor, GroupProtocol, Join, Mode
from tests.examples import IS_EXHAUSTIVE
from tests.simulation import planted_in_cooperation as planted

NOW = Now(Instant(0), Timestamp(0))
_MEMBERS = ("a", "b", "c")
# What the core appends to the name of a member.
_NAME_END = "x"
_SUBSCRIPTIONS = (("t",), ("t", "u"))
_DEPTH = 12 if IS_EXHAUSTIVE else 5


class State(NamedTuple):
    """What the journal holds of a group, and how many partitions its topics have."""

    stated: GroupStated
    partitions: tuple[int, int]

    @property
    def by_topic(self) -> dict[str, int]:
        return dict(zip(("t", "u"), self.partitions, strict=True))

    def open(self) -> tuple[Groups, Group]:
        """The group as it is after a restart."""
        groups = Groups()
        group = groups.apply(self.stated)
        assert group is not None
        return groups, group

    def key(self) -> tuple[object, ...]:
        """The same for states from which the same follows."""
        sinces = sorted({since for each in self.stated.members for _, since in each.owned()})
        rank = {since: number for number, since in enumerate(sinces)}
        is_newest = bool(sinces) and sinces[-1] == self.stated.generation
        members = tuple(
            (
                each.member_id,
                each.topics,
                tuple((log, rank[since]) for log, since in each.owned()),
                repr(each.target),
            )
            for each in self.stated.members
        )
        return self.partitions, is_newest, members


class Step(NamedTuple):
    """What follows from an event: who left and which partitions were given up is part of it."""

    after: State
    gone: frozenset[str] = frozenset()
    given_up: frozenset[LogId] = frozenset()


def owners(stated: GroupStated) -> dict[LogId, tuple[str, int]]:
    """Who owns each partition, since which generation; nobody owns one with another."""
    owned = [(log, each.member_id, at) for each in stated.members for log, at in each.owned()]
    found = {log: (who, at) for log, who, at in owned}
    assert len(found) == len(owned), "a partition has one owner"
    return found


def steps(state: State) -> Iterator[Step]:
    """All that may happen next."""
    members = {each.member_id: each for each in state.stated.members}
    for name in _MEMBERS:
        id_ = f"{name}-{_NAME_END}"
        for topics in _SUBSCRIPTIONS:
            if id_ not in members or members[id_].topics != topics:
                yield _join(state, name, topics, id_ if id_ in members else None)
        if id_ in members:
            _, group = state.open()
            left = group.without_members([id_], state.by_topic)
            yield Step(State(left, state.partitions), gone=frozenset({id_}))
            revoking = tuple(group.rebalance.revoking(id_))
            for logs in {revoking[:1], revoking} - {()}:
                yield _give_up(state, id_, logs)
    for partitions in {(2, 1), (3, 1), (2, 0)} - {state.partitions}:
        _, group = state.open()
        changed = State(state.stated, partitions)
        stated = group.rebalanced(changed.by_topic) if members else state.stated
        yield Step(State(stated, partitions))


def _join(state: State, name: str, topics: tuple[str, ...], known: str | None) -> Step:
    groups, _ = state.open()
    command = Join(
        group="g",
        client_id=name,
        topics=topics,
        token=_NAME_END,
        protocol=GroupProtocol.COOPERATIVE,
        member_id=known,
        assignor=state.stated.assignor,
    )
    joined = groups.join(command, state.by_topic, NOW).stated
    return Step(State(joined or state.stated, state.partitions))


def _give_up(state: State, id_: str, logs: tuple[LogId, ...]) -> Step:
    groups, group = state.open()
    changed = group.revoked({id_: logs})
    for change in [changed] if isinstance(changed, GroupStated) else changed:
        groups.apply(change)
    after = State(groups.find("g").stated, state.partitions)
    return Step(after, given_up=frozenset(logs))


def check(before: State, step: Step) -> None:
    """A partition gets an owner only when nobody owned it, and what stays keeps its date."""
    was, now = owners(before.stated), owners(step.after.stated)
    for log, (who, since) in now.items():
        known = was.get(log)
        if known is None or known[0] in step.gone or log in step.given_up:
            is_kept = known == (who, since)
            assert is_kept or since == step.after.stated.generation, (log, known, who, since)
        else:
            assert known == (who, since), (log, known, who, since)
    sizes = step.after.by_topic
    subscribed = {
        LogId(topic, number)
        for each in step.after.stated.members
        for topic in each.topics
        for number in range(sizes[topic])
    }
    _, group = step.after.open()
    if not group.rebalance.revoking_count:
        assert set(now) == subscribed, "whoever waits for nothing owns everything"


def search(assignor: Assignor, depth: int) -> int:
    """How many states there are up to a depth; fails where one breaks a rule."""
    groups = Groups()
    formed = groups.form("g", Mode.PARTITIONED, assignor, NOW)
    frontier = [State(formed, (2, 1))]
    met = {frontier[0].key()}
    for _ in range(depth):
        following: list[State] = []
        for state in frontier:
            for step in steps(state):
                check(state, step)
                key = step.after.key()
                if key not in met:
                    met.add(key)
                    following.append(step.after)
        frontier = following
    return len(met)


@pytest.mark.parametrize("assignor", list(Assignor))
def test_no_order_of_events_assigns_a_partition_that_somebody_owns(assignor: Assignor) -> None:
    assert search(assignor, _DEPTH) > 500


def test_a_search_finds_partitions_that_are_assigned_while_they_are_owned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted.assigns_partitions_while_they_are_owned(monkeypatch)

    with pytest.raises(AssertionError):
        search(Assignor.STICKY, 3)
