"""Heartbeats: what a member measures of the others by them."""

from goqueue.broker.cluster.heartbeats import Heard, Heartbeats
from goqueue.cluster import Liveness, LivenessTimes
from goqueue.model import (
    METADATA_REPLICA,
    MILLISECOND,
    SECOND,
    Heartbeat,
    Instant,
    Now,
    ReplicaAck,
    Timestamp,
)

_EPOCH = 1_700_000_000 * SECOND


def at(seconds: float, ahead_ns: int = 0) -> Now:
    """A moment by the clocks of a broker, whose wall clock may be ahead."""
    instant = int(seconds * SECOND)
    return Now(Instant(instant), Timestamp(_EPOCH + instant + ahead_ns))


class Member:
    """One broker that hears others."""

    def __init__(self) -> None:
        self.liveness = Liveness(LivenessTimes())
        self.heartbeats = Heartbeats("a", self.liveness, LivenessTimes())

    def hear(self, message: Heartbeat | ReplicaAck, now: Now) -> Heard:
        self.liveness.hear("b", now.instant)
        self.heartbeats.hear("b", message, now)
        heard = self.heartbeats.of("b")
        assert heard is not None
        return heard

    def missed_and_failures(self) -> tuple[int, int]:
        heard = self.heartbeats.of("b")
        assert heard is not None
        return heard.missed, heard.failures


def answer(asked: Instant) -> ReplicaAck:
    return ReplicaAck(log=METADATA_REPLICA, epoch=1, asked=asked)


def test_an_answer_is_timed_from_when_it_was_asked_for() -> None:
    member = Member()
    member.hear(Heartbeat(), at(1))

    heard = member.hear(answer(at(1.5).instant), at(1.53))

    assert (heard.answers.count, heard.answers.total) == (1, 30 * MILLISECOND)


def test_an_answer_to_an_earlier_run_is_not_timed() -> None:
    member = Member()
    member.hear(Heartbeat(), at(0))
    member.hear(answer(at(900).instant), at(1))
    member.hear(answer(at(1).instant), at(900))

    heard = member.hear(Heartbeat(), at(901))
    assert (heard.received, heard.answers.count) == (2, 0)


def test_a_heartbeat_compares_the_clocks() -> None:
    ahead = 7 * SECOND
    heard = Member().hear(Heartbeat(sent_at=at(1, ahead).wall), at(1.010))

    # The way that it took is not seen.
    assert heard.clock_offset_ns == ahead - 10 * MILLISECOND


def test_silence_is_counted_each_half_second_and_a_loss_once() -> None:
    member = Member()
    member.hear(Heartbeat(), at(0))
    for half in range(1, 10):
        member.heartbeats.count_silence(["a", "b"], at(half / 2).instant)

    assert member.missed_and_failures() == (8, 1)
    member.hear(Heartbeat(), at(5))
    member.heartbeats.count_silence(["a", "b"], at(9).instant)
    assert member.missed_and_failures() == (9, 2)


def test_a_broker_that_said_it_would_stop_is_not_found_lost() -> None:
    member = Member()
    member.hear(Heartbeat(is_leaving=True), at(0))
    member.liveness.refuse("b")
    member.heartbeats.count_silence(["a", "b"], at(0.5).instant)

    assert member.missed_and_failures() == (0, 0)


def test_a_broker_that_was_forgotten_is_not_measured_any_more() -> None:
    member = Member()
    member.hear(Heartbeat(), at(0))
    member.heartbeats.count_silence(["a"], at(1).instant)

    assert member.heartbeats.of("b") is None
    assert member.heartbeats.of("a") is None
