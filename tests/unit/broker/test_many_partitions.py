"""A member of very many partitions: what it costs to look at all of them."""

import pytest

from goqueue.broker.consuming.delivering.surveys import Surveys
from goqueue.broker.partitions import Partition
from goqueue.delivery import DeliveryQueue
from goqueue.groups import Group
from goqueue.model import Message
from goqueue.model.requests import Publish, Published
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import create, join, poll

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
