"""Which partition a message goes to is the same whichever node of a cluster is asked."""

import pytest

from goqueue.model import Code, Message, Refused
from goqueue.model.requests import CreateTopic, Publish, Published, TopicDescription
from goqueue.records import build
from goqueue.sim.cluster import BrokerMachine
from tests.simulation.calm_cluster import CalmCluster


@pytest.fixture(scope="module")
def calm() -> CalmCluster:
    """Three nodes, one of which leads the only partition of a topic."""
    cluster = CalmCluster(3)
    cluster.ask(CreateTopic(name="orders", partitions=1), TopicDescription)
    return cluster


def publish(
    calm: CalmCluster, machine: BrokerMachine, targets: list[int], *, is_whole: bool
) -> object:
    batch = build([Message(value=b"x", key=b"k")] * len(targets))
    command = Publish(topic="orders", batch=batch, targets=targets, is_whole=is_whole)
    return calm.try_to_ask(command, machine)


def test_a_batch_for_a_partition_that_is_not_there_is_refused_by_every_node(
    calm: CalmCluster,
) -> None:
    """A client that knows an earlier topic of the name learns that its partitions are gone."""
    for machine in calm.run.machines:
        refused = publish(calm, machine, [3, 3], is_whole=True)

        assert isinstance(refused, Refused)
        assert refused.code is Code.PARTITION_NOT_FOUND


def test_of_several_messages_those_for_a_partition_that_is_not_there_are_refused(
    calm: CalmCluster,
) -> None:
    for machine in calm.run.machines:
        published = publish(calm, machine, [3, -1, 0], is_whole=False)

        assert isinstance(published, Published)
        assert [target < 0 for target in published.targets] == [True, False, False]
        (placed,) = published.placed
        assert (placed.partition, placed.count) == (0, 2)
