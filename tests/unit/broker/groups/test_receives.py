"""Receives: messages leased for a group without joining it."""

import pytest

from goqueue.broker.recovery.start import GROUPS_LOG
from goqueue.groups import GroupStated
from goqueue.model import HOUR, SECOND, Code, LogId, Offset, Refused, Woke
from goqueue.model.requests import (
    Ack,
    Acked,
    Assignor,
    Command,
    CommitOffsets,
    DeleteGroup,
    DeleteTopic,
    DescribeGroup,
    DescribeLag,
    Done,
    Extend,
    Extended,
    GroupDescription,
    GroupState,
    Join,
    Lag,
    Leased,
    Leave,
    Mode,
    Offsets,
    Poll,
    Receive,
    Release,
    Released,
    lease_of,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    Delivery,
    ack,
    ack_code,
    create,
    deliveries,
    join,
    letters,
    nack,
    poll,
    polled,
    publish,
    reject,
    values,
)

_RETENTION_NS = 168 * HOUR


def _shop(*names: str, partitions: int = 1) -> DrivenNode:
    node = DrivenNode()
    for name in names or ("orders",):
        create(node, name, partitions=partitions)
    return node


def _receiving(topics: str = "orders", group: str = "shop", **more: int) -> Receive:
    named = tuple(topics.split())
    return Receive(group=group, topics=named, messages_max=more.pop("count", 100), **more)


def _receive(
    node: DrivenNode, topic: str = "orders", group: str = "shop", **more: int
) -> list[Delivery]:
    return deliveries(node.ask(_receiving(topic, group, **more), Leased))


def _refusal(node: DrivenNode, command: Command) -> Refused:
    with pytest.raises(Refused) as refused:
        node.ask(command, Done)
    return refused.value


def _pass_time(node: DrivenNode, nanoseconds: int) -> None:
    """Let much time pass with few turns."""
    until = node.now_ns + nanoseconds
    while node.now_ns < until:
        node.now_ns = min(until, node.now_ns + HOUR)
        for _ in range(3):
            node.take(Woke())


def test_a_receive_creates_its_group_and_leases_from_the_start_of_the_topic() -> None:
    node = _shop(partitions=3)
    publish(node, "a", "b", "c", targets=[0, 1, 2])

    got = _receive(node)

    assert sorted(values(got)) == ["a", "b", "c"]
    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert (described.mode, described.members) == (Mode.SHARED, ())
    assert described.state is GroupState.EMPTY
    assert described.topics == ("orders",)
    assert _receive(node) == []


def test_what_is_received_is_settled_like_what_is_polled() -> None:
    node = _shop()
    publish(node, "acked", "nacked", "rejected", "released", "extended")
    acked, nacked, rejected, released, extended = _receive(node, visibility_ns=10 * SECOND)

    assert ack_code(node, acked) is None
    nack(node, nacked, delay_ns=0)
    reject(node, rejected)
    node.ask(Release(leases=(lease_of(released.receipt),)), Released)
    node.ask(Extend(leases=(lease_of(extended.receipt),), timeout_ns=60 * SECOND), Extended)
    node.advance(20 * SECOND)

    again = _receive(node)
    assert sorted((each.value, each.attempt) for each in again) == [
        (b"nacked", 2),
        (b"released", 1),
    ]
    assert letters(node) == ["rejected"]


def test_a_lease_that_ran_out_is_received_again_and_its_receipt_is_stale() -> None:
    node = _shop()
    publish(node, "a")
    (first,) = _receive(node, visibility_ns=SECOND)
    node.advance(SECOND)
    (second,) = _receive(node)

    assert second.attempt == 2
    assert ack_code(node, first) is Code.RECEIPT_STALE
    assert ack_code(node, second) is None


def test_receivers_and_members_of_a_group_share_its_messages() -> None:
    node = _shop()
    join(node, mode=Mode.SHARED)
    publish(node, "a", "b", "c")

    assert values(_receive(node, count=1)) == ["a"]
    assert values(poll(node, count=1)) == ["b"]
    assert values(_receive(node)) == ["c"]


def test_a_receive_keeps_the_order_of_keys_in_a_group_that_does() -> None:
    node = _shop()
    join(node, mode=Mode.KEY_ORDERED)
    publish(node, "k=1", "k=2")

    (first,) = _receive(node)
    assert _receive(node) == []
    ack(node, first)
    assert values(_receive(node)) == ["2"]


def test_a_group_whose_members_own_partitions_is_not_received_from() -> None:
    node = _shop()
    join(node, mode=Mode.PARTITIONED)

    assert _refusal(node, _receiving()).code is Code.GROUP_MISMATCH


def test_a_partitioned_group_is_received_from_while_it_has_no_members() -> None:
    node = _shop(partitions=2)
    publish(node, "a", "b", targets=[0, 1])
    joined = join(node, mode=Mode.PARTITIONED)
    ack(node, *(each for each in poll(node) if each.value == b"a"))
    node.ask(Leave(group="shop", member_id=joined.member_id), Done)

    (held,) = _receive(node)
    waiting = node.begin(_receiving(wait_ns=10 * SECOND))
    publish(node, "c", targets=[1])

    assert (held.value, held.attempt) == (b"b", 2)
    assert polled(node, waiting) == ["c"]
    assert ack_code(node, held) is None
    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert (described.mode, described.members) == (Mode.PARTITIONED, ())


def test_a_group_that_read_a_stream_is_received_from_where_it_stands() -> None:
    node = _shop()
    publish(node, "a", "b")
    node.ask(CommitOffsets(group="shop", offsets={LogId("orders", 0): Offset(1)}), Offsets)

    assert values(_receive(node)) == ["b"]


def test_a_first_member_that_owns_partitions_ends_the_leases_of_receivers() -> None:
    node = _shop()
    publish(node, "held", "nacked")
    joined = join(node, mode=Mode.PARTITIONED)
    node.ask(Leave(group="shop", member_id=joined.member_id), Done)
    held, nacked = _receive(node)
    nack(node, nacked, delay_ns=60 * SECOND)
    waiting = node.begin(_receiving(wait_ns=10 * SECOND))

    join(node, mode=Mode.PARTITIONED)

    with pytest.raises(Refused, match=Code.GROUP_MISMATCH):
        node.reply(waiting, Leased)
    assert ack_code(node, held) is Code.RECEIPT_STALE
    # A backoff is no lease: it goes on.
    assert [(each.value, each.attempt) for each in poll(node)] == [(b"held", 2)]
    assert _refusal(node, _receiving()).code is Code.GROUP_MISMATCH


def test_one_receive_leases_from_several_topics() -> None:
    node = _shop("orders", "bills", "other")
    for topic in ("orders", "bills", "other"):
        publish(node, topic, topic=topic)

    got = _receive(node, "orders bills orders")

    assert sorted(values(got)) == ["bills", "orders"]
    for each in got:
        assert ack_code(node, each) is None
    lag = node.ask(DescribeLag(group="shop"), Lag)
    assert {each.log.topic: each.lag for each in lag.partitions} == {"orders": 0, "bills": 0}


def test_a_receive_from_several_topics_wakes_for_each_and_hears_that_one_is_gone() -> None:
    node = _shop("orders", "bills")
    first = node.begin(_receiving("orders bills", wait_ns=10 * SECOND))
    publish(node, "b", topic="bills")
    assert polled(node, first) == ["b"]

    second = node.begin(_receiving("orders bills", wait_ns=10 * SECOND))
    publish(node, "o", topic="orders")
    assert polled(node, second) == ["o"]

    third = node.begin(_receiving("orders bills", wait_ns=10 * SECOND))
    node.ask(DeleteTopic(name="bills"), Done)
    with pytest.raises(Refused, match=Code.TOPIC_NOT_FOUND):
        node.reply(third, Leased)


@pytest.mark.parametrize("count", [0, 21])
def test_a_receive_names_one_topic_at_least_and_twenty_at_most(count: int) -> None:
    node = _shop(*(f"t{number}" for number in range(count)))

    refused = _refusal(node, _receiving(" ".join(f"t{number}" for number in range(count))))

    assert (refused.code, refused.facts["field"]) == (Code.REQUEST_INVALID, "topics")


def test_a_receive_from_an_unknown_topic_creates_no_group() -> None:
    node = _shop()

    assert _refusal(node, _receiving("nowhere")).code is Code.TOPIC_NOT_FOUND
    assert _refusal(node, DescribeGroup(group="shop")).code is Code.GROUP_NOT_FOUND


@pytest.mark.parametrize("visibility_ns", [1, 13 * HOUR])
def test_a_lease_that_is_too_short_or_too_long_is_refused(visibility_ns: int) -> None:
    node = _shop()

    refused = _refusal(node, _receiving(visibility_ns=visibility_ns))
    assert refused.facts["field"] == "visibility_timeout"
    assert _refusal(node, DescribeGroup(group="shop")).code is Code.GROUP_NOT_FOUND


def test_nobody_polls_in_the_name_of_receivers() -> None:
    node = _shop()
    publish(node, "a")
    _receive(node, count=1)

    refused = _refusal(node, Poll(group="shop", member_id="receive:orders", wait_ns=0))
    assert refused.code is Code.MEMBER_NOT_FOUND


def test_a_receive_waits_for_a_message_and_gets_it_when_it_is_published() -> None:
    node = _shop()
    request = node.begin(_receiving(wait_ns=10 * SECOND))
    assert not node.is_answered(request)

    publish(node, "a")

    assert polled(node, request) == ["a"]


def test_a_receive_in_vain_is_answered_when_its_time_is_over() -> None:
    node = _shop()
    request = node.begin(_receiving(wait_ns=10 * SECOND))
    node.advance(10 * SECOND)

    assert polled(node, request) == []


def test_the_time_that_the_creation_of_a_group_takes_is_part_of_the_wait() -> None:
    node = _shop()
    node.slow_down(GROUPS_LOG)
    request = node.begin(_receiving(wait_ns=2 * SECOND))
    node.advance(SECOND)
    node.speed_up()
    node.advance(SECOND - 1)
    assert not node.is_answered(request)
    node.advance(1)

    assert polled(node, request) == []


def test_a_hundred_receivers_that_wait_get_one_message_each() -> None:
    node = _shop()
    requests = [node.begin(_receiving(count=1, wait_ns=10 * SECOND)) for _ in range(100)]

    publish(node, *map(str, range(100)))

    got = []
    for request in requests:
        got += polled(node, request)
    assert sorted(got, key=int) == list(map(str, range(100)))


def test_a_receiver_that_left_while_its_group_was_created_leases_nothing() -> None:
    node = _shop()
    publish(node, "a")
    node.slow_down(GROUPS_LOG)
    request = node.begin(_receiving())
    assert not node.is_answered(request)
    node.leave(request)
    node.speed_up()

    (got,) = _receive(node)
    assert got.attempt == 1


def test_waiting_receivers_hear_that_their_topic_or_group_is_gone() -> None:
    node = _shop("orders", "bills")
    orders = node.begin(_receiving(wait_ns=10 * SECOND))
    bills = node.begin(_receiving("bills", wait_ns=10 * SECOND))
    node.ask(DeleteTopic(name="orders"), Done)

    with pytest.raises(Refused, match=Code.TOPIC_NOT_FOUND):
        node.reply(orders, Leased)
    assert not node.is_answered(bills)

    node.ask(DeleteGroup(group="shop"), Done)
    with pytest.raises(Refused, match=Code.GROUP_NOT_FOUND):
        node.reply(bills, Leased)


def test_a_topic_that_is_created_again_is_received_from_with_its_new_partitions() -> None:
    node = _shop(partitions=1)
    _receive(node)
    node.ask(DeleteTopic(name="orders"), Done)
    create(node, partitions=2)
    publish(node, "a", "b", targets=[0, 1])

    assert sorted(values(_receive(node))) == ["a", "b"]


def test_the_first_member_with_another_mode_ends_the_leases_of_receivers() -> None:
    node = _shop()
    publish(node, "a")
    (held,) = _receive(node)
    waiting = node.begin(_receiving(wait_ns=10 * SECOND))

    join(node, mode=Mode.PARTITIONED)

    with pytest.raises(Refused, match=Code.GROUP_MISMATCH):
        node.reply(waiting, Leased)
    assert ack_code(node, held) is Code.RECEIPT_STALE
    assert [(each.value, each.attempt) for each in poll(node)] == [(b"a", 2)]


def test_the_last_member_that_leaves_ends_no_lease_of_a_receiver() -> None:
    node = _shop()
    joined = join(node, mode=Mode.SHARED)
    publish(node, "a", "b")
    (received,) = _receive(node, count=1)
    poll(node)
    node.ask(Leave(group="shop", member_id=joined.member_id), Done)

    assert values(_receive(node)) == ["b"]
    assert ack_code(node, received) is None


def test_what_was_read_ahead_is_forgotten_a_minute_after_the_last_receive() -> None:
    node = _shop()
    publish(node, "a", "b", "c")
    ack(node, *_receive(node, count=1))
    fetches = node.fetches
    node.advance(30 * SECOND)
    ack(node, *_receive(node, count=1))
    assert node.fetches == fetches
    node.advance(61 * SECOND)

    assert values(_receive(node, count=1)) == ["c"]
    assert node.fetches == fetches + 1


def test_a_lease_longer_than_a_minute_outlives_the_last_receive() -> None:
    node = _shop()
    publish(node, "a")
    (held,) = _receive(node, visibility_ns=HOUR)
    node.advance(HOUR - SECOND)

    assert ack_code(node, held) is None


def test_after_a_crash_receipts_are_stale_and_counts_go_on() -> None:
    node = _shop()
    publish(node, "a", "b")
    first, second = _receive(node)
    ack(node, first)

    node.restart()

    assert ack_code(node, second) is Code.RECEIPT_STALE
    assert [(each.value, each.attempt) for each in _receive(node)] == [(b"b", 2)]


def test_the_lag_of_a_topic_is_known_before_anything_of_it_was_settled() -> None:
    node = _shop(partitions=2)
    _receive(node)
    publish(node, "a", "b", "c", targets=[0, 1, 1])
    node.restart()

    lag = node.ask(DescribeLag(group="shop"), Lag)
    assert sum(each.lag for each in lag.partitions) == 3


def test_a_group_from_which_is_received_in_vain_is_not_forgotten() -> None:
    node = _shop()
    publish(node, "a")
    ack(node, *_receive(node))
    for _ in range(9):
        _pass_time(node, 24 * HOUR)
        assert _receive(node) == []

    node.restart()
    _pass_time(node, 2 * HOUR)
    assert _receive(node) == []

    _pass_time(node, _RETENTION_NS + 2 * HOUR)
    assert _refusal(node, DescribeGroup(group="shop")).code is Code.GROUP_NOT_FOUND


def test_a_group_of_an_older_journal_was_never_received_from() -> None:
    stated = GroupStated(
        group="shop",
        number=1,
        mode=Mode.SHARED,
        assignor=Assignor.RANGE,
        generation=0,
        created_at=1,
    )
    assert (stated.received, stated.received_at) == ((), 0)


def test_a_batch_of_acks_settles_what_many_receives_brought() -> None:
    node = _shop()
    publish(node, *map(str, range(20)))
    receipts = [_receive(node, count=1)[0].receipt for _ in range(20)]

    acked = node.ask(Ack(leases=tuple(map(lease_of, receipts)), group="shop"), Acked)
    assert all(each.code is None for each in acked.settlements)
    assert node.ask(DescribeLag(group="shop"), Lag).partitions[0].lag == 0


def test_nothing_is_received_for_a_group_whose_creation_is_not_durable() -> None:
    node = _shop()
    publish(node, "a")
    node.slow_down(GROUPS_LOG)
    node.begin(Join(group="shop", client_id="c1", topics=("orders",), token="t", mode=Mode.SHARED))  # noqa: S106 - not a password
    request = node.begin(_receiving())
    assert not node.is_answered(request)

    node.speed_up()

    assert polled(node, request) == ["a"]
