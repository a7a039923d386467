"""Producer ids in a cluster, on brokers that do not all know the same of the metadata."""

import pytest

from goqueue.broker.cluster.cluster_producers import ClusterProducers
from goqueue.broker.state import NodeState
from goqueue.broker.turns import TurnBudget
from goqueue.cluster import ProducerIdsAllocated
from goqueue.model import (
    SECOND,
    Answer,
    Code,
    Instant,
    Now,
    PartitionMessage,
    Refused,
    RequestId,
    Timestamp,
)
from goqueue.model.requests import Done, HeartbeatProducer, ProducerStamp, Reply
from goqueue.tracing import Tracer

START = Now(Instant(0), Timestamp(1))
REQUEST = RequestId(7)


def later(seconds: float) -> Now:
    return Now(Instant(int(seconds * SECOND)), Timestamp(1))


class Bench:
    """The producers of one broker, whose image the test changes."""

    def __init__(self) -> None:
        self._state = NodeState("a", Tracer(1.0), TurnBudget())
        self.asked: list[PartitionMessage] = []
        self.producers = ClusterProducers(self._state, self.asked.append)
        self.producers.registered(5, 1)

    def allocate(self, first: int, broker: str = "b") -> None:
        """The image shows that a block was given to a broker."""
        self.producers.allocated(
            ProducerIdsAllocated(broker=broker, epoch=5, first=first, count=1000)
        )

    def answers(self) -> list[Reply | Refused]:
        return [each.reply for each in self._state.outbox.drain() if isinstance(each, Answer)]

    def heartbeat(self, producer_id: int, request: RequestId = REQUEST) -> None:
        self.producers.heartbeat(
            request, HeartbeatProducer(producer_id=producer_id, epoch=0), START
        )


def test_a_heartbeat_with_an_id_that_another_broker_gave_out_waits_for_the_metadata() -> None:
    bench = Bench()
    bench.heartbeat(3)
    assert bench.answers() == []

    bench.allocate(1)

    assert bench.answers() == [Done()]
    assert bench.producers.next_deadline() is None


def test_a_heartbeat_with_an_id_that_nobody_gave_out_is_refused_after_two_seconds() -> None:
    bench = Bench()
    bench.heartbeat(5000)
    bench.allocate(1)
    bench.producers.wake(later(1.9))
    assert bench.answers() == []

    bench.producers.wake(later(2))

    (refused,) = bench.answers()
    assert isinstance(refused, Refused)
    assert refused.code is Code.PRODUCER_NOT_FOUND


def test_more_heartbeats_than_may_wait_are_refused_at_once() -> None:
    bench = Bench()
    for number in range(1000):
        bench.heartbeat(3, RequestId(number + 1))
    with pytest.raises(Refused) as refused:
        bench.heartbeat(3)
    assert refused.value.code is Code.BROKER_UNAVAILABLE


@pytest.mark.parametrize("producer_id", [0, -1, 1001])
def test_a_batch_of_an_id_that_the_metadata_lack_is_refused_as_not_found(producer_id: int) -> None:
    bench = Bench()
    bench.allocate(1)
    with pytest.raises(Refused) as refused:
        bench.producers.admit(ProducerStamp(producer_id=producer_id, epoch=0, sequence=0))
    assert refused.value.code is Code.PRODUCER_NOT_FOUND
