"""How far a group is behind: in messages and in time."""

import pytest

from goqueue.model import HOUR, MILLISECOND, SECOND, Code, LogId, Refused
from goqueue.model.requests import (
    AlterTopic,
    DescribeLag,
    Lag,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from tests.unit.broker.driven_node import DrivenNode
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


def shop(partitions: int = 1, *wanted: str) -> DrivenNode:
    """A topic with these messages in its first partition."""
    node = DrivenNode()
    create(node, partitions=partitions)
    for value in wanted:
        publish(node, value, targets=[0])
        node.advance(SECOND)
    return node


def test_lag_counts_what_is_not_settled_and_leased_messages_with_it() -> None:
    node = shop(1, "a", "b", "c", "d")
    join(node)
    first, _, third = poll(node, count=3)
    ack(node, third)
    behind = lag(node)
    assert (behind.committed, behind.end, behind.lag, behind.in_flight) == (0, 4, 3, 2)
    ack(node, first)

    behind = lag(node)
    assert (behind.committed, behind.lag, behind.in_flight) == (1, 2, 1)


def test_lag_is_the_same_after_a_restart_but_for_the_leases() -> None:
    node = shop(1, "a", "b", "c", "d")
    join(node)
    ack(node, poll(node)[2])
    node.restart()

    behind = lag(node)
    assert (behind.committed, behind.lag, behind.in_flight) == (0, 3, 0)


def test_time_lag_is_the_age_of_the_oldest_message_that_is_not_settled() -> None:
    node = shop(1, "a", "b")
    join(node)
    assert lag(node).time_lag_ns == 2 * SECOND
    ack(node, *poll(node, count=1))
    assert lag(node).time_lag_ns == SECOND
    ack(node, *poll(node))

    assert lag(node).time_lag_ns == 0


def test_lag_covers_subscribed_topics_that_were_never_polled() -> None:
    node = shop(2, "a")
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
    changes = TopicChanges(retention_hours=1)
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
    node.advance(60 * SECOND)
    publish(node, "c", "d")

    behind = lag(node)
    assert (behind.committed, behind.end, behind.lag) == (2, 4, 2)
    assert behind.time_lag_ns < 100 * MILLISECOND
    assert first.value == b"a"


def test_lag_of_an_unknown_group_is_refused() -> None:
    node = shop()

    with pytest.raises(Refused) as refused:
        node.ask(DescribeLag(group="absent"), Lag)
    assert refused.value.code is Code.GROUP_NOT_FOUND
