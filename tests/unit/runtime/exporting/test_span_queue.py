"""The queue in front of an exporter: bounded in spans, oldest first."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.runtime.exporters.exporter import SpanQueue
from tests.unit.runtime.exporting.made_notes import note


def test_spans_beyond_the_capacity_are_not_taken_and_are_counted() -> None:
    queue = SpanQueue(10)
    assert queue.put(note(7)) == 0
    assert queue.put(note(7)) == 4
    assert queue.put(note(1)) == 1
    assert len(queue) == 10


def test_of_a_note_larger_than_the_queue_the_first_messages_are_kept() -> None:
    queue = SpanQueue(5)
    large = note(1_000)
    assert queue.put(large) == 995
    assert queue.take(100) == [(large, range(5))]


def test_a_note_may_be_taken_in_parts() -> None:
    queue = SpanQueue(100)
    first, second = note(5), note(3)
    queue.put(first)
    queue.put(second)
    assert queue.take(2) == [(first, range(2))]
    assert queue.take(4) == [(first, range(2, 5)), (second, range(1))]
    assert queue.take(4) == [(second, range(1, 3))]
    assert queue.take(4) == []
    assert len(queue) == 0


@given(
    st.integers(1, 50),
    st.lists(st.one_of(st.integers(1, 30), st.integers(-30, -1)), max_size=60),
)
def test_whatever_is_put_and_taken_nothing_is_lost_twice_or_beyond_the_bound(
    capacity: int, steps: list[int]
) -> None:
    queue = SpanQueue(capacity)
    put: list[int] = []
    taken: list[int] = []
    first = 0
    for step in steps:
        if step > 0:
            dropped = queue.put(note(step, first=first))
            put += range(first, first + step - dropped)
            first += step
        else:
            parts = queue.take(-step)
            assert sum(len(indexes) for _, indexes in parts) <= -step
            taken += [made.offsets[index] for made, indexes in parts for index in indexes]
        assert len(queue) == len(put) - len(taken) <= capacity
    assert taken == put[: len(taken)]
