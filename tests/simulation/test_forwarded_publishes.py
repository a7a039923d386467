"""Publishes that any node takes: what their topic refuses is refused wherever they come in."""

import pytest

from goqueue.model import Code, Message, Refused
from goqueue.model.requests import (
    CreateTopic,
    DescribeTopic,
    Publish,
    Published,
    TopicConfig,
    TopicDescription,
)
from goqueue.records import build
from goqueue.sim.cluster import BrokerMachine
from tests.simulation.calm_cluster import CalmCluster

TOPIC = "orders"
_TOO_LARGE = Message(value=b"x" * 2000)
_FITS = Message(value=b"y")


@pytest.fixture(scope="module", params=[1, 3], ids=["one partition", "three partitions"])
def cluster(request: pytest.FixtureRequest) -> CalmCluster:
    """Three nodes; the topic takes messages of up to a thousand bytes."""
    calm = CalmCluster(3)
    config = TopicConfig(replication_factor=3, min_insync_replicas=2, max_message_bytes=1000)
    calm.ask(CreateTopic(name=TOPIC, partitions=request.param, config=config), TopicDescription)
    return calm


def published(cluster: CalmCluster, machine: BrokerMachine, command: Publish) -> Published:
    reply = cluster.try_to_ask(command, machine)
    assert isinstance(reply, Published), reply
    return reply


def test_a_message_that_is_too_large_is_refused_and_the_others_are_stored(
    cluster: CalmCluster,
) -> None:
    for machine in cluster.run.machines:
        before = cluster.ask(DescribeTopic(name=TOPIC), TopicDescription).total_messages
        batch = build([_TOO_LARGE, _FITS])
        reply = published(cluster, machine, Publish(topic=TOPIC, batch=batch, targets=[0, 0]))

        assert [each for each in reply.targets if each >= 0] == [0]
        (placed,) = reply.placed
        assert (placed.count, placed.refused) == (1, None)
        after = cluster.ask(DescribeTopic(name=TOPIC), TopicDescription).total_messages
        assert after == before + 1


def test_nothing_is_stored_of_a_whole_batch_with_a_message_that_is_too_large(
    cluster: CalmCluster,
) -> None:
    for machine in cluster.run.machines:
        batch = build([_FITS, _TOO_LARGE])
        command = Publish(topic=TOPIC, batch=batch, targets=[0, 0], is_whole=True)
        before = cluster.ask(DescribeTopic(name=TOPIC), TopicDescription).total_messages
        refused = cluster.try_to_ask(command, machine)

        assert isinstance(refused, Refused)
        assert refused.code is Code.MESSAGE_TOO_LARGE
        after = cluster.ask(DescribeTopic(name=TOPIC), TopicDescription).total_messages
        assert after == before


def test_a_partition_that_does_not_exist_takes_nothing(cluster: CalmCluster) -> None:
    for machine in cluster.run.machines:
        command = Publish(topic=TOPIC, batch=build([_FITS]), targets=[9])
        reply = published(cluster, machine, command)

        assert reply.placed == ()
        assert reply.targets[0] < 0
