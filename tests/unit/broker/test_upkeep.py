"""Upkeep and rebalances over very many logs and groups: bounded turns, and nothing left out."""

from goqueue.model import SECOND
from goqueue.model.requests import DeleteTopic, DescribeGroup, Done, GroupDescription
from tests.unit.broker.delayed.users import delay
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, letters

UNITS = 20

# What a turn does beside what it chooses to do: one step more, and an effect for each.
UNITS_MAX = 3 * UNITS + 10


def test_upkeep_looks_at_delays_of_very_many_partitions_in_bounded_turns() -> None:
    node = DrivenNode(budget_units=UNITS)
    create(node, partitions=70)
    for number in range(70):
        delay(node, (f"{number}", 3600 * SECOND), targets=[number])
    node.advance(2 * SECOND)
    node.turn_units_max = 0
    # The clock is put forward: no alarm was set for that.
    node.wall_shift_ns += 3600 * SECOND

    node.advance(2 * SECOND)

    assert len(letters(node, "orders", partitions=70)) == 70
    assert node.turn_units_max <= UNITS_MAX


def test_a_deleted_topic_rebalances_very_many_groups_in_bounded_turns() -> None:
    node = DrivenNode(budget_units=UNITS)
    create(node, partitions=2)
    create(node, name="others", partitions=2)
    for number in range(60):
        join(node, group=f"g{number}", topics=["orders", "others"], session_ns=600 * SECOND)
    node.turn_units_max = 0

    node.ask(DeleteTopic(name="orders"), Done)

    for number in range(60):
        described = node.ask(DescribeGroup(group=f"g{number}"), GroupDescription)
        assert [str(log) for log in described.members[0].assigned] == ["others-0", "others-1"]
    assert node.turn_units_max <= UNITS_MAX


def test_a_restart_between_two_rebalances_leaves_none_out() -> None:
    node = DrivenNode(budget_units=UNITS)
    create(node, partitions=2)
    for number in range(60):
        join(node, group=f"g{number}", session_ns=600 * SECOND)
    node.runs_later_turns = False
    node.ask(DeleteTopic(name="orders"), Done)
    node.runs_later_turns = True
    node.restart()

    for number in range(60):
        described = node.ask(DescribeGroup(group=f"g{number}"), GroupDescription)
        assert described.members[0].assigned == ()
