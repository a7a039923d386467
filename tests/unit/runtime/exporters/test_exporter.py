"""An exporter: its thread, its bounded queue, its counts, and that it holds up no caller."""

import logging
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.runtime.exporters.exporter import Complaints, Exporter, NotShipped, SpanQueue
from goqueue.tracing import Span
from tests.unit.runtime.exporters.trace_entries import entry

PATIENCE_S = 10.0


class Slow:
    """A place that takes spans only while its door is open, and may fail."""

    name = "slow"
    batch_spans = 4

    def __init__(self) -> None:
        self.door = threading.Event()
        self.reached = threading.Event()
        self.shipped: list[int] = []
        self.failures: list[Exception] = []
        self.is_closed = False
        self.tidied = 0

    def encode(self, span: Span) -> int:
        return span.offset

    def ship(self, encoded: Sequence[int]) -> None:
        self.reached.set()
        self.door.wait(PATIENCE_S)
        if self.failures:
            raise self.failures.pop(0)
        self.shipped += encoded

    def tidy(self) -> bool:
        self.tidied += 1
        if self.tidied == 1:
            raise NotShipped("cannot be tidied")
        return False

    def abort(self) -> None:
        self.door.set()

    def close(self) -> None:
        self.is_closed = True


def test_what_waits_is_shipped_in_order_before_the_end() -> None:
    sink = Slow()
    sink.door.set()
    exporter = Exporter(sink, 1000)
    exporter.start()
    exporter.put([entry(10), entry(3, first=10)])
    exporter.close()
    assert sink.shipped == list(range(13))
    assert (exporter.exported, exporter.dropped, exporter.waiting) == (13, 0, 0)
    assert sink.is_closed


def test_a_place_that_takes_nothing_costs_spans_and_never_time() -> None:
    sink = Slow()
    exporter = Exporter(sink, 1000)
    exporter.start()
    exporter.put([entry(600)])
    assert sink.reached.wait(PATIENCE_S)
    for first in range(600, 5600, 100):
        exporter.put([entry(100, first=first)])
    # Four are on their way, a thousand wait.
    assert exporter.waiting == 1000
    assert exporter.dropped == 5600 - 1004
    sink.door.set()
    exporter.close()
    assert exporter.exported == 1004
    assert sink.shipped == list(range(1004))


def test_what_cannot_be_shipped_is_counted_and_later_spans_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Slow()
    sink.failures = [NotShipped("no", cause="a"), NotShipped("again", cause="a"), KeyError("bug")]
    sink.door.set()
    exporter = Exporter(sink, 1000)
    exporter.start()
    with caplog.at_level(logging.WARNING):
        exporter.put([entry(16)])
        exporter.close()
    assert (exporter.exported, exporter.dropped) == (4, 12)
    assert sink.shipped == [12, 13, 14, 15]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "slow: spans are dropped: no",
        "slow: cannot be tidied",
        "slow: spans are dropped because of a bug: KeyError('bug')",
    ]


def test_an_end_does_not_wait_for_a_place_that_never_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.runtime.exporters.exporter._FLUSH_S", 0.05)
    sink = Slow()
    sink.failures = [NotShipped("given up")]
    exporter = Exporter(sink, 1000)
    exporter.start()
    exporter.put([entry(600)])
    assert sink.reached.wait(PATIENCE_S)
    exporter.close()
    assert (exporter.exported, exporter.dropped) == (0, 600)


def test_a_cause_is_told_once_a_minute_and_says_how_often_it_was_not() -> None:
    said: list[str] = []
    times = iter(range(0, 150_000_000_000, 10_000_000_000))
    complaints = Complaints(said.append, lambda: next(times))
    for _ in range(14):
        complaints.add("full", "the disk is full")
    complaints.add("gone", "the file is gone")
    again = "the disk is full (and 5 times more since it was last told)"
    assert said == ["the disk is full", again, again, "the file is gone"]


def test_spans_beyond_the_capacity_are_not_taken_and_are_counted() -> None:
    queue = SpanQueue(10)
    assert queue.put(entry(7)) == 0
    assert queue.put(entry(7)) == 4
    assert queue.put(entry(1)) == 1
    assert len(queue) == 10


def test_of_a_note_larger_than_the_queue_the_first_messages_are_kept() -> None:
    queue = SpanQueue(5)
    large = entry(1_000)
    assert queue.put(large) == 995
    assert queue.take(100) == [(large, range(5))]


def test_a_note_may_be_taken_in_parts() -> None:
    queue = SpanQueue(100)
    first, second = entry(5), entry(3)
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
            dropped = queue.put(entry(step, first=first))
            put += range(first, first + step - dropped)
            first += step
        else:
            parts = queue.take(-step)
            assert sum(len(indexes) for _, indexes in parts) <= -step
            taken += [made.offsets[index] for made, indexes in parts for index in indexes]
        assert len(queue) == len(put) - len(taken) <= capacity
    assert taken == put[: len(taken)]
