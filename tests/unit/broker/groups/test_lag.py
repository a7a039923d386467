"""How far a group is behind: in messages and in time."""

import pytest

from goqueue.model import HOUR, MILLISECOND, SECOND, Code, LogId, Offset, Refused
from goqueue.model.requests import (
    AlterTopic,
    CommitOffsets,
    DeleteTopic,
    DescribeGroup,
    DescribeLag,
    Done,
    GroupDescription,
    GroupList,
    Lag,
    Leave,
    ListGroups,
    Offsets,
    Start,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.groups.shops import stocked_shop
from tests.unit.broker.users import (
    ORDERS,
    ack,
    create,
    join,
    lag,
    poll,
    publish,
)

SECOND_LOG = LogId("orders", 1)


def lags(node: DrivenNode) -> list[int]:
    """The lag of every partition."""
    return [each.lag for each in node.ask(DescribeLag(group="shop"), Lag).partitions]


def gauge(node: DrivenNode) -> float:
    """The lag as the metrics tell it."""
    (family,) = [each for each in node.node.metrics() if each.name == "goqueue_consumer_lag"]
    ((_, value),) = filter(None, family.samples)
    assert isinstance(value, int)
    return value


def test_lag_counts_what_is_not_settled_and_leased_messages_with_it() -> None:
    node = stocked_shop(1, "a", "b", "c", "d")
    join(node)
    first, _, third = poll(node, count=3)
    ack(node, third)
    behind = lag(node)
    assert (behind.committed, behind.end, behind.lag, behind.in_flight) == (0, 4, 3, 2)
    ack(node, first)

    behind = lag(node)
    assert (behind.committed, behind.lag, behind.in_flight) == (1, 2, 1)


def test_lag_counts_partitions_in_which_a_group_never_committed_also_without_members() -> None:
    node = stocked_shop(3, "a")
    member = join(node)
    ack(node, *poll(node))
    node.ask(Leave(group="shop", member_id=member.member_id), Done)
    publish(node, "b", "c", "d", "e", targets=[1, 1, 2, 0])
    assert lags(node) == [1, 2, 1]
    node.restart()

    assert lags(node) == [1, 2, 1]
    assert gauge(node) == 4


def test_lag_of_a_group_whose_only_member_died_before_it_settled_anything() -> None:
    node = stocked_shop(2, "a", "b")
    join(node)
    poll(node)
    node.advance(HOUR)

    described = node.ask(DescribeGroup(group="shop"), GroupDescription)
    assert (described.members, described.topics) == ((), ("orders",))
    assert lags(node) == [2, 0]
    node.restart(without_snapshots=True)
    assert lags(node) == [2, 0]
    assert node.ask(DescribeGroup(group="shop"), GroupDescription).topics == ("orders",)


def test_lag_of_a_group_that_begins_at_the_end_counts_what_came_since() -> None:
    node = stocked_shop(2, "a", "b")
    member = join(node, start=Start.LATEST)
    node.ask(Leave(group="shop", member_id=member.member_id), Done)
    publish(node, "c", targets=[1])

    assert lags(node) == [0, 1]


def test_a_group_that_only_committed_offsets_is_behind_in_every_partition_of_the_topic() -> None:
    node = stocked_shop(2, "a", "b")
    publish(node, "c", targets=[1])
    node.ask(CommitOffsets(group="shop", offsets={ORDERS: Offset(1)}), Offsets)

    assert lags(node) == [1, 1]
    assert node.ask(ListGroups(), GroupList).groups[0].topics == ("orders",)


def test_a_group_without_members_names_no_topic_that_is_gone() -> None:
    node = stocked_shop(2, "a")
    member = join(node)
    node.ask(Leave(group="shop", member_id=member.member_id), Done)
    node.ask(DeleteTopic(name="orders"), Done)

    assert lags(node) == []
    assert node.ask(DescribeGroup(group="shop"), GroupDescription).topics == ()


def test_lag_is_the_same_after_a_restart_but_for_the_leases() -> None:
    node = stocked_shop(1, "a", "b", "c", "d")
    join(node)
    ack(node, poll(node)[2])
    node.restart()

    behind = lag(node)
    assert (behind.committed, behind.lag, behind.in_flight) == (0, 3, 0)


def test_time_lag_is_the_age_of_the_oldest_message_that_is_not_settled() -> None:
    node = stocked_shop(1, "a", "b")
    join(node)
    assert lag(node).time_lag_ns == 2 * SECOND
    ack(node, *poll(node, count=1))
    assert lag(node).time_lag_ns == SECOND
    ack(node, *poll(node))

    assert lag(node).time_lag_ns == 0


def test_lag_covers_subscribed_topics_that_were_never_polled() -> None:
    node = stocked_shop(2, "a")
    join(node)

    lags = node.ask(DescribeLag(group="shop"), Lag).partitions
    assert [(each.log, each.lag) for each in lags] == [(ORDERS, 1), (SECOND_LOG, 0)]


def test_lag_does_not_count_what_retention_removed() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(retention_hours=-1))
    publish(node, "a", "b")
    join(node, session_ns=600 * SECOND)
    first, second = poll(node)
    ack(node, second)
    node.advance(2 * HOUR)
    changes = TopicChanges({"retention_hours": 1})
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
    node.advance(60 * SECOND)
    publish(node, "c", "d")

    behind = lag(node)
    assert (behind.committed, behind.end, behind.lag) == (2, 4, 2)
    assert behind.time_lag_ns < 100 * MILLISECOND
    assert first.value == b"a"


def test_lag_of_an_unknown_group_is_refused() -> None:
    node = stocked_shop()

    with pytest.raises(Refused) as refused:
        node.ask(DescribeLag(group="absent"), Lag)
    assert refused.value.code is Code.GROUP_NOT_FOUND


def test_the_lag_of_a_topic_is_counted_where_a_group_has_a_place_and_where_it_has_none() -> None:
    node = stocked_shop(3)
    for partition in (0, 1, 1, 2, 2, 2):
        publish(node, "x", targets=[partition])
    node.ask(
        CommitOffsets(group="shop", member_id=None, offsets={LogId("orders", 2): Offset(2)}),
        Offsets,
    )

    assert gauge(node) == sum(lags(node)) == 1 + 2 + 1
