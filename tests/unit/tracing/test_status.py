"""What became of a message: pending until every group that read it is done with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.requests import TraceStatus
from goqueue.tracing import Kind, Search, Tracer
from tests.unit.tracing.notes import note

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
L, D = Kind.LETTER, Kind.REDRIVE

Happened = list[tuple[Kind, str]]


def status(happened: Happened) -> TraceStatus:
    """Of one message to which this happened, one thing each moment."""
    tracer = Tracer()
    for moment, (kind, group) in enumerate(happened):
        tracer.add(note(kind, 0, at=moment, group=group, attempts=(1,) if group else ()))
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
def test_a_story_has_its_end(happened: Happened, expected: TraceStatus) -> None:
    assert status(happened) is expected


def test_a_group_that_is_done_stays_done_when_another_has_its_letter_redriven() -> None:
    done: Happened = [(P, ""), (F, "g"), (A, "g"), (F, "h"), (R, "h"), (L, "h"), (D, "")]
    assert status(done) is PENDING
    # Whoever is done with the first copy gets the second one as well.
    assert status([*done, (F, "h"), (A, "h")]) is COMPLETED


@given(st.lists(st.tuples(st.sampled_from((F, N, X, E)), st.sampled_from("gh")), max_size=8))
def test_nothing_but_settling_ends_a_story(happened: Happened) -> None:
    assert status([(P, ""), *happened]) is PENDING


@given(
    st.lists(st.tuples(st.sampled_from((F, N, X, E, A)), st.sampled_from("ghi")), max_size=12),
)
def test_completed_means_that_the_last_word_of_every_group_was_an_ack(happened: Happened) -> None:
    last = {group: kind for kind, group in happened}
    is_done = bool(last) and set(last.values()) == {A}
    assert (status([(P, ""), *happened]) is COMPLETED) is is_done
