"""Producers that do not know that another has taken their place, or that their time is over."""

import pytest

from goqueue.model import SECOND, Code, Flush, Offset, Refused
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    Command,
    EndTransaction,
    HeartbeatProducer,
    InitProducer,
    Owner,
    PrepareTransaction,
    ProducerGranted,
    TopicConfig,
    TransactionBegan,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.transactions.words import (
    abort,
    add,
    begin,
    commit,
    init,
    opened,
    refusal,
    refused_code,
    shown,
    shown_uncommitted,
    transactions,
    write,
    writing,
)
from tests.unit.broker.users import ORDERS, create, join, poll, publish, values

MINUTE = 60 * SECOND

LONG = 600 * SECOND


def commands_of(owner: Owner) -> list[Command]:
    """All that a producer can ask for."""
    return [
        HeartbeatProducer(producer_id=owner.producer_id, epoch=owner.epoch),
        BeginTransaction(owner=owner),
        AddPartition(owner=owner, log=ORDERS),
        AddOffsets(owner=owner, group="shop", offsets={ORDERS: Offset(1)}),
        PrepareTransaction(owner=owner),
        EndTransaction(owner=owner, is_commit=True),
        EndTransaction(owner=owner, is_commit=False),
        writing(owner, "zombie"),
        writing(owner, "zombie", targets=[0], sequence=0),
    ]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("number", range(9))
def test_a_zombie_is_fenced_whatever_it_asks_for(number: int, restarts: bool) -> None:
    node, older = opened()
    publish(node, "plain")
    join(node, session_ns=LONG)
    newer = init(node)
    begin(node, newer)
    write(node, newer, "newer")
    if restarts:
        node.restart()

    assert refused_code(node, commands_of(older)[number]) is Code.PRODUCER_FENCED

    commit(node, newer)
    assert shown(node) == ["plain", "newer"]


@pytest.mark.parametrize("number", range(1, 7))
def test_another_transactional_id_or_an_unknown_producer_is_not_found(number: int) -> None:
    node, owner = opened()
    other = init(node, "other")
    for wrong in (
        Owner(producer_id=owner.producer_id, epoch=0, transactional_id="other"),
        Owner(producer_id=other.producer_id, epoch=0, transactional_id="billing"),
        Owner(producer_id=99, epoch=0, transactional_id="billing"),
        Owner(producer_id=0, epoch=0, transactional_id="billing"),
        Owner(producer_id=-1, epoch=0, transactional_id="billing"),
    ):
        assert refused_code(node, commands_of(wrong)[number]) is Code.PRODUCER_NOT_FOUND


@pytest.mark.parametrize("number", range(9))
def test_an_epoch_that_was_never_given_is_refused(number: int) -> None:
    node, owner = opened()
    wrong = Owner(producer_id=owner.producer_id, epoch=40_000, transactional_id="billing")

    refused = refusal(node, commands_of(wrong)[number])

    assert (refused.code, refused.facts["field"]) == (Code.REQUEST_INVALID, "epoch")


def test_a_producer_of_the_brokers_own_cannot_be_spoken_for() -> None:
    node, _ = opened()
    for producer_id in (0, -1, -2):
        heartbeat = HeartbeatProducer(producer_id=producer_id, epoch=0)
        assert refused_code(node, heartbeat) is Code.PRODUCER_NOT_FOUND


def test_each_init_raises_the_epoch_and_ends_what_was_open() -> None:
    node, owner = opened()
    for epoch in range(1, 4):
        owner = init(node)
        assert owner.epoch == epoch
        assert refused_code(node, EndTransaction(owner=owner, is_commit=True)) is (
            Code.TRANSACTION_STATE_INVALID
        )
        begin(node, owner)
        write(node, owner, str(epoch))
    node.restart()
    owner = init(node)

    assert owner.epoch == 4
    assert shown(node) == []
    assert not transactions(node)


def test_an_init_waits_until_the_end_of_the_older_transaction_is_seen() -> None:
    node, _ = opened()
    node.slow_down(ORDERS)
    initing = node.begin(InitProducer(transactional_id="billing"))
    assert not node.is_answered(initing)

    node.speed_up()

    assert node.reply(initing, ProducerGranted).epoch == 1
    publish(node, "after")
    assert shown(node) == ["after"]


def test_a_commit_that_was_decided_is_not_undone_by_an_init() -> None:
    node, owner = opened()
    node.slow_down(ORDERS)
    node.begin(EndTransaction(owner=owner, is_commit=True))
    initing = node.begin(InitProducer(transactional_id="billing"))

    node.speed_up()

    assert node.reply(initing, ProducerGranted).epoch == 1
    assert shown(node) == ["x"]


def test_ids_of_producers_are_never_given_twice() -> None:
    node = DrivenNode()
    given = []
    for number in range(12):
        given.append(node.ask(InitProducer(), ProducerGranted).producer_id)
        if number % 3 == 0:
            node.restart(without_snapshots=number % 2 == 0)
        if number % 5 == 0:
            node.stop()
            node.restart()
    assert len(set(given)) == 12
    assert min(given) >= 1


@pytest.mark.parametrize("timeout_ns", [0, SECOND - 1, 900 * SECOND + 1, -1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ns: int) -> None:
    node = DrivenNode()

    refused = refusal(node, InitProducer(transactional_id="billing", timeout_ns=timeout_ns))

    assert refused.code is Code.REQUEST_INVALID
    assert refused.facts["field"] == "transaction_timeout_ms"


def test_a_begin_after_an_answered_commit_is_taken_while_a_restart_marks_again() -> None:
    """The end of a transaction waits for nobody: a crash may take it, and then it is told again."""
    node = DrivenNode()
    create(node, config=TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=60_000))
    owner = init(node)
    begin(node, owner)
    write(node, owner, "x")
    commit(node, owner)

    node.restart()
    beginning = node.begin(BeginTransaction(owner=owner))

    assert node.reply(beginning, TransactionBegan).transaction_id.endswith("-2")
    assert shown(node) == ["x"]


def test_late_messages_of_an_ended_transaction_join_no_other() -> None:
    node, owner = opened()
    commit(node, owner)
    assert refused_code(node, writing(owner, "late")) is Code.TRANSACTION_STATE_INVALID
    begin(node, owner)
    abort(node, owner)

    with pytest.raises(Refused) as refused:
        write(node, owner, "later")

    assert refused.value.code is Code.TRANSACTION_STATE_INVALID
    assert shown_uncommitted(node) == ["x"]


def test_progress_of_a_fenced_transaction_is_given_back() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a")
    join(node, session_ns=LONG)
    owner = init(node)
    begin(node, owner)
    add(node, owner, *poll(node, visibility_ns=MINUTE))

    init(node)
    node.advance(MINUTE)

    assert values(poll(node)) == ["a"]
