"""The controller: what it answers to operators."""

from goqueue.broker.cluster.controller import Controller
from goqueue.cluster import (
    BrokerRegistered,
    BrokerResigned,
    Liveness,
    LivenessTimes,
    MetadataChange,
)
from goqueue.model import Answer, Code, Refused, RequestId
from goqueue.model.requests import Done
from tests.unit.broker.cluster.metadata_bench import Bench, BenchBroker


def propose(broker: BenchBroker, *changes: MetadataChange) -> None:
    broker.metadata.propose(changes, (), broker.now)
    broker.carry_out()


def test_the_last_voter_is_never_forgotten_and_later_requests_are_answered() -> None:
    bench = Bench("a")
    alone = bench.elect("a", "")
    alone.carry_out()
    propose(alone, BrokerRegistered(broker="a", directory="a-disk", incarnation=1))
    epoch = alone.metadata.image.brokers["a"].epoch
    propose(alone, BrokerResigned(broker="a", epoch=epoch))
    controller = Controller(alone.state, alone.metadata, Liveness(LivenessTimes()))
    # It ends the joint change with which the cluster began.
    controller.decide(alone.now)
    alone.carry_out()

    controller.forget(RequestId(7), "a", alone.now)
    controller.leave(RequestId(8), "a", alone.now)
    alone.carry_out()

    first, second = alone.answers
    assert isinstance(first.reply, Refused)
    assert first.reply.code is Code.NODE_ALIVE
    assert second == Answer(request=RequestId(8), reply=Done())
