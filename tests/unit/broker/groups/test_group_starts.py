"""Where a group starts that has no place yet."""

from goqueue.model.requests import (
    Done,
    Leave,
    Start,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ack,
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


def leave(node: DrivenNode, client: str = "c1") -> None:
    node.ask(Leave(group="shop", member_id=f"{client}-{client}00"), Done)


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
