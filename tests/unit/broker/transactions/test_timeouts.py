"""Transactions that run too long, and producers that fall silent."""

import pytest

from goqueue.model import HOUR, SECOND, Code
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    DescribeTransactions,
    Done,
    EndTransaction,
    TransactionStatistics,
)
from tests.unit.broker.driven_node import EPOCH_NS
from tests.unit.broker.transactions.words import (
    abort,
    beat,
    begin,
    commit_group,
    init,
    keep_alive,
    opened,
    prepare,
    refused_code,
    shown,
    shown_uncommitted,
    transactions,
    write,
)
from tests.unit.broker.users import ORDERS, join, publish

MINUTE = 60 * SECOND

LONG = 600 * SECOND


def test_a_transaction_lives_for_a_minute_and_no_longer() -> None:
    node, owner = opened()
    keep_alive(node, owner, MINUTE - 1)
    assert len(transactions(node)) == 1

    node.advance(1)

    assert not transactions(node)
    ending = EndTransaction(owner=owner, is_commit=True)
    assert refused_code(node, ending) is Code.TRANSACTION_TIMEOUT
    assert refused_code(node, ending) is Code.TRANSACTION_TIMEOUT
    assert not abort(node, owner).is_commit
    assert shown(node) == []
    assert begin(node, owner).endswith("-2")


def test_a_producer_that_is_silent_for_half_a_minute_loses_its_transaction() -> None:
    node, owner = opened(timeout_ns=900 * SECOND)
    node.advance(30 * SECOND - 1)
    beat(node, owner)
    node.advance(30 * SECOND - 1)
    assert len(transactions(node)) == 1

    node.advance(1)

    assert not transactions(node)
    assert refused_code(node, EndTransaction(owner=owner, is_commit=True)) is (
        Code.TRANSACTION_TIMEOUT
    )


@pytest.mark.parametrize("kind", ["publish", "add", "heartbeat", "partition", "refused begin"])
def test_any_call_of_a_producer_is_a_sign_of_life(kind: str) -> None:
    node, owner = opened(timeout_ns=900 * SECOND)
    publish(node, "order")
    join(node, session_ns=LONG)
    node.advance(29 * SECOND)

    match kind:
        case "publish":
            write(node, owner, "y")
        case "add":
            assert refused_code(node, AddOffsets(owner=owner, group="shop")) is Code.REQUEST_INVALID
        case "heartbeat":
            beat(node, owner)
        case "partition":
            node.ask(AddPartition(owner=owner, log=ORDERS), Done)
        case _:
            assert refused_code(node, BeginTransaction(owner=owner)) is (
                Code.TRANSACTION_STATE_INVALID
            )
    node.advance(29 * SECOND)

    assert len(transactions(node)) == 1


def test_a_zombie_is_no_sign_of_life() -> None:
    node, older = opened(timeout_ns=900 * SECOND)
    newer = init(node, timeout_ns=900 * SECOND)
    begin(node, newer)
    node.advance(29 * SECOND)
    assert refused_code(node, BeginTransaction(owner=older)) is Code.PRODUCER_FENCED

    node.advance(2 * SECOND)

    assert not transactions(node)


def test_a_restart_gives_a_transaction_no_more_time_than_it_had() -> None:
    node, owner = opened()
    keep_alive(node, owner, 40 * SECOND)
    node.restart()
    node.advance(20 * SECOND - 1)
    assert len(transactions(node)) == 1

    node.advance(1)

    assert not transactions(node)
    assert refused_code(node, EndTransaction(owner=owner, is_commit=True)) is (
        Code.TRANSACTION_TIMEOUT
    )


def test_a_transaction_whose_time_ended_while_nobody_was_there_is_aborted() -> None:
    node, owner = opened()
    node.now_ns += 2 * MINUTE

    node.restart()
    node.advance(1)

    assert not transactions(node)
    assert shown(node) == []
    assert shown_uncommitted(node) == ["x"]
    assert refused_code(node, EndTransaction(owner=owner, is_commit=True)) is (
        Code.TRANSACTION_TIMEOUT
    )


@pytest.mark.parametrize("shift_ns", [-HOUR, 10 * SECOND])
def test_a_wall_clock_that_jumps_over_a_restart_gives_no_extra_time(shift_ns: int) -> None:
    node, owner = opened()
    keep_alive(node, owner, 10 * SECOND)
    node.wall_shift_ns = shift_ns
    node.restart()
    assert len(transactions(node)) == 1

    keep_alive(node, owner, node.now_ns + MINUTE)

    assert not transactions(node)


def test_a_wall_clock_that_jumps_within_a_life_changes_no_deadline() -> None:
    node, owner = opened()
    node.wall_shift_ns = 5 * HOUR
    keep_alive(node, owner, MINUTE - 1)
    assert len(transactions(node)) == 1
    node.wall_shift_ns = -5 * HOUR

    node.advance(1)

    assert not transactions(node)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_prepared_transaction_waits_for_an_hour_in_silence(restarts: bool) -> None:
    node, owner = opened()
    node.advance(20 * SECOND)
    identity = prepare(node, owner)
    for _ in range(4):
        node.advance(15 * MINUTE - SECOND)
        if restarts:
            node.restart(without_snapshots=True)
    assert transactions(node)[identity].is_prepared
    twin = node.twin()
    assert not commit_group(twin, "key", identity)
    assert shown(twin) == ["x"]

    node.advance(5 * SECOND)

    assert not transactions(node)
    assert shown(node) == []


def test_the_statistics_count_a_timeout_as_an_abort() -> None:
    node, _ = opened()

    node.advance(2 * MINUTE)

    found = node.ask(DescribeTransactions(), TransactionStatistics)
    assert (found.active, found.committed, found.aborted) == (0, 0, 1)


def test_a_described_transaction_tells_when_it_began_over_a_restart() -> None:
    node, _ = opened()
    node.stop()
    node.now_ns += 5 * SECOND
    node.restart()

    (found,) = transactions(node).values()

    assert found.started_at == EPOCH_NS
    assert found.timeout_ns == MINUTE
    assert found.partitions == (ORDERS,)
