"""Delayed messages inside transactions: nobody knows of them before the commit, or ever."""

import msgspec
import pytest

from goqueue.model import SECOND
from goqueue.model.requests import DelayState, Owner, ProducerStamp, Published
from tests.unit.broker.delayed.users import cancel, delaying, pending, state_of, statistics, store
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import abort, begin, commit, init, write
from tests.unit.broker.users import lag, poll, read


def delay_within(node: DrivenNode, owner: Owner, *wanted: tuple[str, int]) -> Published:
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch)
    command = msgspec.structs.replace(delaying(node, *wanted), producer=stamp)
    published = node.ask(command, Published)
    assert all(placed.refused is None for placed in published.placed)
    return published


def values(node: DrivenNode) -> list[bytes | None]:
    return [record.value for record in read(node)]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("keeps_snapshots", [False, True])
def test_a_delayed_message_fires_after_its_commit(restarts: bool, keeps_snapshots: bool) -> None:
    node = store()
    owner = init(node)
    begin(node, owner)
    delay_within(node, owner, ("later", SECOND))
    assert pending(node) == []
    assert state_of(node, 0) is None
    node.advance(2 * SECOND)
    assert values(node) == []
    if restarts:
        node.restart(without_snapshots=not keeps_snapshots)
        assert pending(node) == []

    commit(node, owner)
    node.advance(SECOND)

    assert values(node) == [b"later"]
    assert state_of(node, 0) is DelayState.DELIVERED


def test_one_that_is_not_due_at_its_commit_waits_from_then_on() -> None:
    node = store()
    owner = init(node)
    begin(node, owner)
    delay_within(node, owner, ("later", 5 * SECOND), ("now", 0))
    commit(node, owner)

    assert values(node) == [b"now"]
    assert pending(node) == [0]
    node.advance(5 * SECOND)
    assert values(node) == [b"now", b"later"]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("keeps_snapshots", [False, True])
def test_a_delayed_message_of_an_aborted_transaction_never_was(
    restarts: bool, keeps_snapshots: bool
) -> None:
    node = store()
    owner = init(node)
    begin(node, owner)
    delay_within(node, owner, ("never", SECOND))
    abort(node, owner)
    if restarts:
        node.restart(without_snapshots=not keeps_snapshots)
    node.advance(10 * SECOND)

    assert values(node) == []
    assert state_of(node, 0) is None
    assert cancel(node, 0) is not None
    assert statistics(node).pending == 0
    assert lag(node).lag == 0


def test_the_fired_message_is_delivered_once_to_a_queue_that_polled_before() -> None:
    node = store()
    owner = init(node)
    assert poll(node) == []
    begin(node, owner)
    write(node, owner, "first")
    delay_within(node, owner, ("second", SECOND))
    node.advance(3 * SECOND)
    assert poll(node) == []
    commit(node, owner)
    node.advance(SECOND)

    assert [each.value for each in poll(node)] == [b"first", b"second"]
    assert poll(node) == []
