"""Groups and their members: joining, leaving, falling silent, generations, first positions."""

import pytest

from goqueue.model import SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    Assignor,
    Beat,
    CommitOffsets,
    DeleteGroup,
    DescribeGroup,
    Done,
    GroupDescription,
    GroupList,
    GroupState,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Mode,
    Offsets,
    Start,
)
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    ack,
    committed,
    create,
    join,
    poll,
    publish,
    values,
)


def shop(partitions: int = 1) -> DrivenNode:
    node = DrivenNode()
    create(node, partitions=partitions)
    return node


def describe(node: DrivenNode, group: str = "shop") -> GroupDescription:
    return node.ask(DescribeGroup(group=group), GroupDescription)


def beat(node: DrivenNode, client: str = "c1", generation: int = 1) -> Beat:
    command = Heartbeat(group="shop", member_id=f"{client}-{client}00", generation=generation)
    return node.ask(command, Beat)


def leave(node: DrivenNode, client: str = "c1") -> None:
    node.ask(Leave(group="shop", member_id=f"{client}-{client}00"), Done)


def assigned(node: DrivenNode) -> dict[str, list[str]]:
    return {each.client_id: [str(log) for log in each.assigned] for each in describe(node).members}


def test_the_first_member_makes_the_group_and_leads_it() -> None:
    node = shop(2)
    joined = join(node)

    assert joined.member_id == joined.leader_id == "c1-c100"
    assert joined.members == ("c1-c100",)
    assert joined.generation == 1
    assert joined.assigned == (ORDERS, LogId("orders", 1))
    assert joined.mode is Mode.PARTITIONED


def test_each_change_of_members_raises_the_generation_by_one() -> None:
    node = shop(2)
    generations = [join(node).generation, join(node, client="c2").generation]
    leave(node)
    generations.append(describe(node).generation)
    leave(node, "c2")
    generations.append(describe(node).generation)
    generations.append(join(node).generation)

    assert generations == [1, 2, 3, 4, 5]


def test_partitions_are_shared_out_by_range_among_members_sorted_by_id() -> None:
    node = shop(5)
    join(node, client="b")
    join(node, client="a")

    assert assigned(node) == {
        "a": ["orders-0", "orders-1", "orders-2"],
        "b": ["orders-3", "orders-4"],
    }


def test_the_assignor_is_chosen_by_the_first_and_kept() -> None:
    node = shop(4)
    join(node, client="a", assignor=Assignor.ROUND_ROBIN)
    join(node, client="b")
    assert assigned(node) == {"a": ["orders-0", "orders-2"], "b": ["orders-1", "orders-3"]}

    with pytest.raises(Refused) as refused:
        join(node, client="c", assignor=Assignor.STICKY)
    assert refused.value.code is Code.GROUP_MISMATCH


def test_an_assignment_covers_all_subscribed_topics() -> None:
    node = shop(1)
    create(node, "more", partitions=1)
    join(node, client="a", topics=("orders", "more"), assignor=Assignor.ROUND_ROBIN)
    join(node, client="b", topics=("more", "orders"))

    assert assigned(node) == {"a": ["more-0"], "b": ["orders-0"]}


def test_rejoining_with_the_same_topics_changes_nothing() -> None:
    node = shop()
    joined = join(node)

    assert join(node, member_id=joined.member_id) == joined
    assert describe(node).generation == 1


def test_rejoining_with_another_session_keeps_the_generation() -> None:
    node = shop()
    joined = join(node)
    assert join(node, member_id=joined.member_id, session_ns=100 * SECOND) == joined
    node.advance(99 * SECOND)

    assert not beat(node).is_rebalanced


def test_rejoining_with_other_topics_changes_the_generation_and_not_the_id() -> None:
    node = shop()
    create(node, "more")
    joined = join(node)
    again = join(node, topics=("more",), member_id=joined.member_id)

    assert (again.member_id, again.generation) == (joined.member_id, 2)
    assert again.assigned == (LogId("more", 0),)


def test_topics_named_twice_count_once() -> None:
    node = shop()

    assert join(node, topics=("orders", "orders")).assigned == (ORDERS,)


@pytest.mark.parametrize("group", ["shop", "unknown"])
def test_nobody_can_rejoin_as_a_member_that_is_not_there(group: str) -> None:
    node = shop()
    join(node)

    with pytest.raises(Refused) as refused:
        join(node, group=group, member_id="ghost-1")
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_group_is_not_made_by_a_join_that_is_refused() -> None:
    node = shop()
    with pytest.raises(Refused) as refused:
        join(node, topics=("absent",))
    assert refused.value.code is Code.TOPIC_NOT_FOUND

    assert node.ask(ListGroups(), GroupList).groups == ()


@pytest.mark.parametrize(
    ("client", "topics", "session_ns", "code"),
    [
        ("bad name", ("orders",), SECOND, Code.NAME_INVALID),
        ("c1", (), SECOND, Code.REQUEST_INVALID),
        ("c1", ("orders",) * 1001, SECOND, Code.REQUEST_INVALID),
        ("c1", ("orders",), SECOND - 1, Code.REQUEST_INVALID),
        ("c1", ("orders",), 600 * SECOND + 1, Code.REQUEST_INVALID),
    ],
)
def test_a_join_out_of_its_limits_is_refused(
    client: str, topics: tuple[str, ...], session_ns: int, code: Code
) -> None:
    node = shop()

    with pytest.raises(Refused) as refused:
        join(node, client=client, topics=topics, session_ns=session_ns)
    assert refused.value.code is code


def test_a_group_needs_a_proper_name() -> None:
    node = shop()

    with pytest.raises(Refused) as refused:
        join(node, group="a/b")
    assert refused.value.code is Code.NAME_INVALID


def test_members_of_one_group_have_one_mode() -> None:
    node = shop()
    join(node, mode=Mode.SHARED)

    with pytest.raises(Refused) as refused:
        join(node, client="c2", mode=Mode.PARTITIONED)
    assert refused.value.code is Code.GROUP_MISMATCH
    assert join(node, client="c2").mode is Mode.SHARED


def test_an_empty_group_takes_the_mode_of_whoever_comes_first() -> None:
    node = shop()
    publish(node, "a", "b")
    join(node)
    ack(node, *poll(node, count=1))
    leave(node)

    assert join(node, mode=Mode.SHARED).mode is Mode.SHARED
    assert committed(node) == 1
    assert values(poll(node)) == ["b"]


def test_a_heartbeat_keeps_a_member_alive() -> None:
    node = shop()
    join(node)
    for _ in range(4):
        node.advance(29 * SECOND)
        assert beat(node).state is GroupState.STABLE


def test_a_silent_member_is_taken_out_at_the_end_of_its_session() -> None:
    node = shop(2)
    join(node)
    join(node, client="c2", session_ns=60 * SECOND)
    node.advance(30 * SECOND - 1)
    assert len(describe(node).members) == 2
    node.advance(1)

    assert assigned(node) == {"c2": ["orders-0", "orders-1"]}
    assert describe(node).generation == 3
    with pytest.raises(Refused) as refused:
        beat(node)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_members_that_fall_silent_together_are_one_change() -> None:
    node = shop()
    join(node)
    join(node, client="c2")
    node.advance(30 * SECOND)

    described = describe(node)
    assert (described.state, described.generation, described.members) == (GroupState.EMPTY, 3, ())


def test_a_commit_keeps_a_member_alive() -> None:
    node = shop()
    join(node)
    node.advance(20 * SECOND)
    command = CommitOffsets(group="shop", offsets={ORDERS: Offset(0)}, member_id="c1-c100")
    node.ask(command, Offsets)
    node.advance(20 * SECOND)

    assert not beat(node).is_rebalanced


def test_a_group_is_described_with_its_members() -> None:
    node = shop(2)
    join(node)
    node.advance(5 * SECOND)
    join(node, client="c2")
    publish(node, "a", "b", "c", targets=[0, 0, 1])
    poll(node, count=1)
    node.advance(SECOND)
    beat(node)

    described = describe(node)
    assert (described.group, described.state, described.mode) == (
        "shop",
        GroupState.STABLE,
        Mode.PARTITIONED,
    )
    assert described.topics == ("orders",)
    assert described.created_at == EPOCH_NS
    first, second = described.members
    assert (first.joined_at, first.last_heartbeat) == (EPOCH_NS, EPOCH_NS + 6 * SECOND)
    assert (second.joined_at, second.last_heartbeat) == (EPOCH_NS + 5 * SECOND,) * 2
    assert (first.in_flight, second.in_flight) == (1, 0)


def test_groups_are_listed_by_name() -> None:
    node = shop()
    for group in ("b", "a"):
        join(node, group=group)

    assert [each.group for each in node.ask(ListGroups(), GroupList).groups] == ["a", "b"]


def test_a_deleted_group_is_gone_and_starts_anew() -> None:
    node = shop()
    join(node)
    publish(node, "a")
    ack(node, *poll(node))
    node.ask(DeleteGroup(group="shop"), Done)
    with pytest.raises(Refused) as refused:
        describe(node)
    assert refused.value.code is Code.GROUP_NOT_FOUND
    node.restart()
    assert node.ask(ListGroups(), GroupList).groups == ()

    assert join(node).generation == 1
    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 1)]


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_restart_keeps_members_generation_and_assignment(without_snapshots: bool) -> None:
    node = shop(3)
    join(node, assignor=Assignor.STICKY)
    join(node, client="c2", session_ns=60 * SECOND)
    before = describe(node)
    node.stop()
    node.restart(without_snapshots=without_snapshots)

    after = describe(node)
    assert (after.generation, after.assignor, after.created_at) == (
        before.generation,
        before.assignor,
        before.created_at,
    )
    assert [each.assigned for each in after.members] == [each.assigned for each in before.members]
    assert not beat(node, generation=2).is_rebalanced


def test_after_a_restart_every_member_has_a_whole_session_to_be_heard_of() -> None:
    node = shop()
    join(node)
    node.advance(29 * SECOND)
    node.restart()
    node.advance(29 * SECOND)
    assert len(describe(node).members) == 1
    node.advance(SECOND)

    assert describe(node).members == ()


def test_leaving_twice_is_refused() -> None:
    node = shop()
    join(node)
    leave(node)

    with pytest.raises(Refused) as refused:
        leave(node)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_join_is_answered_only_when_it_is_durable() -> None:
    node = shop()
    node.slow_down(LogId("__groups", 0))
    drawn = "c100"
    request = node.begin(Join(group="shop", client_id="c1", topics=("orders",), token=drawn))
    assert not node.is_answered(request)
    node.speed_up()

    assert node.is_answered(request)


def test_a_group_starts_with_the_earliest_message() -> None:
    node = shop()
    publish(node, "old")
    join(node)

    assert values(poll(node)) == ["old"]


def test_a_group_may_start_with_the_latest_also_over_a_restart() -> None:
    node = shop()
    publish(node, "old")
    join(node, start=Start.LATEST)
    publish(node, "new")
    node.restart()

    assert values(poll(node)) == ["new"]


def test_where_a_member_wants_to_start_does_not_move_a_group_that_has_a_place() -> None:
    node = shop()
    publish(node, "a", "b")
    join(node)
    ack(node, *poll(node, count=1))
    leave(node)
    join(node, start=Start.LATEST)

    assert values(poll(node)) == ["b"]


def test_a_member_that_wants_the_latest_takes_nothing_from_one_that_wanted_the_earliest() -> None:
    node = shop()
    publish(node, "a")
    join(node)
    join(node, client="c2", start=Start.LATEST)

    assert values(poll(node)) == ["a"]


def test_a_group_that_polled_in_vain_keeps_its_place_over_a_restart() -> None:
    node = shop()
    join(node)
    assert poll(node) == []
    node.restart()
    publish(node, "a")
    join(node, client="c2", start=Start.LATEST)

    assert values(poll(node)) == ["a"]
