"""The judge of metadata changes: what it accepts, and what it does not."""

from random import Random
from typing import Any

import pytest

from goqueue.cluster import ImageStated, StatedTopic, TopicStated, Voters
from goqueue.model import Code, Refused, RequestId
from goqueue.model.requests import Done, TopicConfig
from goqueue.sim.cluster.metadata_client import MetadataClient
from goqueue.sim.oracle import Violation


class _Serving:
    is_serving = True


class _Machine:
    """A node that answers what the test puts into `replies`."""

    def __init__(self) -> None:
        self.node = _Serving()
        self.is_over = False
        self.asked: list[object] = []
        self.replies: dict[RequestId, Any] = {}

    def ask(self, command: object) -> RequestId:
        self.asked.append(command)
        return RequestId(len(self.asked))


class _World:
    """One node, one client that created `topic-0`, and the images that there were."""

    def __init__(self) -> None:
        self.machine = _Machine()
        self.version = 5
        machines: Any = lambda: [self.machine]  # noqa: E731 - typed as the real ones
        self.client = MetadataClient(Random(2), machines, lambda: self.version)
        while not self.machine.asked:
            self.client.step()

    def answer(self, reply: object) -> None:
        self.machine.replies[RequestId(1)] = reply

    def check(self, *versions_with: int) -> None:
        """The images from 5 to 9; the topic is in these."""
        self.client.check(
            {each: image(each, has_topic=each in versions_with) for each in range(5, 10)}
        )


def image(version: int, *, has_topic: bool) -> ImageStated:
    config = TopicConfig()
    topic = TopicStated(name="topic-0", number=1, partitions=1, config=config, created_at=0)
    return ImageStated(
        version=version,
        cluster_id="one",
        coordinators=16,
        feature_level=1,
        voters=Voters(()),
        brokers=(),
        topics=(StatedTopic(topic, version, ()),) if has_topic else (),
    )


def test_an_answered_change_is_in_every_later_image() -> None:
    world = _World()
    world.answer(Done())
    world.version = 7

    world.check(7, 8, 9)
    world.check(6, 7, 8, 9)
    for versions in ((8, 9), (7, 8), (7, 9), ()):
        with pytest.raises(Violation):
            world.check(*versions)


def test_a_change_is_in_no_image_before_it_was_asked_for() -> None:
    world = _World()
    with pytest.raises(Violation, match="before its creation"):
        world.check(5, 6, 7, 8, 9)


def test_a_change_that_was_refused_or_never_answered_may_be_there_or_not() -> None:
    world = _World()
    world.check()
    world.check(8, 9)
    world.answer(Refused(Code.REPLICATION_FAILED))
    world.check()
    world.check(8, 9)
    with pytest.raises(Violation, match="and back"):
        world.check(6, 8, 9)
