"""Answers over thousands of partitions: several turns, each of bounded work, others in between."""

from collections import deque

import pytest

from goqueue.broker import NodeEvent
from goqueue.broker.turns import TURN_UNITS
from goqueue.model import (
    ANONYMOUS,
    LOCAL,
    SECOND,
    Answer,
    Asked,
    Caller,
    Code,
    LogId,
    Message,
    Offset,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    AlterTopic,
    CheckHealth,
    Command,
    CommitOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    DescribeLag,
    DescribeNode,
    DescribePartitions,
    DescribeTopic,
    Done,
    GroupList,
    Lag,
    ListGroups,
    NodeDescription,
    NodeHealth,
    Offsets,
    PartitionList,
    Publish,
    Published,
    TopicChanges,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.tales import trace_of

MANY = 3 * TURN_UNITS

# A turn may end within one share of work behind its budget.
UNITS_MAX = 2 * TURN_UNITS


def large() -> DrivenNode:
    node = DrivenNode()
    node.ask(
        CreateTopic(name="large", partitions=MANY, config=TopicConfig()), expected=TopicDescription
    )
    return node


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (DescribeTopic(name="large"), TopicDescription),
        (DescribePartitions(topic="large"), PartitionList),
        (DescribeNode(), NodeDescription),
        (
            AlterTopic(name="large", changes=TopicChanges({"retention_hours": 1})),
            TopicDescription,
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, type) else "",
)
def test_describing_thousands_of_partitions_takes_several_bounded_turns(
    command: Command, expected: type[TopicDescription | PartitionList | NodeDescription]
) -> None:
    node = large()
    node.runs_later_turns = False
    request = node.begin(command)
    turns = 1
    while not node.is_answered(request):
        assert node.ask(CheckHealth(), NodeHealth).not_ready is None
        node.run_later_turn()
        turns += 1

    assert turns > 2
    assert node.turn_units_max <= UNITS_MAX
    assert isinstance(node.reply(request, expected), expected)


def test_events_that_wait_together_share_a_turn_a_few_at_a_time() -> None:
    node = DrivenNode()
    waiting: deque[NodeEvent] = deque(
        Asked(request=RequestId(1000 + number), command=CheckHealth(), caller=LOCAL)
        for number in range(40)
    )
    answered: list[int] = []
    while waiting:
        effects = node.node.handle_some(waiting, node.now)
        answered.append(sum(isinstance(effect, Answer) for effect in effects))

    assert answered == [16, 16, 8]


def test_a_turn_that_has_done_much_leaves_the_other_events_to_the_next() -> None:
    node = large()
    waiting: deque[NodeEvent] = deque(
        Asked(
            request=RequestId(1000 + number),
            command=DescribePartitions(topic="large"),
            caller=LOCAL,
        )
        for number in range(3)
    )
    node.node.handle_some(waiting, node.now)

    assert len(waiting) == 2
    assert node.node.turn_units <= UNITS_MAX


def test_a_publication_to_thousands_of_partitions_is_traced_in_several_bounded_turns() -> None:
    node = large()
    batch = build([Message(value=b"v")] * MANY)
    node.turn_units_max = 0
    node.ask(Publish(topic="large", batch=batch, targets=list(range(MANY))), Published)

    # The batch itself is what the command names.
    assert node.turn_units_max <= UNITS_MAX
    assert [trace_of(node, 0, LogId("large", number)).trace.topic for number in (0, MANY - 1)] == [
        "large",
        "large",
    ]


def test_creating_thousands_of_logs_takes_several_bounded_turns() -> None:
    node = DrivenNode()
    node.runs_later_turns = False
    request = node.begin(CreateTopic(name="large", partitions=MANY, config=TopicConfig()))
    turns = 1
    while not node.is_answered(request):
        node.run_later_turn()
        turns += 1

    assert turns > 2
    assert node.turn_units_max <= UNITS_MAX
    node.runs_later_turns = True
    assert len(node.ask(DescribeTopic(name="large"), TopicDescription).offsets) == MANY


def committed_everywhere() -> DrivenNode:
    node = large()
    offsets = {LogId("large", number): Offset(0) for number in range(MANY)}
    node.ask(CommitOffsets(group="all", member_id=None, offsets=offsets), Offsets)
    return node


def test_the_lag_of_thousands_of_partitions_takes_several_bounded_turns() -> None:
    node = committed_everywhere()
    node.runs_later_turns = False
    node.turn_units_max = 0
    request = node.begin(DescribeLag(group="all"))
    turns = 1
    while not node.is_answered(request):
        node.run_later_turn()
        turns += 1

    assert turns > 2
    assert node.turn_units_max <= UNITS_MAX
    assert len(node.reply(request, Lag).partitions) == MANY


def test_a_lag_is_told_although_its_topic_is_deleted_meanwhile() -> None:
    node = committed_everywhere()
    node.runs_later_turns = False
    request = node.begin(DescribeLag(group="all"))
    node.begin(DeleteTopic(name="large"))
    node.runs_later_turns = True
    node.advance(0)

    assert len(node.reply(request, Lag).partitions) < MANY


def test_a_group_deleted_while_its_lag_is_counted_is_not_found() -> None:
    node = committed_everywhere()
    node.runs_later_turns = False
    request = node.begin(DescribeLag(group="all"))
    node.ask(DeleteGroup(group="all"), Done)
    node.runs_later_turns = True
    node.advance(0)

    with pytest.raises(Refused) as refused:
        node.reply(request, Lag)
    assert refused.value.code is Code.GROUP_NOT_FOUND


def test_listing_thousands_of_groups_takes_several_bounded_turns() -> None:
    node = DrivenNode()
    node.ask(CreateTopic(name="t", partitions=1, config=TopicConfig()), TopicDescription)
    for number in range(MANY):
        offsets = {LogId("t", 0): Offset(0)}
        command = CommitOffsets(group=f"g{number:05}", member_id=None, offsets=offsets)
        node.ask(command, Offsets)
    node.runs_later_turns = False
    node.turn_units_max = 0
    request = node.begin(ListGroups())
    deleted = node.begin(DeleteGroup(group=f"g{MANY - 1:05}"))
    while not node.is_answered(request):
        node.run_later_turn()

    assert node.is_answered(deleted)
    assert node.turn_units_max <= UNITS_MAX
    assert len(node.reply(request, GroupList).groups) == MANY - 1


def test_a_topic_deleted_while_it_is_described_is_not_found() -> None:
    node = large()
    node.runs_later_turns = False
    described = node.begin(DescribeTopic(name="large"))
    all_described = node.begin(DescribeNode())
    deleted = node.begin(DeleteTopic(name="large"))
    node.runs_later_turns = True
    node.advance(0)

    with pytest.raises(Refused) as refused:
        node.reply(described, TopicDescription)
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    assert node.reply(all_described, NodeDescription).topics == ()
    assert node.reply(deleted, Done) == Done()


def test_work_for_somebody_who_left_is_dropped() -> None:
    node = large()
    node.runs_later_turns = False
    request = node.begin(DescribeTopic(name="large"))
    node.leave(request)
    node.advance(0)

    assert not node.is_answered(request)
    assert node.node.turn_units < TURN_UNITS // 2


def test_checking_health_costs_the_same_however_many_partitions_there_are() -> None:
    node = large()
    node.ask(CheckHealth(), NodeHealth)

    assert node.node.turn_units <= 1


def publish(node: DrivenNode, topic: str) -> None:
    batch = build([Message(value=b"x" * 100)])
    node.ask(Publish(topic=topic, batch=batch), Published)


@pytest.mark.parametrize("caller", [LOCAL, ANONYMOUS])
def test_totals_of_many_partitions_are_summed_once_a_second_however_often_they_are_asked(
    caller: Caller,
) -> None:
    node = large()
    publish(node, "large")
    summary = DescribeNode(is_summary=True)
    first = node.ask(summary, NodeDescription, caller)
    assert (first.topics, first.topic_count) == ((), 1)
    publish(node, "large")
    assert node.ask(summary, NodeDescription, caller) == first
    assert node.node.turn_units <= 1

    node.advance(SECOND)
    later = node.ask(summary, NodeDescription, caller)
    assert later.total_size_bytes > first.total_size_bytes
    whole = node.ask(DescribeNode(), NodeDescription)
    assert (whole.topic_count, whole.total_size_bytes) == (1, later.total_size_bytes)


def test_totals_of_few_partitions_are_never_out_of_date() -> None:
    node = DrivenNode()
    node.ask(CreateTopic(name="orders", partitions=2, config=TopicConfig()), TopicDescription)
    before = node.ask(DescribeNode(is_summary=True), NodeDescription)
    publish(node, "orders")
    after = node.ask(DescribeNode(is_summary=True), NodeDescription)
    assert after.total_size_bytes > before.total_size_bytes


def test_a_topic_deleted_while_sizes_are_summed_is_left_out() -> None:
    node = large()
    node.runs_later_turns = False
    summed = node.begin(DescribeNode(is_summary=True))
    node.begin(DeleteTopic(name="large"))
    node.runs_later_turns = True
    node.advance(0)
    assert node.reply(summed, NodeDescription).topics == ()
