"""Transactions that run too long, producers that fall silent, and those who do not know it."""

import pytest

from goqueue.model import HOUR, SECOND, Code, Flush, Offset, Refused
from goqueue.model.requests import (
    AddOffsets,
    AddPartition,
    BeginTransaction,
    Command,
    DescribeTransactions,
    Done,
    EndTransaction,
    HeartbeatProducer,
    InitProducer,
    Owner,
    PrepareTransaction,
    ProducerGranted,
    TopicConfig,
    TransactionBegan,
    TransactionStatistics,
)
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.transacting.words import (
    abort,
    add,
    begin,
    commit,
    commit_group,
    init,
    prepare,
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


def opened(timeout_ns: int | None = None) -> tuple[DrivenNode, Owner]:
    """An open transaction that has written."""
    node = DrivenNode()
    create(node)
    owner = init(node, timeout_ns=timeout_ns)
    begin(node, owner)
    write(node, owner, "x")
    return node, owner


def beat(node: DrivenNode, owner: Owner) -> None:
    node.ask(HeartbeatProducer(producer_id=owner.producer_id, epoch=owner.epoch), Done)


def keep_alive(node: DrivenNode, owner: Owner, until_ns: int) -> None:
    """Time passes, and the producer says now and then that it is there."""
    while node.now_ns < until_ns:
        node.advance(min(20 * SECOND, until_ns - node.now_ns))
        beat(node, owner)


# Time


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


# Zombies


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
