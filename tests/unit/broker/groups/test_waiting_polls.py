"""Polls that wait: what wakes and ends them, and what a commit or an ack costs while many wait."""

import pytest

from goqueue.broker.turns import TURN_UNITS
from goqueue.groups import Groups
from goqueue.model import SECOND, Code, Instant, LogId, Now, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    DeleteGroup,
    DeleteTopic,
    Done,
    Join,
    Leased,
    Leave,
    Mode,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import (
    ack,
    begin_poll,
    create,
    deliveries,
    join,
    nack,
    poll,
    polled,
    polling,
    publish,
    shop,
    values,
)


def test_a_waiting_poll_is_answered_by_a_publish_at_once() -> None:
    node = shop()
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    publish(node, "a")

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_ends_empty_when_its_time_is_over() -> None:
    node = shop()
    waiting = begin_poll(node, wait_ns=10 * SECOND)
    node.advance(10 * SECOND - 1)
    assert not node.is_answered(waiting)
    node.advance(1)

    assert polled(node, waiting) == []


def test_a_poll_that_does_not_wait_gets_what_has_yet_to_be_read_from_the_disk() -> None:
    node = shop()
    publish(node, "a")
    node.reads_are_late = True
    request = node.begin(polling())
    assert not node.is_answered(request)
    node.finish_reads()

    assert polled(node, request) == ["a"]


def test_a_waiting_poll_is_woken_by_a_lease_that_ends() -> None:
    node = shop(mode=Mode.SHARED, visibility_ns=5 * SECOND)
    join(node, client="c2")
    publish(node, "a")
    poll(node)
    waiting = begin_poll(node, client="c2")
    node.advance(5 * SECOND)

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_is_woken_by_a_nack_and_by_the_end_of_a_rest() -> None:
    node = shop()
    publish(node, "a", "b")
    first, second = poll(node)
    at_once = begin_poll(node)
    nack(node, first, delay_ns=0)
    assert polled(node, at_once) == ["a"]
    later = begin_poll(node)
    nack(node, second)
    assert not node.is_answered(later)
    node.advance(SECOND)

    assert polled(node, later) == ["b"]


def test_a_waiting_poll_is_woken_by_a_member_that_leaves() -> None:
    node = shop()
    join(node, client="c2")
    publish(node, "a")
    poll(node)
    waiting = begin_poll(node, client="c2")
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_is_woken_by_a_new_assignment() -> None:
    node = shop()
    join(node, client="c0")
    publish(node, "a")
    waiting = begin_poll(node)
    assert not node.is_answered(waiting)
    node.ask(Leave(group="shop", member_id="c0-c000"), Done)

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_is_woken_by_a_topic_that_its_member_subscribed_to_since() -> None:
    node = shop()
    create(node, "more")
    waiting = begin_poll(node)
    join(node, topics=("orders", "more"), member_id="c1-c100")
    publish(node, "a", topic="more")

    assert polled(node, waiting) == ["a"]


def test_polls_that_wait_are_served_in_the_order_in_which_they_came() -> None:
    node = shop(mode=Mode.SHARED)
    join(node, client="c2")
    second, first = begin_poll(node, client="c2"), begin_poll(node)
    publish(node, "a")

    assert polled(node, second) == ["a"]
    assert not node.is_answered(first)


def test_a_poll_whose_caller_left_takes_nothing() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.leave(waiting)
    publish(node, "a")

    assert not node.is_answered(waiting)
    assert [each.attempt for each in poll(node)] == [1]


def test_a_waiting_poll_of_a_deleted_group_ends_with_that() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.ask(DeleteGroup(group="shop"), Done)

    with pytest.raises(Refused) as refused:
        node.reply(waiting, Leased)
    assert refused.value.code is Code.GROUP_NOT_FOUND


def test_a_waiting_poll_of_a_member_that_left_ends_with_that() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.ask(Leave(group="shop", member_id="c1-c100"), Done)

    with pytest.raises(Refused) as refused:
        node.reply(waiting, Leased)
    assert refused.value.code is Code.MEMBER_NOT_FOUND


def test_a_waiting_poll_outlives_the_deletion_of_its_topic() -> None:
    node = shop()
    create(node, "more")
    join(node, topics=("orders", "more"), member_id="c1-c100")
    waiting = begin_poll(node)
    node.ask(DeleteTopic(name="orders"), Done)
    assert not node.is_answered(waiting)
    publish(node, "a", topic="more")

    assert polled(node, waiting) == ["a"]


def test_a_node_that_stops_lets_nobody_wait() -> None:
    node = shop()
    waiting = begin_poll(node)
    node.stop()

    assert polled(node, waiting) == []
    with pytest.raises(Refused) as refused:
        poll(node)
    assert refused.value.code is Code.BROKER_UNAVAILABLE


NOW = Now(Instant(0), Timestamp(0))


def crowd(members: int, partitions: int, mode: Mode) -> tuple[DrivenNode, list[RequestId]]:
    """A group whose members all wait at the end of a topic."""
    node = DrivenNode()
    create(node, partitions=partitions)
    for number in range(members):
        join(node, client=f"c{number}", mode=mode, session_ns=600 * SECOND)
    return node, [begin_poll(node, client=f"c{number}") for number in range(members)]


def test_a_commit_visits_one_partition_of_one_poll_however_many_wait() -> None:
    node, polls = crowd(members=60, partitions=40, mode=Mode.SHARED)
    node.turn_units_max = 0

    publish(node, "a", targets=[3])

    assert node.turn_units_max < 20
    assert polled(node, polls[0]) == ["a"]
    assert not any(map(node.is_answered, polls[1:]))


def test_a_commit_to_a_partition_wakes_its_owner_alone() -> None:
    node, polls = crowd(members=20, partitions=20, mode=Mode.PARTITIONED)
    node.turn_units_max = 0

    publish(node, "a", targets=[7])

    assert node.turn_units_max < 20
    assert sum(map(node.is_answered, polls)) == 1


def test_an_ack_visits_no_poll_that_waits_for_other_partitions() -> None:
    node, _ = crowd(members=30, partitions=30, mode=Mode.PARTITIONED)
    join(node, group="other", client="m", topics=["orders"])
    publish(node, "a", targets=[7])
    (held,) = poll(node, group="other", client="m")
    node.turn_units_max = 0

    ack(node, held)

    assert node.turn_units_max < 20


def test_polls_of_many_groups_are_woken_in_turns_that_are_bounded() -> None:
    node = DrivenNode()
    create(node)
    polls = []
    for number in range(1200):
        join(node, group=f"g{number}", session_ns=600 * SECOND)
        polls.append(begin_poll(node, group=f"g{number}", wait_ns=60 * SECOND))
    node.turn_units_max = 0

    publish(node, "a")

    assert all(values(deliveries(node.reply(each, Leased))) == ["a"] for each in polls)
    assert node.turn_units_max <= TURN_UNITS * 5 // 4


def test_messages_committed_together_come_in_one_answer_without_a_read() -> None:
    node, (waiting,) = crowd(members=1, partitions=5, mode=Mode.SHARED)
    node.reads_are_late = node.shares_turns = True

    publish(node, "a", "b", "c", targets=[0, 2, 4])

    assert sorted(polled(node, waiting)) == ["a", "b", "c"]


def test_a_waiting_poll_gets_a_committed_message_without_a_read() -> None:
    node = shop()
    waiting = begin_poll(node, wait_ns=10 * SECOND)
    node.reads_are_late = True

    publish(node, "a")

    assert polled(node, waiting) == ["a"]


def test_a_waiting_poll_with_a_backlog_before_it_reads_that_first() -> None:
    node = shop()
    publish(node, "a")
    node.reads_are_late = True
    waiting = begin_poll(node, wait_ns=10 * SECOND)
    publish(node, "b")
    assert not node.is_answered(waiting)
    node.finish_reads()

    assert polled(node, waiting) == ["a"]
    assert polled(node, begin_poll(node)) == ["b"]


def test_large_messages_in_several_partitions_are_read_and_come_in_one_answer() -> None:
    large = [letter * 70_000 for letter in "abc"]
    node, (waiting,) = crowd(members=1, partitions=5, mode=Mode.SHARED)
    node.reads_are_late = True
    publish(node, *large, targets=[0, 2, 4])
    assert not node.is_answered(waiting)
    node.finish_reads()

    assert sorted(polled(node, waiting)) == large


def test_a_rebalance_looks_at_partitions_that_all_members_share_once() -> None:
    node, polls = crowd(members=30, partitions=30, mode=Mode.SHARED)
    node.turn_units_max = 0

    join(node, client="late", mode=Mode.SHARED)

    assert node.turn_units_max < 30 + 30 + 20
    assert not any(map(node.is_answered, polls))


def test_members_that_share_all_partitions_share_one_tuple_of_them() -> None:
    groups = Groups()
    kept: list[tuple[LogId, ...]] = []
    for number in range(3):
        command = Join(
            group="g", client_id=f"c{number}", topics=("t",), token=f"{number}", mode=Mode.SHARED
        )
        stated = groups.join(command, {"t": 50}, NOW).stated
        assert stated is not None
        assert len({id(member.assigned) for member in stated.members}) == 1
        group = groups.apply(stated)
        assert group is not None
        kept += [group.assigned(member) for member in group.members]

    assert len({id(logs) for logs in kept}) == 1
