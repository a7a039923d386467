"""What became of a message: pending until every group that read it is done with it."""

from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.requests import TraceStatus
from goqueue.records import DelayedRecords
from goqueue.tracing import Kind, Search, Tracer, place_of
from tests.unit.tracing.entries import GIVEN, PLACE, entry

PENDING, COMPLETED, ERROR = TraceStatus.PENDING, TraceStatus.COMPLETED, TraceStatus.ERROR

P, F, A, N, R, E, X = (
    Kind.PUBLISH,
    Kind.FETCH,
    Kind.ACK,
    Kind.NACK,
    Kind.REJECT,
    Kind.EXTEND,
    Kind.EXPIRE,
)

L, D = Kind.DEAD_LETTER, Kind.REDRIVE

LETTERS = place_of("orders.dlq", 0, "1")

Happened = list[tuple[Kind, str]]


def status(happened: Happened) -> TraceStatus:
    """Of one message to which this happened, one thing each moment."""
    tracer = Tracer()
    for moment, (kind, group) in enumerate(happened):
        tracer.add(entry(kind, 0, at=moment, group=group, attempts=(1,) if group else ()))
    (trace,), _ = tracer.search(Search(), 1)
    (counted,) = [each for each in TraceStatus if tracer.search(Search(status=each), 1)[1]]
    assert counted is trace.status
    return trace.status


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        ([(P, "")], PENDING),
        ([(P, ""), (Kind.FIRE, "")], PENDING),
        ([(P, ""), (F, "g")], PENDING),
        ([(P, ""), (F, "g"), (E, "g")], PENDING),
        ([(P, ""), (F, "g"), (A, "g")], COMPLETED),
        ([(P, ""), (F, "g"), (N, "g")], PENDING),
        ([(P, ""), (F, "g"), (X, "g"), (F, "g"), (A, "g")], COMPLETED),
        ([(P, ""), (F, "g"), (R, "g")], ERROR),
        ([(P, ""), (F, "g"), (R, "g"), (L, "g")], ERROR),
        ([(P, ""), (F, "g"), (X, "g"), (L, "g")], ERROR),
        ([(P, ""), (F, "g"), (A, "g"), (F, "h")], PENDING),
        ([(P, ""), (F, "g"), (A, "g"), (F, "h"), (A, "h")], COMPLETED),
        ([(P, ""), (F, "g"), (A, "g"), (F, "h"), (R, "h")], ERROR),
        ([(P, ""), (F, "g"), (R, "g"), (F, "h"), (A, "h")], ERROR),
        ([(P, ""), (F, "g"), (R, "g"), (L, "g"), (D, "")], PENDING),
        ([(P, ""), (F, "g"), (R, "g"), (L, "g"), (D, ""), (F, "g")], PENDING),
        ([(P, ""), (F, "g"), (R, "g"), (L, "g"), (D, ""), (F, "g"), (A, "g")], COMPLETED),
        ([(P, ""), (F, "g"), (R, "g"), (L, "g"), (D, ""), (F, "g"), (R, "g")], ERROR),
        ([(P, ""), (Kind.CANCEL, "")], COMPLETED),
        ([(Kind.REFUSE, "")], ERROR),
        ([(Kind.REBALANCE, "g")], COMPLETED),
        # The beginning is not kept any more.
        ([(A, "g")], COMPLETED),
        ([(L, "g")], ERROR),
        ([(D, "")], PENDING),
    ],
)
def test_a_trace_has_its_end(happened: Happened, expected: TraceStatus) -> None:
    assert status(happened) is expected


def test_a_group_that_is_done_stays_done_when_another_has_its_dead_letter_redriven() -> None:
    done: Happened = [(P, ""), (F, "g"), (A, "g"), (F, "h"), (R, "h"), (L, "h"), (D, "")]
    assert status(done) is PENDING
    # A group that is done with the first copy gets the second one as well.
    assert status([*done, (F, "h"), (A, "h")]) is COMPLETED


@given(st.lists(st.tuples(st.sampled_from((F, N, X, E)), st.sampled_from("gh")), max_size=8))
def test_nothing_but_settling_ends_a_trace(happened: Happened) -> None:
    assert status([(P, ""), *happened]) is PENDING


@given(
    st.lists(st.tuples(st.sampled_from((F, N, X, E, A)), st.sampled_from("ghi")), max_size=12),
)
def test_completed_means_that_the_last_word_of_every_group_was_an_ack(happened: Happened) -> None:
    last = {group: kind for kind, group in happened}
    is_done = bool(last) and set(last.values()) == {A}
    assert (status([(P, ""), *happened]) is COMPLETED) is is_done


# Many messages in one trace, as a producer that sends them in one span has them


def together(*happened: tuple[Kind, int, str], delayed: int | None = None) -> TraceStatus:
    """Of messages by their offsets that carry one context."""
    tracer = Tracer()
    for moment, (kind, offset, group) in enumerate(happened):
        place = LETTERS if kind is L else PLACE
        each = entry(kind, offset, at=moment, place=place, group=group, given={0: GIVEN})
        if kind is P and offset == delayed:
            waiting = DelayedRecords(array("q", [offset]), array("q", [99]), array("b", [2]))
            each = msgspec.structs.replace(each, waiting=waiting)
        tracer.add(each)
    trace = tracer.find(GIVEN[:16])
    assert trace is not None
    return trace.status


def test_a_trace_is_completed_when_all_of_its_messages_are() -> None:
    both = ((P, 0, ""), (P, 1, ""))
    assert together(*both, (F, 0, "g"), (A, 0, "g")) is PENDING
    assert together(*both, (F, 0, "g"), (F, 1, "g"), (A, 0, "g")) is PENDING
    assert together(*both, (F, 0, "g"), (F, 1, "g"), (A, 0, "g"), (A, 1, "g")) is COMPLETED


def test_one_that_died_is_not_hidden_by_one_that_was_acked() -> None:
    story = ((P, 0, ""), (P, 1, ""), (F, 0, "g"), (F, 1, "g"), (R, 0, "g"), (L, 0, "g"))
    assert together(*story, (A, 1, "g")) is ERROR
    assert together(*story, (A, 1, "g"), (D, 2, "")) is PENDING
    assert together(*story, (A, 1, "g"), (D, 2, ""), (F, 2, "g"), (A, 2, "g")) is COMPLETED


def test_one_that_failed_too_often_is_no_longer_held() -> None:
    story = ((P, 0, ""), (F, 0, "g"), (X, 0, "g"), (L, 0, "g"), (D, 1, ""))
    assert together(*story, (F, 1, "g"), (A, 1, "g")) is COMPLETED


def test_a_delayed_one_is_waited_for_until_it_is_read_or_cancelled() -> None:
    story = ((P, 0, ""), (P, 1, ""), (F, 1, "g"), (A, 1, "g"))
    assert together(*story, delayed=0) is PENDING
    assert together(*story, (Kind.CANCEL, 0, ""), delayed=0) is COMPLETED
    fired = (*story, (Kind.FIRE, 2, ""))
    assert together(*fired, delayed=0) is PENDING
    assert together(*fired, (F, 2, "g"), (A, 2, "g"), delayed=0) is COMPLETED


def test_a_publication_that_is_noted_after_it_was_read_is_not_waited_for() -> None:
    tracer = Tracer()
    tracer.add(entry(F, 0, at=5, group="g", attempts=(1,)))
    tracer.add(entry(A, 0, at=6, group="g", attempts=(1,)))
    tracer.add(entry(P, 0, at=5))
    (trace,), _ = tracer.search(Search(), 1)
    assert trace.status is COMPLETED
