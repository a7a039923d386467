"""Cooperative groups: which partitions move, when, and what never does."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.groups import Group, Groups, GroupStated, MemberStated
from goqueue.model import SECOND, Code, Instant, LogId, Now, Refused, Timestamp
from goqueue.model.requests import Assignor, GroupProtocol, Join, Mode, RebalanceState
from tests.examples import examples

NOW = Now(Instant(0), Timestamp(0))
PARTITIONS = {"t": 6}


def joining(name: str, *topics: str, instance: str | None = None, **more: object) -> Join:
    fields: dict[str, object] = {
        "group": "g",
        "client_id": name,
        "topics": topics or ("t",),
        "token": "x",
        "protocol": GroupProtocol.COOPERATIVE,
        "instance_id": instance,
    }
    return Join(**{**fields, **more})  # type: ignore[arg-type]  # fields of a Join


def join(groups: Groups, name: str, *topics: str, instance: str | None = None) -> Group:
    joined = groups.join(joining(name, *topics, instance=instance), PARTITIONS, NOW)
    assert joined.stated is not None
    return applied(groups, joined.stated)


def applied(groups: Groups, stated: GroupStated) -> Group:
    group = groups.apply(stated)
    assert group is not None
    group.rebalance.set_deadlines(NOW.instant)
    return group


def revoke(groups: Groups, group: Group, member_id: str) -> None:
    changed = group.revoked({member_id: tuple(group.rebalance.revoking(member_id))})
    for change in [changed] if isinstance(changed, GroupStated) else changed:
        groups.apply(change)


def test_the_first_member_gets_everything_at_once() -> None:
    group = join(Groups(), "a")

    assert group.generation == 1
    assert len(group.assigned("a-x")) == 6
    assert group.rebalance.state is RebalanceState.PENDING_ASSIGN
    assert group.stated.assignor is Assignor.STICKY


def test_a_join_takes_nothing_away_before_it_is_given_up() -> None:
    groups = Groups()
    join(groups, "a")
    group = join(groups, "b")

    assert group.generation == 1
    assert group.rebalance.state is RebalanceState.PENDING_REVOKE
    assert len(group.assigned("a-x")) == 6
    assert group.assigned("b-x") == ()
    assert len(group.rebalance.revoking("a-x")) == 3

    kept = set(group.assigned("a-x")) - set(group.rebalance.revoking("a-x"))
    revoke(groups, group, "a-x")

    assert group.generation == 2
    assert set(group.assigned("a-x")) == kept
    assert len(group.assigned("b-x")) == 3
    assert {group.rebalance.since(log) for log in kept} == {1}
    assert {group.rebalance.since(log) for log in group.assigned("b-x")} == {2}


def test_what_no_longer_moves_is_no_longer_revoked() -> None:
    groups = Groups()
    join(groups, "a")
    group = join(groups, "b")
    applied(groups, group.without_members(["b-x"], PARTITIONS))

    assert not group.rebalance.revoking("a-x")
    assert group.generation == 2
    assert {group.rebalance.since(log) for log in group.assigned("a-x")} == {1}


def test_other_deadlines_run_on_when_the_group_changes_again() -> None:
    groups = Groups()
    join(groups, "a")
    group = join(groups, "b")
    first = group.rebalance.deadline_of("a-x")
    stated = groups.join(joining("c"), PARTITIONS, NOW).stated
    assert stated is not None
    groups.apply(stated)
    group.rebalance.set_deadlines(Instant(10 * SECOND))

    assert group.rebalance.deadline_of("a-x") == first == 60 * SECOND
    assert group.rebalance.overdue(Instant(60 * SECOND - 1)) == {}
    overdue = group.rebalance.overdue(Instant(60 * SECOND))["a-x"]
    assert len(overdue) == 3
    assert len(group.rebalance.revoking("a-x")) == 4


def test_a_partition_that_was_given_up_needlessly_comes_back_later() -> None:
    groups = Groups()
    group = join(groups, "a")
    log = group.assigned("a-x")[0]
    changed = group.revoked({"a-x": (log,)})
    assert isinstance(changed, GroupStated)
    groups.apply(changed)

    assert group.generation == 2
    assert group.owner(log) == "a-x"
    assert group.rebalance.since(log) == 2
    with pytest.raises(Refused) as refused:
        group.check_owner("a-x", log, 1)
    assert refused.value.code is Code.GENERATION_STALE


def test_an_old_generation_commits_where_nothing_moved_and_nowhere_else() -> None:
    groups = Groups()
    join(groups, "a")
    group = join(groups, "b")
    moved = tuple(group.rebalance.revoking("a-x"))
    group.check_owner("a-x", moved[0], 1)
    revoke(groups, group, "a-x")

    group.check_generation(1)
    for log in group.assigned("a-x"):
        group.check_owner("a-x", log, 1)
        assert group.may_lease("a-x", log, 1)
    with pytest.raises(Refused) as refused:
        group.check_owner("a-x", moved[0], 1)
    assert refused.value.code is Code.PARTITION_NOT_ASSIGNED
    with pytest.raises(Refused):
        group.check_generation(3)


def test_partitions_that_are_being_revoked_are_not_leased_from() -> None:
    groups = Groups()
    join(groups, "a")
    group = join(groups, "b")
    moved = next(iter(group.rebalance.revoking("a-x")))

    assert not group.may_lease("a-x", moved, None)
    assert len(group.leasable("a-x")) == 3


def test_a_static_member_takes_the_place_of_the_older_one() -> None:
    groups = Groups()
    join(groups, "a", instance="i")
    group = join(groups, "b")
    before, deadline = group.assigned("a-x"), group.rebalance.deadline_of("a-x")
    joined = groups.join(joining("new", instance="i"), PARTITIONS, NOW)
    assert joined.stated is not None
    assert joined.replaced_id == "a-x"
    applied(groups, joined.stated)

    assert group.generation == 1
    assert group.members == ("new-x", "b-x")
    assert group.assigned("new-x") == before
    assert group.rebalance.deadline_of("new-x") == deadline
    with pytest.raises(Refused) as refused:
        group.check_member("a-x")
    assert refused.value.code is Code.MEMBER_NOT_FOUND
    assert refused.value.facts["instance_id"] == "i"


def test_a_group_has_one_protocol_while_it_has_members() -> None:
    groups = Groups()
    group = join(groups, "a")
    eager = joining("b", protocol=GroupProtocol.EAGER)

    with pytest.raises(Refused) as refused:
        groups.join(eager, PARTITIONS, NOW)
    assert refused.value.code is Code.GROUP_MISMATCH
    assert refused.value.facts["protocol"] == "cooperative"

    applied(groups, group.without_members(["a-x"], PARTITIONS))
    stated = groups.join(eager, PARTITIONS, NOW).stated
    assert stated is not None
    assert stated.protocol is GroupProtocol.EAGER
    assert stated.assignor is Assignor.RANGE


def test_shared_partitions_are_never_revoked() -> None:
    groups = Groups()
    for name in ("a", "b"):
        stated = groups.join(joining(name, mode=Mode.SHARED), PARTITIONS, NOW).stated
        assert stated is not None
        groups.apply(stated)
    group = groups.find("g")

    assert group.generation == 2
    assert not group.rebalance.revoking("a-x")
    assert len(group.assigned("a-x")) == len(group.assigned("b-x")) == 6


def test_a_restart_remembers_revocations_and_starts_their_deadlines_again() -> None:
    groups = Groups()
    join(groups, "a")
    group = join(groups, "b")
    again = Group(group.stated)
    again.hear_all(Now(Instant(5 * SECOND), Timestamp(0)))

    assert again.rebalance.revoking("a-x") == group.rebalance.revoking("a-x")
    assert again.rebalance.deadline_of("a-x") == 65 * SECOND
    assert again.rebalance.has_news("a-x")


def test_a_group_that_was_journaled_before_there_were_protocols_is_eager() -> None:
    stored = (
        b'{"type":"group","group":"g","number":1,"mode":"partitioned","assignor":"range",'
        b'"generation":3,"created_at":0,"members":[{"member_id":"a-x","client_id":"a",'
        b'"topics":["t"],"session_ns":1000000000,"joined_at":0,"assigned":{"t":[[0,6]]}}]}'
    )
    group = Group(msgspec.json.decode(stored, type=GroupStated))

    assert group.protocol is GroupProtocol.EAGER
    assert len(group.assigned("a-x")) == 6
    group.check_owner("a-x", LogId("t", 0), 3)
    with pytest.raises(Refused):
        group.check_generation(2)


# Against a plain model

TOPICS = ("t", "u")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 4), st.integers(1, 3)),
        st.tuples(st.just("leave"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("confirm"), st.integers(0, 4), st.integers(0, 7)),
        st.tuples(st.just("grow"), st.integers(0, 1), st.integers(0, 5)),
    ),
    max_size=25,
)


class Model:
    """What was true of each partition: who owned it last, and since which generation."""

    def __init__(self) -> None:
        self.owners: dict[LogId, tuple[str, int]] = {}

    def follow(self, group: Group, confirmed: frozenset[LogId], gone: frozenset[str]) -> None:
        """Check one step: owners change only after they gave up, left, or lost the partition."""
        now = {
            log: (member, group.rebalance.since(log))
            for member in group.members
            for log in group.assigned(member)
        }
        assert len(now) == sum(len(group.assigned(member)) for member in group.members)
        for log, (owner, since) in now.items():
            before = self.owners.get(log)
            is_free = before is None or before[0] in gone or log in confirmed
            if not is_free:
                assert before == (owner, since)
            elif before != (owner, since):
                assert since == group.generation
        self.owners = now


@given(STEPS, st.sampled_from(list(Assignor)))
@settings(max_examples=examples(60), deadline=None)
def test_a_partition_is_assigned_only_when_nobody_owns_it(
    steps: list[tuple[str, int, int]], assignor: Assignor
) -> None:
    groups, partitions, model = Groups(), {"t": 5, "u": 3}, Model()
    groups.apply(groups.form("g", Mode.PARTITIONED, assignor, NOW))
    for what, who, how in steps:
        group, member_id = groups.find("g"), f"m{who}-x"
        confirmed: frozenset[LogId] = frozenset()
        gone: frozenset[str] = frozenset()
        if what == "join":
            topics = tuple(topic for index, topic in enumerate(TOPICS) if how >> index & 1)
            known = member_id if member_id in group.members else None
            command = joining(f"m{who}", *topics, member_id=known, assignor=group.stated.assignor)
            stated = groups.join(command, partitions, NOW).stated
            if stated is not None:
                groups.apply(stated)
        elif what == "leave" and member_id in group.members:
            gone = frozenset({member_id})
            groups.apply(group.without_members([member_id], partitions))
        elif what == "confirm" and member_id in group.members:
            logs = tuple(group.rebalance.revoking(member_id))[: how + 1]
            confirmed = frozenset(logs)
            changed = group.revoked({member_id: logs}) if logs else []
            for change in [changed] if isinstance(changed, GroupStated) else changed:
                groups.apply(change)
        elif what == "grow":
            partitions[TOPICS[who]] = how
            if group.members:
                groups.apply(group.rebalanced(partitions))
        model.follow(group, confirmed, gone)
        check_restored(group)
    settle(groups, partitions)


def check_restored(group: Group) -> None:
    """The journal holds all that matters."""
    again = Group(group.stated)
    for member in group.members:
        assert again.assigned(member) == group.assigned(member)
        assert again.rebalance.revoking(member) == group.rebalance.revoking(member)
    stated: MemberStated
    for stated in group.stated.members:
        assert all(again.rebalance.since(log) == since for log, since in stated.owned())


def settle(groups: Groups, partitions: dict[str, int]) -> None:
    """When all that has to be given up is, everything has an owner: within one round."""
    group = groups.find("g")
    for member in group.members:
        logs = tuple(group.rebalance.revoking(member))
        changed = group.revoked({member: logs}) if logs else []
        for change in [changed] if isinstance(changed, GroupStated) else changed:
            groups.apply(change)
    assert not group.rebalance.revoking_count
    subscribed = sorted(LogId(topic, n) for topic in group.topics for n in range(partitions[topic]))
    assert sorted(log for member in group.members for log in group.assigned(member)) == subscribed
