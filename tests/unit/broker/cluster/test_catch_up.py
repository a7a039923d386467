"""Who is read for next: members of the ISR first, others no faster than allowed."""

import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.cluster.catch_up import CatchUp
from goqueue.broker.disk_reads import ReplicaFetch
from goqueue.broker.state import NodeState
from goqueue.cluster import Voter
from goqueue.model import (
    SECOND,
    Fetch,
    Instant,
    LogId,
    Offset,
    ReplicaKind,
    ReplicaLog,
    Slice,
)
from goqueue.tracing import Tracer

MEGABYTE = 1 << 20


class Desk:
    """The queue, and what it asked the shell for."""

    def __init__(self, rate: int | None = None) -> None:
        self.state = NodeState("a", Tracer(0.0), TurnBudget())
        self.catch_up = CatchUp(self.state, rate)

    def ask(self, number: int, broker: str = "b", *, in_sync: bool = False, now: int = 0) -> None:
        wanted = Slice(
            log=LogId("orders", number),
            segment=Offset(0),
            offset=Offset(0),
            below=Offset(9),
            bytes_max=MEGABYTE,
        )
        self.catch_up.request(wanted, purpose(number, broker), Instant(now), in_sync=in_sync)

    def done(self, number: int, broker: str = "b", *, size: int = MEGABYTE, now: int = 0) -> None:
        self.catch_up.done(purpose(number, broker), size, Instant(now))

    def confirm(self, number: int, broker: str = "b") -> None:
        asked = purpose(number, broker)
        self.catch_up.confirmed(asked.log, asked.follower, Instant(0))

    @property
    def reading(self) -> list[int]:
        """The partitions that are read since the last look."""
        fetches = [each for each in self.state.outbox.drain() if isinstance(each, Fetch)]
        assert all(each.in_background for each in fetches)
        return [each.wanted.log.partition for each in fetches]


def purpose(number: int, broker: str = "b") -> ReplicaFetch:
    log = ReplicaLog(ReplicaKind.DATA, 1, number)
    return ReplicaFetch(log, Voter(broker, f"{broker}-disk"), 5, 1)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_one_read_is_under_way_and_the_others_follow_in_order(desk: Desk) -> None:
    for number in range(3):
        desk.ask(number)
    assert desk.reading == [0]
    desk.done(0)
    assert desk.reading == [1]
    desk.done(1)
    assert desk.reading == [2]


def test_a_member_of_the_isr_is_read_for_before_those_that_wait_longer(desk: Desk) -> None:
    desk.ask(0)
    desk.ask(1)
    desk.ask(2, "c", in_sync=True)
    desk.done(0)
    assert desk.reading == [0, 2]


def test_a_broker_that_confirms_nothing_gets_four_reads_and_others_go_on(desk: Desk) -> None:
    for number in range(5):
        desk.ask(number)
    desk.ask(9, "c")
    for number in range(4):
        desk.done(number)
    assert desk.reading == [0, 1, 2, 3, 9]
    desk.done(9, "c")
    assert desk.reading == []
    desk.confirm(2)
    assert desk.reading == [4]


def test_a_limit_delays_the_next_read_by_what_the_last_one_took_of_it() -> None:
    desk = Desk(rate=MEGABYTE)
    desk.ask(0)
    desk.ask(1)
    assert desk.catch_up.next_deadline() is None
    desk.done(0, now=7)
    assert desk.reading == [0]
    # Counted from when the read began.
    assert desk.catch_up.next_deadline() == SECOND
    desk.catch_up.wake(Instant(SECOND - 1))
    assert desk.reading == []
    desk.catch_up.wake(Instant(SECOND))
    assert desk.reading == [1]
    assert desk.catch_up.next_deadline() is None


def test_a_limit_holds_no_member_of_the_isr_back() -> None:
    desk = Desk(rate=MEGABYTE)
    desk.ask(0)
    desk.done(0)
    desk.ask(1, in_sync=True)
    assert desk.reading == [0, 1]


def test_a_read_that_nobody_wants_any_more_leaves_the_queue(desk: Desk) -> None:
    for number in range(3):
        desk.ask(number)
    gone = purpose(1)
    desk.catch_up.cancel(gone.log, gone.follower)
    desk.done(0)
    assert desk.reading == [0, 2]


def test_a_read_that_was_cancelled_while_it_lasted_frees_the_thread_for_the_next(
    desk: Desk,
) -> None:
    desk.ask(0)
    desk.ask(1)
    under_way = purpose(0)
    desk.catch_up.cancel(under_way.log, under_way.follower)
    desk.done(0)
    assert desk.reading == [0, 1]


def test_a_read_that_failed_counts_for_nobody(desk: Desk) -> None:
    for number in range(6):
        desk.ask(number)
        desk.done(number, size=0)
    assert desk.reading == [0, 1, 2, 3, 4, 5]
