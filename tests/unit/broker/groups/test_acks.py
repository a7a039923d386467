"""Receipts: acked, given back, extended, rejected; stale ones, and handles of others."""

import pytest

from goqueue.model import HOUR, SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    Ack,
    Acked,
    CommitOffsets,
    DeleteGroup,
    DescribeReliability,
    Done,
    Extend,
    Extended,
    LeaseOffsets,
    Leave,
    Mode,
    Nack,
    Offsets,
    PositionsReset,
    RefusedOffsets,
    Reject,
    Release,
    Released,
    Reliability,
    ResetOffsets,
    Returned,
    Strategy,
    TopicConfig,
    lease_of,
)
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.users import (
    ORDERS,
    Delivery,
    ack,
    ack_code,
    committed,
    create,
    join,
    lag,
    letters,
    nack,
    poll,
    publish,
    reject,
    values,
)


def shop(config: TopicConfig | None = None, mode: Mode | None = None) -> DrivenNode:
    node = DrivenNode()
    create(node, config=config)
    join(node, mode=mode, session_ns=600 * SECOND)
    return node


# ---- ack -------------------------------------------------------------------------------------


def test_an_ack_advances_the_committed_offset() -> None:
    node = shop()
    publish(node, "a", "b")
    first, _ = poll(node)
    (settled,) = ack(node, first)

    assert (settled.log, settled.count, settled.committed) == (ORDERS, 1, 1)
    assert settled.has_advanced
    assert settled.in_flight == 1
    assert committed(node) == 1


def test_acks_out_of_order_are_remembered_and_advance_when_the_gap_is_closed() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    first, second, third = poll(node)
    (late,) = ack(node, third)
    assert (late.committed, late.has_advanced, late.in_flight) == (0, False, 2)
    ack(node, second)
    (closing,) = ack(node, first)

    assert (closing.committed, closing.has_advanced, closing.in_flight) == (3, True, 0)


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_what_was_acked_out_of_order_is_not_delivered_after_a_restart(
    without_snapshots: bool,
) -> None:
    node = shop()
    publish(node, "a", "b", "c")
    _, second, _ = poll(node)
    ack(node, second)
    node.stop()
    node.restart(without_snapshots=without_snapshots)

    again = poll(node)
    assert [(each.value, each.attempt) for each in again] == [(b"a", 2), (b"c", 2)]


def test_a_batch_of_acks_says_of_each_what_became_of_it() -> None:
    node = shop(TopicConfig(visibility_ns=10 * SECOND))
    publish(node, "a", "b", "c")
    first, second = poll(node, count=2)
    node.advance(10 * SECOND)
    third, *_ = reversed(poll(node))
    receipts = (third.receipt, "nonsense", second.receipt, third.receipt)
    settlements = node.ask(Ack(leases=tuple(map(lease_of, receipts))), Acked).settlements

    assert [each.code for each in settlements] == [
        None,
        Code.RECEIPT_INVALID,
        Code.RECEIPT_STALE,
        None,
    ]
    assert third.value == b"c"
    assert first.value == b"a"


def test_a_batch_of_acks_over_partitions_and_groups_settles_each_in_its_place() -> None:
    node = DrivenNode()
    create(node, partitions=2)
    join(node)
    join(node, group="audit", client="a1")
    publish(node, "a", "b", targets=[0, 1])
    mine, theirs = poll(node), poll(node, group="audit", client="a1")
    settlements = ack(node, mine[0], theirs[1], mine[1], theirs[0])

    assert [each.code for each in settlements] == [None] * 4
    for group in ("shop", "audit"):
        assert [committed(node, group, LogId("orders", n)) for n in range(2)] == [1, 1]


def test_acking_twice_is_fine_also_after_a_restart() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    ack(node, first)
    assert ack_code(node, first) is None
    node.restart()

    assert ack_code(node, first) is None
    assert poll(node) == []


def test_what_is_acked_twice_is_counted_once() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    ack(node, first, first)
    ack(node, first)

    assert node.ask(DescribeReliability(), Reliability).acks == 1


def test_an_ack_is_answered_only_when_it_is_durable() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.slow_down(LogId("__groups", 0))
    request = node.begin(Ack(leases=(lease_of(first.receipt),)))
    assert not node.is_answered(request)
    node.speed_up()

    assert node.reply(request, Acked).settlements[0].code is None


def test_a_late_ack_of_what_another_member_acked_since_is_a_safe_retry() -> None:
    node = shop(TopicConfig(visibility_ns=SECOND), Mode.SHARED)
    join(node, client="c2")
    publish(node, "a")
    (mine,) = poll(node)
    node.advance(SECOND)
    (theirs,) = poll(node, client="c2")
    assert ack_code(node, mine) is Code.RECEIPT_STALE
    ack(node, theirs)

    assert ack_code(node, mine) is None


# ---- nack ------------------------------------------------------------------------------------


def test_a_nack_rests_twice_as_long_each_time_up_to_a_minute() -> None:
    node = shop(TopicConfig(max_deliveries=0))
    publish(node, "a")
    rests = []
    for attempt in range(1, 10):
        (delivery,) = poll(node)
        assert delivery.attempt == attempt
        returned = nack(node, delivery)
        assert returned.visible_at is not None
        rest = returned.visible_at - node.now.wall
        rests.append(rest // SECOND)
        node.advance(rest - 1)
        assert poll(node) == []
        node.advance(1)

    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_nack_may_bring_its_own_delay() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    returned = nack(node, first, delay_ns=5 * SECOND)
    assert (returned.log, returned.offset, returned.attempt) == (ORDERS, 0, 1)
    assert returned.visible_at == EPOCH_NS + 5 * SECOND
    assert returned.dead_letter_topic is None
    node.advance(5 * SECOND - 1)
    assert poll(node) == []
    node.advance(1)

    assert values(poll(node)) == ["a"]


@pytest.mark.parametrize("delay_ns", [-1, 12 * HOUR + 1])
def test_a_delay_out_of_its_limits_is_refused_and_the_lease_goes_on(delay_ns: int) -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)

    with pytest.raises(Refused) as refused:
        nack(node, first, delay_ns=delay_ns)
    assert refused.value.code is Code.REQUEST_INVALID
    assert ack_code(node, first) is None


def test_a_message_at_rest_holds_up_nobody_else() -> None:
    node = shop()
    publish(node, "a", "b")
    nack(node, poll(node, count=1)[0])

    assert values(poll(node)) == ["b"]


def test_a_message_that_rests_is_available_after_a_restart_with_its_count() -> None:
    node = shop()
    publish(node, "a")
    nack(node, poll(node)[0], delay_ns=HOUR)
    node.restart()

    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 2)]


def test_with_no_limit_a_message_is_delivered_for_ever() -> None:
    node = shop(TopicConfig(max_deliveries=0, visibility_ns=SECOND))
    publish(node, "a")
    for attempt in range(1, 21):
        (delivery,) = poll(node)
        assert delivery.attempt == attempt
        node.advance(SECOND)

    assert letters(node) == []


# ---- statistics ------------------------------------------------------------------------------


def test_the_node_counts_what_becomes_of_messages() -> None:
    node = shop(TopicConfig(visibility_ns=10 * SECOND))
    publish(node, *"abcde")
    first, second, third, fourth, _ = poll(node)
    ack(node, first)
    nack(node, second, delay_ns=0)
    reject(node, third)
    node.ask(Extend(leases=(lease_of(fourth.receipt),), timeout_ns=60 * SECOND), Extended)
    poll(node)
    node.advance(10 * SECOND)

    counted = node.ask(DescribeReliability(), Reliability)
    assert (counted.acks, counted.nacks, counted.rejects, counted.extensions) == (1, 1, 1, 1)
    assert (counted.redeliveries, counted.expirations, counted.in_flight) == (1, 2, 1)
    assert (
        counted.dead_letters,
        counted.rejected_dead_letters,
        counted.exhausted_dead_letters,
    ) == (1, 1, 0)


def test_a_commit_makes_receipts_below_it_acknowledged_and_leaves_those_above() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    first, second, third = poll(node)
    command = CommitOffsets(group="shop", offsets={ORDERS: Offset(2)}, member_id="c1-c100")
    node.ask(command, Offsets)

    assert [ack_code(node, each) for each in (first, second, third)] == [None, None, None]
    assert committed(node) == 3
    with pytest.raises(Refused) as refused:
        node.ask(Nack(receipt=first.receipt), Returned)
    assert refused.value.code is Code.RECEIPT_STALE


def assert_stale(node: DrivenNode, delivery: Delivery) -> None:
    """No use of a receipt has an effect any more."""
    assert ack_code(node, delivery) is Code.RECEIPT_STALE
    for command in (
        Nack(receipt=delivery.receipt),
        Reject(receipt=delivery.receipt),
    ):
        with pytest.raises(Refused) as refused:
            node.ask(command, Done)
        assert refused.value.code is Code.RECEIPT_STALE
    extend = Extend(leases=(lease_of(delivery.receipt),), timeout_ns=SECOND)
    assert node.ask(extend, Extended).settlements[0].code is Code.RECEIPT_STALE


def test_a_receipt_is_stale_when_its_lease_ran_out() -> None:
    node = shop(TopicConfig(visibility_ns=SECOND))
    publish(node, "a")
    (first,) = poll(node)
    node.advance(SECOND)
    assert_stale(node, first)
    (again,) = poll(node)

    assert_stale(node, first)
    assert ack_code(node, again) is None


def test_a_receipt_is_stale_when_its_lease_ran_out_and_the_node_has_not_come_to_it() -> None:
    node = shop(TopicConfig(visibility_ns=SECOND))
    publish(node, "a")
    (first,) = poll(node)
    node.runs_later_turns = False
    node.now_ns += SECOND
    assert_stale(node, first)


def test_a_receipt_is_stale_after_a_nack() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    nack(node, first)

    assert_stale(node, first)


def test_a_receipt_is_stale_after_a_reset() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST), PositionsReset)

    assert_stale(node, first)
    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 1)]


def test_a_receipt_is_stale_when_its_holder_left() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    assert_stale(node, first)


def test_a_receipt_is_stale_after_a_restart() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.advance(SECOND)
    node.restart()
    assert_stale(node, first)
    (again,) = poll(node)

    assert_stale(node, first)
    assert again.attempt == 2


def test_a_receipt_is_stale_when_its_group_was_deleted_and_made_again() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(DeleteGroup(group="shop"), Done)
    assert_stale(node, first)
    join(node)
    ack(node, *poll(node))

    assert_stale(node, first)


def test_a_receipt_of_a_deleted_group_is_stale_in_the_next_life_too() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    node.ask(DeleteGroup(group="shop"), Done)
    node.stop()
    node.restart()
    join(node, group="other")
    ack(node, *poll(node, group="other"))

    assert_stale(node, first)


def test_a_receipt_of_one_group_says_nothing_about_another() -> None:
    node = shop()
    join(node, group="audit", client="a1")
    publish(node, "a")
    (mine,) = poll(node)
    (theirs,) = poll(node, group="audit", client="a1")
    ack(node, mine)

    assert lag(node, "audit").lag == 1
    assert ack_code(node, theirs) is None


@pytest.mark.parametrize(
    "handle",
    ["", ":", "orders:0:0:1", "orders:0:0:1:1.1.1.0000000000000000", "x" * 10_000, "é", "\ud800"],
)
def test_a_handle_that_is_none_of_ours_is_invalid(handle: str) -> None:
    node = shop()
    publish(node, "a")
    poll(node)

    assert (
        node.ask(Ack(leases=(lease_of(handle),)), Acked).settlements[0].code is Code.RECEIPT_INVALID
    )
    for command in (Nack(receipt=handle), Reject(receipt=handle)):
        with pytest.raises(Refused) as refused:
            node.ask(command, Done)
        assert refused.value.code is Code.RECEIPT_INVALID


def test_a_receipt_for_a_message_of_another_lease_cannot_be_made_from_one() -> None:
    node = shop()
    publish(node, "a", "b")
    (first,) = poll(node, count=1)
    (second,) = poll(node, count=1)
    forged = first.receipt.replace("orders:0:0:", "orders:0:1:")
    altered = second.receipt.replace("orders:0:1:1:", "orders:0:1:2:")

    codes = [
        node.ask(Ack(leases=(lease_of(each),)), Acked).settlements[0].code
        for each in (forged, altered)
    ]
    assert codes == [Code.RECEIPT_STALE, Code.RECEIPT_INVALID]
    assert committed(node) is None


def test_a_whole_lease_is_acked_by_one_range_and_what_is_not_in_it_is_refused() -> None:
    node = shop()
    publish(node, *"abcdef")
    found = poll(node, count=4)
    handle = lease_of(found[0].receipt).handle
    command = Ack(leases=(LeaseOffsets(handle, [(1, 3), (3, 6)]),))

    (settled,) = node.ask(command, Acked).settlements

    assert (settled.count, settled.committed, settled.in_flight) == (3, 0, 1)
    assert settled.refused == (RefusedOffsets(4, 6, Code.RECEIPT_STALE),)
    (again,) = node.ask(Ack(leases=(LeaseOffsets(handle, [(0, 4)]),)), Acked).settlements
    assert (again.count, again.refused, again.committed) == (4, (), 4)


def test_a_lease_of_another_group_than_the_one_that_is_named_is_invalid() -> None:
    node = shop()
    publish(node, "a")
    (first,) = poll(node)
    named = (lease_of(first.receipt),)

    settlements = (
        *node.ask(Ack(leases=named, group="other"), Acked).settlements,
        *node.ask(Extend(leases=named, timeout_ns=SECOND, group="other"), Extended).settlements,
        *node.ask(Release(leases=named, group="other"), Released).settlements,
    )
    assert [each.code for each in settlements] == [Code.RECEIPT_INVALID] * 3
    for single in (
        Nack(receipt=first.receipt, group="other"),
        Reject(receipt=first.receipt, group="other"),
    ):
        with pytest.raises(Refused) as refused:
            node.ask(single, Done)
        assert refused.value.code is Code.RECEIPT_INVALID
    assert ack_code(node, first) is None


def test_a_part_of_a_lease_that_is_extended_outlives_the_rest() -> None:
    node = shop(TopicConfig(visibility_ns=10 * SECOND))
    publish(node, *"abc")
    first, second, third = poll(node)
    node.ask(Extend(leases=(lease_of(second.receipt),), timeout_ns=30 * SECOND), Extended)

    node.advance(20 * SECOND)

    assert ack_code(node, first) is Code.RECEIPT_STALE
    assert ack_code(node, second) is None
    assert ack_code(node, third) is Code.RECEIPT_STALE
    assert values(poll(node)) == ["a", "c"]
