"""What a cluster of mixed releases holds back, and how a release that is too old ends."""

import msgspec
import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.cluster.level_gate import LevelGate, halt_if_too_old
from goqueue.broker.cluster.metadata_records import decode_records
from goqueue.broker.cluster.routes import Routes
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    FEATURE_LEVEL,
    BrokerRegistered,
    FeatureLevelRaised,
    MetadataChange,
    MetadataImage,
)
from goqueue.model import Code, Halt, Instant, Message, Now, Refused, RequestId, Timestamp
from goqueue.model.requests import Command, CreateTopic, ListGroups, Publish
from goqueue.records import build
from goqueue.tracing import Tracer

NOW = Now(Instant(1), Timestamp(1))
DELAYED = Publish(topic="orders", batch=bytearray(), dues=[5])
PLAIN = Publish(topic="orders", batch=bytearray())


def served(image: MetadataImage, command: Command) -> bool:
    """Whether a command comes through; raises what it is refused with."""
    came: list[Command] = []
    gate = LevelGate(Routes("a", image=lambda: image, controller=lambda: None))
    handle = gate.around(type(command), lambda _, command, __: came.append(command))
    handle(RequestId(1), command, NOW)
    return bool(came)


def image_of(*changes: MetadataChange) -> MetadataImage:
    image = MetadataImage()
    image.apply(changes, 1)
    return image


MIXED = (
    BrokerRegistered(broker="a", directory="a", incarnation=1),
    BrokerRegistered(broker="old", directory="b", incarnation=1, level_max=1),
)


@pytest.mark.parametrize("command", [ListGroups(), DELAYED], ids=["groups", "delays"])
def test_what_an_older_node_does_not_understand_is_refused_and_that_node_is_named(
    command: Command,
) -> None:
    with pytest.raises(Refused) as refused:
        served(image_of(*MIXED), command)
    assert refused.value.code is Code.BROKER_UNAVAILABLE
    assert "upgrade old" in str(refused.value.facts["reason"])

    assert served(image_of(*MIXED, FeatureLevelRaised(level=FEATURE_LEVEL)), command)


@pytest.mark.parametrize("command", [PLAIN, CreateTopic(name="orders")], ids=["publish", "create"])
def test_what_every_release_understands_is_served_meanwhile(command: Command) -> None:
    assert served(image_of(*MIXED), command)


def test_a_record_of_a_later_release_ends_the_node_with_the_reason() -> None:
    later = msgspec.json.encode([{"type": "invented_later", "broker": "a"}])
    (record,) = decode_records(bytes(build([Message(value=later)])))
    image = image_of(*record.changes)
    state = NodeState("a", Tracer(0.0), TurnBudget())

    halt_if_too_old(state, image.feature_level)

    (halt,) = state.outbox.drain()
    assert isinstance(halt, Halt)
    assert halt.is_misconfigured
    assert "install a newer version" in halt.reason


def test_a_node_of_the_level_of_its_cluster_goes_on() -> None:
    state = NodeState("a", Tracer(0.0), TurnBudget())
    halt_if_too_old(state, FEATURE_LEVEL)
    assert not state.outbox.drain()
