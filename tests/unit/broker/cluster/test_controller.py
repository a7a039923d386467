"""The controller: what it answers to operators, and whom it registers."""

import pytest

from goqueue.broker.cluster.controller import Controller, Registration
from goqueue.broker.cluster.heartbeats import Heartbeats
from goqueue.broker.cluster.presence import Presence
from goqueue.broker.replication.replicas import Replicas
from goqueue.cluster import (
    FEATURE_LEVEL,
    BrokerAddresses,
    BrokerFenced,
    BrokerRegistered,
    BrokerResigned,
    Liveness,
    LivenessTimes,
    MetadataChange,
    Voter,
)
from goqueue.model import (
    Answer,
    Code,
    Refused,
    RegisterBroker,
    RegistrationRefused,
    RequestId,
)
from goqueue.model.requests import Done
from tests.unit.broker.cluster.metadata_bench import Bench, BenchBroker


def propose(broker: BenchBroker, *changes: MetadataChange) -> None:
    broker.metadata.propose(changes, (), broker.now)
    broker.carry_out()


def presence(alone: BenchBroker) -> Presence:
    """A node that hears nobody, and leads nothing."""
    replicas = Replicas(alone.state, lambda _: None)
    liveness = Liveness(LivenessTimes())
    heartbeats = Heartbeats(alone.state.node_id, liveness, LivenessTimes())
    return Presence(alone.state, liveness, heartbeats, replicas)


def test_the_last_voter_is_never_forgotten_and_later_requests_are_answered() -> None:
    bench = Bench("a")
    alone = bench.elect("a", "")
    alone.carry_out()
    propose(alone, BrokerRegistered(broker="a", directory="a-disk", incarnation=1))
    epoch = alone.metadata.image.brokers["a"].epoch
    propose(alone, BrokerResigned(broker="a", epoch=epoch))
    controller = Controller(alone.state, alone.metadata, presence(alone))
    # It raises the feature level, and ends the joint change with which the cluster began.
    for _ in range(2):
        controller.decide(alone.now)
        alone.carry_out()

    controller.forget(RequestId(7), "a", alone.now)
    controller.leave(RequestId(8), "a", alone.now)
    alone.carry_out()

    first, second = alone.answers
    assert isinstance(first.reply, Refused)
    assert first.reply.code is Code.NODE_ALIVE
    assert second == Answer(request=RequestId(8), reply=Done())


def deciding(level: int = FEATURE_LEVEL) -> tuple[Bench, BenchBroker, Controller]:
    """A controller that has nothing left to decide; run 3 of broker x is registered."""
    bench = Bench("a")
    alone = bench.elect("a", "")
    alone.carry_out()
    registered = BrokerRegistered(broker="x", directory="x-disk", incarnation=3, level_max=level)
    propose(alone, registered)
    controller = Controller(alone.state, alone.metadata, presence(alone))
    for _ in range(2):
        controller.decide(alone.now)
        alone.carry_out()
    return bench, alone, controller


def wish(
    incarnation: int,
    version: int,
    *,
    directory: str = "x-disk",
    levels: tuple[int, int] = (1, FEATURE_LEVEL),
) -> Registration:
    asked = RegisterBroker(
        lineage="a-disk-1", version=version, level_min=levels[0], level_max=levels[1]
    )
    return Registration(
        voter=Voter("x", directory),
        incarnation=incarnation,
        addresses=BrokerAddresses(peers="x:7000"),
        asked=asked,
    )


@pytest.mark.parametrize(
    ("incarnation", "lag", "is_registered"),
    [(4, 0, True), (3, 0, False), (2, 0, False), (4, 1, False)],
)
def test_only_a_later_run_that_knows_the_registration_replaces_it(
    incarnation: int, lag: int, is_registered: bool
) -> None:
    """An earlier run's wish may come late; a wish from before must not end what was built since."""
    _, alone, controller = deciding()
    known = alone.metadata.image.brokers["x"]

    controller.register(wish(incarnation, known.epoch - lag))
    controller.decide(alone.now)
    alone.carry_out()

    after = alone.metadata.image.brokers["x"]
    assert (after.epoch > known.epoch) == is_registered
    assert after.registration.incarnation == (incarnation if is_registered else 3)


def test_a_run_that_was_fenced_is_registered_anew() -> None:
    _, alone, controller = deciding()
    known = alone.metadata.image.brokers["x"]
    propose(alone, BrokerFenced(broker="x", epoch=known.epoch))

    controller.register(wish(3, alone.metadata.image.version))
    controller.decide(alone.now)
    alone.carry_out()

    assert alone.metadata.image.brokers["x"].epoch > known.epoch


@pytest.mark.parametrize(
    ("unfit", "reason"),
    [
        (wish(9, 1 << 40, directory="x-blank"), "belongs to another data directory"),
        (wish(9, 1 << 40, levels=(FEATURE_LEVEL + 1, FEATURE_LEVEL + 1)), "feature level"),
    ],
    ids=["wiped disk", "newer release"],
)
def test_a_broker_that_may_not_be_registered_is_told_why(unfit: Registration, reason: str) -> None:
    bench, alone, controller = deciding()
    known = alone.metadata.image.brokers["x"]

    controller.register(unfit)
    controller.decide(alone.now)
    alone.carry_out()

    (told,) = [each for each in bench.sent("a", "x") if isinstance(each, RegistrationRefused)]
    assert reason in told.reason
    assert alone.metadata.image.brokers["x"] == known


def test_the_level_rises_in_the_record_that_registers_the_last_newer_broker() -> None:
    _, alone, controller = deciding(level=1)
    assert alone.metadata.image.feature_level == 1

    controller.register(wish(4, alone.metadata.image.version))
    controller.decide(alone.now)
    alone.carry_out()

    image = alone.metadata.image
    assert image.feature_level == FEATURE_LEVEL
    assert image.brokers["x"].epoch == image.version


def test_an_older_broker_is_refused_once_the_level_is_raised_and_told_what_to_do() -> None:
    bench, alone, controller = deciding()
    assert alone.metadata.image.feature_level == FEATURE_LEVEL

    controller.register(wish(9, 1 << 40, levels=(1, 1)))
    controller.decide(alone.now)
    alone.carry_out()

    (told,) = [each for each in bench.sent("a", "x") if isinstance(each, RegistrationRefused)]
    assert f"feature level {FEATURE_LEVEL}" in told.reason
    assert "install a newer version" in told.reason
