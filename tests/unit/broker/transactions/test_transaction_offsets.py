"""Who asks where a group stands waits while a transaction is about to move it."""

import pytest

from goqueue.model import SECOND, Code, LogId, Offset, Refused, RequestId
from goqueue.model.requests import (
    CommitOffsets,
    DeleteGroup,
    DeleteTopic,
    DescribeOffsets,
    Done,
    Leave,
    Offsets,
    Owner,
    Start,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, add, begin, commit, init
from tests.unit.broker.users import ORDERS, committed, create, join, poll, publish


def holding(timeout_ns: int = 600 * SECOND) -> tuple[DrivenNode, Owner]:
    """A group at 1 whose transaction is about to move it to 3."""
    node = DrivenNode()
    create(node)
    create(node, "others")
    publish(node, *"abcd")
    publish(node, *"abcd", topic="others")
    others = LogId("others", 0)
    start = {ORDERS: Offset(1), others: Offset(1)}
    node.ask(CommitOffsets(group="shop", offsets=start), Offsets)
    owner = init(node, timeout_ns=timeout_ns)
    begin(node, owner)
    add(node, owner, offsets={ORDERS: 3})
    return node, owner


def ask(node: DrivenNode, topic: str | None = None) -> RequestId:
    return node.begin(DescribeOffsets(group="shop", topic=topic, is_stable=True))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_commit", [True, False])
def test_the_answer_comes_with_the_decision(is_commit: bool, restarts: bool) -> None:
    node, owner = holding()
    if restarts:
        node.restart()
    asking = ask(node)
    assert not node.is_answered(asking)

    (commit if is_commit else abort)(node, owner)

    assert node.reply(asking, Offsets).offsets[ORDERS] == (3 if is_commit else 1)
    assert committed(node) == (3 if is_commit else 1)


def test_the_answer_comes_when_the_transaction_times_out() -> None:
    node, _ = holding(timeout_ns=5 * SECOND)
    asking = ask(node)

    node.advance(6 * SECOND)

    assert node.reply(asking, Offsets).offsets[ORDERS] == 1


def test_the_answer_comes_when_another_takes_over() -> None:
    node, _ = holding()
    asking = ask(node)

    init(node)

    assert node.reply(asking, Offsets).offsets[ORDERS] == 1


def test_another_topic_is_not_waited_for() -> None:
    node, _ = holding()

    assert node.reply(ask(node, "others"), Offsets).offsets == {LogId("others", 0): 1}
    assert not node.is_answered(ask(node, "orders"))


def test_nobody_waits_longer_than_half_a_minute() -> None:
    node, owner = holding()
    asking = ask(node)
    node.advance(29 * SECOND)
    add(node, owner, offsets={ORDERS: 2})
    assert not node.is_answered(asking)

    node.advance(SECOND)

    with pytest.raises(Refused) as refused:
        node.reply(asking, Offsets)
    assert refused.value.code is Code.LOG_BUSY
    commit(node, owner)
    assert committed(node) == 3


def test_whoever_leaves_is_not_answered() -> None:
    node, owner = holding()
    asking = ask(node)
    node.leave(asking)

    commit(node, owner)
    node.advance(60 * SECOND)

    assert not node.is_answered(asking)


def test_a_group_that_is_deleted_meanwhile_is_not_found() -> None:
    node, owner = holding()
    asking = ask(node)

    node.ask(DeleteGroup(group="shop"), Done)

    with pytest.raises(Refused) as refused:
        node.reply(asking, Offsets)
    assert refused.value.code is Code.GROUP_NOT_FOUND
    assert commit(node, owner).is_commit


def test_a_topic_that_is_deleted_meanwhile_is_waited_for_by_nobody() -> None:
    node, owner = holding()
    asking = ask(node, "orders")

    node.ask(DeleteTopic(name="orders"), Done)
    node.advance(1)

    assert node.is_answered(asking) or commit(node, owner).is_commit
    assert node.reply(asking, Offsets).offsets == {}


def test_progress_that_was_aborted_leaves_no_place_behind() -> None:
    node = DrivenNode()
    create(node)
    create(node, "others")
    publish(node, *"abcd", topic="others")
    join(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)
    owner = init(node)
    begin(node, owner)
    add(node, owner, offsets={LogId("others", 0): 2})
    abort(node, owner)

    join(node, topics=("others",), start=Start.LATEST)

    assert poll(node) == [], "a group that begins at the end begins at the end"


def test_what_is_committed_is_told_at_once_to_who_does_not_ask_for_more() -> None:
    node, owner = holding()
    asking = node.begin(DescribeOffsets(group="shop"))
    assert node.reply(asking, Offsets).offsets[ORDERS] == 1

    commit(node, owner)
    assert node.ask(DescribeOffsets(group="shop"), Offsets).offsets[ORDERS] == 3
