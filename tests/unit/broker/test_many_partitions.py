"""A member of very many partitions: what it costs to look at all of them."""

import pytest

from goqueue.broker.budget import TURN_UNITS
from goqueue.broker.consuming.delivering.surveys import Surveys
from goqueue.broker.partitions import Partition
from goqueue.delivery import DeliveryQueue
from goqueue.groups import Group
from goqueue.model import LogId, Message
from goqueue.model.requests import Leased, Publish, Published
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, poll, polling, publish

PARTITIONS = 200


def test_a_poll_looks_at_each_partition_a_few_times_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    look = Surveys.look

    def counted(
        surveys: Surveys, group: Group, partition: Partition, *, is_eager: bool
    ) -> DeliveryQueue:
        nonlocal looks
        looks += 1
        return look(surveys, group, partition, is_eager=is_eager)

    monkeypatch.setattr(Surveys, "look", counted)
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
    assert sum(len(parcel.offsets) for parcel in leased.parcels) == 20


def test_more_ripe_partitions_than_one_poll_may_draw_from_are_all_served_in_turn() -> None:
    node = DrivenNode()
    create(node, partitions=600)
    join(node)
    for _ in range(3):
        publish(node, *["x"] * 600, targets=list(range(600)))
    seen: dict[LogId, int] = {}
    for _ in range(20):
        for parcel in node.ask(polling(count=1000), Leased).parcels:
            seen[parcel.log] = seen.get(parcel.log, 0) + len(parcel.offsets)

    assert seen == {LogId("orders", number): 3 for number in range(600)}
