"""A member of very many partitions: what it costs to look at all of them."""

import msgspec
import pytest

from goqueue.broker.groups.read_ahead import ReadAhead
from goqueue.broker.partitions import Partition
from goqueue.broker.turns import TURN_UNITS
from goqueue.delivery import DeliveryQueue
from goqueue.groups import Group
from goqueue.model import Code, LogId, Message, Offset, Refused
from goqueue.model.requests import (
    Command,
    CommitOffsets,
    DeleteTopic,
    DescribeOffsets,
    Done,
    Leased,
    Offsets,
    PositionsReset,
    Publish,
    Published,
    ResetOffsets,
    Strategy,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import committed, create, join, poll, polling, publish

PARTITIONS = 200

MANY = 1000

ALL = tuple(LogId("orders", number) for number in range(MANY))

TO_ALL = Publish(
    topic="orders", batch=build([Message(value=b"v")] * MANY), targets=list(range(MANY))
)

COMMIT_ALL = CommitOffsets(
    group="shop", offsets=dict.fromkeys(ALL, Offset(1)), member_id="c1-c100", generation=1
)


def test_a_poll_looks_at_each_partition_a_few_times_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    refresh = ReadAhead.refresh

    def counted(
        read_ahead: ReadAhead, group: Group, partition: Partition, *, is_eager: bool
    ) -> DeliveryQueue:
        nonlocal looks
        looks += 1
        return refresh(read_ahead, group, partition, is_eager=is_eager)

    monkeypatch.setattr(ReadAhead, "refresh", counted)
    node = DrivenNode()
    create(node, partitions=PARTITIONS)
    for number in range(PARTITIONS):
        batch = build([Message(value=b"v")])
        node.ask(Publish(topic="orders", batch=batch, targets=[number]), Published)
    join(node)

    assert len(poll(node, count=PARTITIONS)) == PARTITIONS
    assert looks <= 4 * PARTITIONS


def test_a_poll_of_thousands_of_partitions_takes_several_bounded_turns() -> None:
    node = DrivenNode()
    create(node, partitions=2000)
    join(node)
    publish(node, *["x"] * 20, targets=list(range(0, 2000, 100)))
    node.turn_units_max = 0
    node.runs_later_turns = False
    request = node.begin(polling(count=1000))
    while not node.is_answered(request):
        node.run_later_turn()

    assert node.turn_units_max <= 2 * TURN_UNITS
    leased = node.reply(request, Leased)
    assert sum(len(share.offsets) for share in leased.partitions) == 20


def test_more_ripe_partitions_than_one_poll_may_draw_from_are_all_served_in_turn() -> None:
    node = DrivenNode()
    create(node, partitions=600)
    join(node)
    for _ in range(3):
        publish(node, *["x"] * 600, targets=list(range(600)))
    seen: dict[LogId, int] = {}
    for _ in range(20):
        for share in node.ask(polling(count=1000), Leased).partitions:
            seen[share.log] = seen.get(share.log, 0) + len(share.offsets)

    assert seen == {LogId("orders", number): 3 for number in range(600)}


def crowded() -> DrivenNode:
    """A group of one member in a topic of a thousand partitions, a message in each."""
    node = DrivenNode()
    create(node, partitions=MANY)
    join(node)
    node.ask(TO_ALL, Published)
    node.turn_units_max = 0
    node.runs_later_turns = False
    return node


@pytest.mark.parametrize(
    "command",
    [
        msgspec.structs.replace(TO_ALL, batch=bytearray(TO_ALL.batch)),
        COMMIT_ALL,
        ResetOffsets(group="shop", topic="orders", strategy=Strategy.LATEST),
        DescribeOffsets(group="shop", topic=None),
        DeleteTopic(name="orders"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_over_thousands_of_partitions_takes_several_bounded_turns(
    command: Command,
) -> None:
    node = crowded()
    request = node.begin(command)
    turns = 0
    while not node.is_answered(request):
        node.run_later_turn()
        turns += 1

    assert turns >= 2
    assert node.turn_units_max <= 2 * TURN_UNITS


def test_the_name_of_a_deleted_topic_is_free_when_the_last_of_its_logs_is_gone() -> None:
    node = crowded()
    deletion = node.begin(DeleteTopic(name="orders"))
    with pytest.raises(Refused) as refused:
        create(node, partitions=1)
    assert refused.value.code is Code.LOG_BUSY
    while not node.is_answered(deletion):
        node.run_later_turn()

    node.runs_later_turns = True
    create(node, partitions=1)
    publish(node, "x")


def test_a_crash_in_the_middle_of_a_large_deletion_leaves_nothing_of_the_topic() -> None:
    node = crowded()
    node.begin(DeleteTopic(name="orders"))
    node.restart()
    node.runs_later_turns = True

    create(node, partitions=MANY)
    assert node.ask(DescribeOffsets(group="shop", topic=None), Offsets).offsets == {}
    publish(node, "x", targets=[MANY - 1])


def test_a_commit_of_thousands_of_positions_moves_all_of_them() -> None:
    node = crowded()
    node.runs_later_turns = True
    replied = node.ask(COMMIT_ALL, Offsets)

    assert replied.offsets == dict.fromkeys(ALL, 1)
    described = node.ask(DescribeOffsets(group="shop", topic=None), Offsets)
    assert list(described.offsets) == list(ALL)
    assert set(described.offsets.values()) == {1}


def test_a_reset_of_thousands_of_positions_moves_all_of_them_back() -> None:
    node = crowded()
    node.runs_later_turns = True
    node.ask(COMMIT_ALL, Offsets)
    command = ResetOffsets(group="shop", topic="orders", strategy=Strategy.EARLIEST)
    reset = node.ask(command, PositionsReset)

    assert [each.log for each in reset.positions] == list(ALL)
    assert {each.lag for each in reset.positions} == {1}
    assert committed(node, log=ALL[-1]) == 0


def test_a_large_commit_ends_when_its_generation_does() -> None:
    node = crowded()
    request = node.begin(COMMIT_ALL)
    node.runs_later_turns = True
    join(node, client="c2")

    with pytest.raises(Refused) as refused:
        node.reply(request, Offsets)
    assert refused.value.code is Code.GENERATION_STALE


@pytest.mark.parametrize("command", [TO_ALL, COMMIT_ALL], ids=["publish", "commit"])
def test_a_topic_that_is_deleted_in_the_middle_of_a_large_command_ends_it(
    command: Command,
) -> None:
    node = crowded()
    request = node.begin(command)
    node.runs_later_turns = True
    node.ask(DeleteTopic(name="orders"), Done)

    assert node.is_answered(request)
    if command is TO_ALL:
        published = node.reply(request, Published)
        assert len(published.placed) == MANY
        assert {each.refused for each in published.placed} == {None, Code.TOPIC_NOT_FOUND}
    else:
        with pytest.raises(Refused):
            node.reply(request, Offsets)
