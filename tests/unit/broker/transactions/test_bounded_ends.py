"""Transactions with thousands of acks or partitions end in bounded turns."""

import pytest

from goqueue.broker import TURN_UNITS
from goqueue.model import SECOND, Code, LogId, Refused
from goqueue.model.requests import (
    AddPartition,
    DeleteTopic,
    Done,
    Mode,
    Owner,
    PositionsReset,
    ResetOffsets,
    Strategy,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    begin_abort,
    begin_commit,
    commit,
    init,
)
from tests.unit.broker.users import Delivery, ack, committed, create, join, nack, poll, publish

LONG = 600 * SECOND

UNITS_MAX = 2 * TURN_UNITS


def holding(count: int) -> tuple[DrivenNode, Owner, list[Delivery]]:
    """A transaction that holds the acks of two partitions, each added by itself."""
    node = DrivenNode()
    create(node, partitions=2)
    owner = init(node, timeout_ns=LONG)
    begin(node, owner)
    found: list[Delivery] = []
    for number in range(2 * count // 1000):
        client = f"c{number}"
        join(node, client=client, mode=Mode.SHARED, session_ns=LONG)
        publish(node, *map(str, range(1000)), targets=[0, 1] * 500)
        found += poll(node, client=client, count=1000, visibility_ns=LONG)
    for delivery in found:
        add(node, owner, delivery)
    node.turn_units_max = node.turn_units_sum = 0
    return node, owner, found


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_of_a_transaction_with_thousands_of_acks_is_bounded_and_linear(
    is_commit: bool,
) -> None:
    sums = []
    for count in (500, 2000):
        node, owner, found = holding(count)
        (commit if is_commit else abort)(node, owner)
        assert node.turn_units_max <= UNITS_MAX
        sums.append(node.turn_units_sum)
        assert (committed(node) or 0) == (len(found) // 2 if is_commit else 0)

    assert sums[1] < 1.5 * 4 * sums[0]


def test_a_receipt_of_an_aborted_transaction_is_good_before_all_others_are_released() -> None:
    node, owner, found = holding(1000)
    node.runs_later_turns = False
    aborting = begin_abort(node, owner)
    assert node.is_answered(aborting)

    # The last of them is released last, by a turn that is still to come.
    ack(node, found[-1])
    begin(node, owner)
    add(node, owner, found[-2])
    node.runs_later_turns = True
    node.run_later_turn()
    commit(node, owner)
    for delivery in found[:-2]:
        ack(node, delivery)

    assert committed(node) == 1000


def test_a_receipt_of_a_committed_transaction_is_stale_before_all_others_are_settled() -> None:
    node, owner, found = holding(1000)
    node.runs_later_turns = False
    assert node.is_answered(begin_commit(node, owner))

    # The last of them is settled last, by a turn that is still to come.
    with pytest.raises(Refused) as refused:
        nack(node, found[-1])
    assert refused.value.code is Code.RECEIPT_STALE
    node.runs_later_turns = True
    node.run_later_turn()
    assert committed(node) == 1000
    assert poll(node, client="c0") == []


@pytest.mark.parametrize("what", ["reset", "delete"])
def test_what_happens_between_two_steps_of_a_commit_is_not_undone(what: str) -> None:
    node, owner, found = holding(1000)
    node.runs_later_turns = False
    commit(node, owner)
    if what == "delete":
        node.begin(DeleteTopic(name="orders"))
    else:
        command = ResetOffsets(
            group="shop", topic="orders", partition=0, strategy=Strategy.EARLIEST
        )
        node.ask(command, PositionsReset)
    node.runs_later_turns = True
    node.run_later_turn()

    if what == "reset":
        again = [each for each in poll(node, client="c0", count=1000) if each.log.partition == 0]
        assert len(again) == len(found) // 2


def test_markers_of_thousands_of_partitions_are_written_in_bounded_turns() -> None:
    node = DrivenNode()
    create(node, partitions=2000)
    owner = init(node, timeout_ns=LONG)
    begin(node, owner)
    for partition in range(2000):
        node.ask(AddPartition(owner=owner, log=LogId("orders", partition)), Done)
    node.turn_units_max = 0
    commit(node, owner)

    assert node.turn_units_max <= UNITS_MAX
