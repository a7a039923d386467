"""What a node reports to its operator: each change once, and only when it is committed."""

from goqueue.broker import GROUPS_LOG, TOPICS_LOG
from goqueue.model import (
    SECOND,
    GroupRebalanced,
    MembersLost,
    MessagesDeadLettered,
    NodeRecovered,
    NodeReport,
    TopicAltered,
    TopicCreated,
    TopicRemoved,
)
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    Done,
    Join,
    Redrive,
    Redriven,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, nack, poll, publish, reject, shop


def take(node: DrivenNode) -> list[NodeReport]:
    reports = list(node.reports)
    node.reports.clear()
    return reports


def test_a_node_reports_what_it_recovered() -> None:
    node = DrivenNode()
    assert take(node) == [NodeRecovered(topics=0, partitions=0, groups=0, data_bytes=0)]
    create(node, partitions=3)
    join(node)
    publish(node, "a")
    node.stop()
    node.restart()
    [recovered] = [each for each in take(node) if isinstance(each, NodeRecovered)]
    assert (recovered.topics, recovered.partitions, recovered.groups) == (1, 3, 1)
    assert recovered.data_bytes > 0


def test_a_topic_is_reported_created_changed_and_deleted() -> None:
    node = DrivenNode()
    take(node)
    create(node, partitions=2)
    assert take(node) == [TopicCreated(topic="orders", partitions=2)]
    changes = TopicChanges({"max_deliveries": 9})
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
    assert take(node) == [TopicAltered(topic="orders", changes=("max_deliveries: 3 -> 9",))]
    node.ask(AlterTopic(name="orders", changes=changes), TopicDescription)
    assert take(node) == []
    node.ask(DeleteTopic(name="orders"), Done)
    assert take(node) == [TopicRemoved(topic="orders")]


def test_nothing_is_reported_before_it_is_committed() -> None:
    node = DrivenNode()
    create(node)
    take(node)
    node.slow_down(TOPICS_LOG)
    node.begin(CreateTopic(name="late", partitions=1, config=TopicConfig()))
    node.begin(AlterTopic(name="orders", changes=TopicChanges({"max_deliveries": 9})))
    assert take(node) == []
    node.speed_up()
    assert {type(each) for each in take(node)} == {TopicCreated, TopicAltered}

    node.slow_down(GROUPS_LOG)
    node.begin(Join(group="shop", client_id="c1", topics=("orders",), token="c1" * 2))
    assert take(node) == []
    node.speed_up()
    assert [type(each) for each in take(node)] == [GroupRebalanced]


def test_a_group_reports_rebalances_with_their_trigger_and_members_that_fell_silent() -> None:
    node = shop(partitions=2)
    join(node, client="c2", session_ns=600 * SECOND)
    joins = [each for each in take(node) if isinstance(each, GroupRebalanced)]
    assert [(each.generation, each.trigger, each.members) for each in joins] == [
        (1, "join", 1),
        (2, "join", 2),
    ]
    node.advance(60 * SECOND)
    rebalanced, lost = take(node)
    assert lost == MembersLost(group="shop", members=("c1-c100",), remaining=1)
    assert isinstance(rebalanced, GroupRebalanced)
    assert (rebalanced.trigger, rebalanced.members) == ("session_timeout", 1)


def test_messages_that_die_together_are_one_report_and_a_redrive_is_none() -> None:
    node = shop(max_deliveries=1)
    publish(node, "a", "b", "c")
    one, *others = poll(node)
    take(node)
    reject(node, one, "unreadable")
    made, rejected = take(node)
    assert made == TopicCreated(topic="orders.dlq", partitions=1)
    assert rejected == MessagesDeadLettered(
        topic="orders",
        partition=0,
        group="shop",
        count=1,
        offset=0,
        cause="rejected",
        reason="unreadable",
        deliveries=1,
        dead_letter_topic="orders.dlq",
    )
    for each in others:
        nack(node, each)
    node.advance(SECOND)
    died = [each for each in take(node) if isinstance(each, MessagesDeadLettered)]
    assert {each.cause for each in died} == {"max_deliveries"}
    assert sum(each.count for each in died) == 2
    assert node.ask(Redrive(topic="orders"), Redriven).moved == 3
    assert take(node) == []
