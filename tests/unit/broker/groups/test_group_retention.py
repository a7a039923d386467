"""Groups that nobody is in and nobody commits for are forgotten after a while, and no others."""

import pytest

from goqueue.model import HOUR, SECOND, Code, LogId, Offset, Refused, Woke
from goqueue.model.requests import (
    CommitOffsets,
    DescribeGroup,
    Done,
    GroupDescription,
    GroupList,
    Leased,
    Leave,
    ListGroups,
    Offsets,
    Receive,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, ack, create, join, poll, publish, values

DAY = 24 * HOUR

WEEK = 7 * DAY


def shop() -> DrivenNode:
    node = DrivenNode()
    create(node)
    publish(node, "a", "b", "c")
    return node


def commit(node: DrivenNode, group: str, log: LogId = ORDERS) -> None:
    command = CommitOffsets(group=group, offsets={log: Offset(1)})
    node.ask(command, Offsets)


def pass_time(node: DrivenNode, nanoseconds: int) -> None:
    """Let much time pass with few turns: the node is woken now and then, and never late."""
    until = node.now_ns + nanoseconds
    while node.now_ns < until:
        node.now_ns = min(until, node.now_ns + HOUR)
        for _ in range(3):
            node.take(Woke())


def names(node: DrivenNode) -> list[str]:
    return [group.group for group in node.ask(ListGroups(), GroupList).groups]


def test_a_group_is_forgotten_a_week_after_its_last_commit() -> None:
    node = shop()
    commit(node, "old")
    pass_time(node, 3 * DAY)
    commit(node, "young")
    pass_time(node, WEEK - 3 * DAY - 2 * HOUR)
    assert names(node) == ["old", "young"]
    pass_time(node, 4 * HOUR)
    assert names(node) == ["young"]
    with pytest.raises(Refused) as refused:
        node.ask(DescribeGroup(group="old"), GroupDescription)
    assert refused.value.code is Code.GROUP_NOT_FOUND
    node.restart(without_snapshots=True)

    assert names(node) == ["young"]


def test_the_time_before_a_restart_counts_but_a_life_begins_with_an_hour_for_everybody() -> None:
    node = shop()
    commit(node, "old")
    pass_time(node, WEEK - HOUR)
    node.restart()
    node.now_ns += DAY
    node.restart()
    pass_time(node, HOUR - SECOND)
    assert names(node) == ["old"]
    pass_time(node, 2 * HOUR)

    assert names(node) == []


def test_a_group_with_members_stays_and_one_they_left_has_its_time_from_then() -> None:
    node = shop()
    member = join(node, session_ns=600 * SECOND).member_id
    ack(node, *poll(node, count=1))
    for _ in range(9 * 24 * 7):
        node.now_ns += 400 * SECOND
        node.take(Woke())
        poll(node, count=1)
        node.take(Woke())
    assert names(node) == ["shop"]
    node.ask(Leave(group="shop", member_id=member), Done)
    pass_time(node, WEEK - 2 * HOUR)
    assert names(node) == ["shop"]
    pass_time(node, 4 * HOUR)

    assert names(node) == []


def test_a_clock_that_is_put_forward_by_weeks_forgets_no_group() -> None:
    node = shop()
    commit(node, "kept")
    pass_time(node, 2 * HOUR)
    node.wall_shift_ns = 4 * WEEK
    pass_time(node, 2 * HOUR)

    assert names(node) == ["kept"]


@pytest.mark.parametrize("wall_shift_ns", [0, -4 * WEEK])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_clock_that_is_put_back_by_weeks_forgets_no_group_that_is_used(
    *, is_stopped: bool, wall_shift_ns: int
) -> None:
    node = shop()
    member = join(node, session_ns=600 * SECOND).member_id
    pass_time(node, SECOND)
    node.wall_shift_ns = -4 * WEEK
    commit(node, "committed")
    ack(node, *poll(node))
    node.ask(Leave(group="shop", member_id=member), Done)
    node.ask(Receive(group="received", topics=("orders",)), Leased)
    pass_time(node, 2 * HOUR)
    assert names(node) == ["committed", "received", "shop"]
    if is_stopped:
        node.stop()
    node.wall_shift_ns = wall_shift_ns
    node.restart()
    pass_time(node, 2 * HOUR)
    assert names(node) == ["committed", "received", "shop"]
    # Ahead of a clock that is wrong they are kept for longer.
    pass_time(node, WEEK - wall_shift_ns)

    assert names(node) == []


def test_very_many_groups_are_looked_at_in_many_turns() -> None:
    node = shop()
    for number in range(1500):
        commit(node, f"g{number}")
    node.now_ns += WEEK + 2 * HOUR
    left = []
    for _ in range(20):
        node.now_ns += 2 * SECOND
        node.take(Woke())
        left.append(len(names(node)))

    assert left[-1] == 0
    assert len(dict.fromkeys(left)) > 5


def test_a_group_that_was_forgotten_begins_anew_under_its_name() -> None:
    node = shop()
    join(node, session_ns=SECOND)
    ack(node, *poll(node))
    pass_time(node, WEEK + 3 * HOUR)
    assert names(node) == []
    publish(node, "d")
    join(node)

    assert values(poll(node))[-1] == "d"
