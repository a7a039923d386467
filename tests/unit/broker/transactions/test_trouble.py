"""Transactions while something goes wrong: crashes too early, failed logs, topics that go."""

import errno

import pytest

from goqueue.model import Code, LogId, Message
from goqueue.model.requests import (
    BeginTransaction,
    DeleteTopic,
    Done,
    ListTransactions,
    Publish,
    Published,
    TransactionEnded,
    TransactionList,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    GROUPS,
    SECOND_ORDERS,
    abort,
    add,
    begin,
    begin_abort,
    begin_commit,
    commit,
    init,
    shown,
    shown_uncommitted,
    warm,
    write,
    writing,
)
from tests.unit.broker.users import ORDERS, committed, create, join, poll, publish, values

# A number is given once


def test_a_begin_that_a_crash_took_back_gives_its_number_to_no_other() -> None:
    node = warm(1)
    owner = init(node)
    node.slow_down(GROUPS)
    node.begin(BeginTransaction(owner=owner))
    # It is not known to be open, but a client that asks twice may guess it.
    publishing = node.begin(writing(owner, "ghost"))
    was_written = node.is_answered(publishing)
    node.restart()

    begin(node, owner)
    write(node, owner, "x")
    commit(node, owner)

    assert shown(node) == ["warm", "x"]
    assert was_written is ("ghost" in shown_uncommitted(node))


# Logs that fail


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_log_that_failed_holds_up_no_end_and_is_told_after_a_restart(is_commit: bool) -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", "y", targets=[0, 1])
    node.files.faults.broken["sync", "orders/0/00000000000000000000.log"] = errno.EIO
    failing = node.begin(Publish(topic="orders", batch=build([Message(value=b"p")]), targets=[0]))
    assert node.reply(failing, Published).placed[0].refused is Code.STORAGE_FAILED
    (commit if is_commit else abort)(node, owner)
    begin(node, owner)
    assert shown(node, SECOND_ORDERS) == (["warm", "y"] if is_commit else ["warm"])

    node.restart()

    found = shown(node)
    assert ("x" in found) is is_commit
    assert "warm" in found


def test_a_transaction_ends_when_the_log_that_failed_under_its_marker_is_deleted() -> None:
    node = warm()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", targets=[0])
    node.files.faults.broken["sync", "orders/0/00000000000000000000.log"] = errno.EIO
    node.begin(Publish(topic="orders", batch=build([Message(value=b"p")]), targets=[0]))
    commit(node, owner)
    node.ask(DeleteTopic(name="orders"), Done)

    assert node.ask(ListTransactions(), TransactionList).transactions == ()


# Topics that go


def test_a_topic_that_goes_within_an_open_transaction_is_no_part_of_it_any_more() -> None:
    node = warm()
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", targets=[0])
    write(node, owner, "y", topic="others")

    node.ask(DeleteTopic(name="orders"), Done)
    create(node)
    publish(node, "new")

    assert commit(node, owner).is_commit
    assert shown(node, LogId("others", 0)) == ["y"]
    assert shown(node) == ["new"]
    node.restart()
    assert shown(node) == ["new"]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_topic_that_goes_within_a_decided_transaction_holds_it_up_no_longer(
    is_commit: bool,
) -> None:
    node = warm()
    create(node, "others")
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x", targets=[0])
    write(node, owner, "y", topic="others")
    node.slow_down(ORDERS)
    ending = begin_commit(node, owner) if is_commit else begin_abort(node, owner)
    assert not node.is_answered(ending)

    deleting = node.begin(DeleteTopic(name="orders"))

    assert node.reply(ending, TransactionEnded).is_commit is is_commit
    node.speed_up()
    assert isinstance(node.reply(deleting, Done), Done)
    assert shown(node, LogId("others", 0)) == (["y"] if is_commit else [])
    begin(node, owner)


def test_a_topic_that_goes_takes_the_progress_in_it_along() -> None:
    node = DrivenNode()
    create(node)
    create(node, "others")
    publish(node, "a", "b")
    join(node)
    owner = init(node)
    begin(node, owner)
    add(node, owner, poll(node)[0])
    node.ask(DeleteTopic(name="orders"), Done)
    create(node)
    publish(node, "c", "d")

    commit(node, owner)

    assert sorted(values(poll(node))) == ["c", "d"]
    node.restart()
    assert committed(node) in {None, 0}
