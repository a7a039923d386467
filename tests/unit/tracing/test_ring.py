"""What is kept: the newest spans, never more than there is room for, however they are bundled."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.requests import TraceStatus
from goqueue.tracing import SPANS_MAX, Kind, Note, Search, Tracer, spans_of
from tests.unit.tracing.notes import PLACE, note

MIB = 1024 * 1024


def kept(tracer: Tracer) -> list[int]:
    """The offsets of all spans that are kept, oldest first."""
    found, total = tracer.search(Search(), 1 << 30)
    assert total == len(found)
    return sorted(span.offset for trace in found for span in trace.spans)


@given(st.integers(1, 30), st.lists(st.integers(0, 40), max_size=30))
def test_the_newest_spans_are_kept_however_they_are_bundled(
    capacity: int, sizes: list[int]
) -> None:
    tracer = Tracer(capacity=capacity)
    end = 0
    for size in sizes:
        tracer.add(note(Kind.PUBLISH, *range(end, end + size)))
        end += size
        assert tracer.statistics().spans == min(end, capacity)
    assert kept(tracer) == list(range(max(0, end - capacity), end))
    one_by_one = Tracer(capacity=capacity)
    for offset in range(end):
        one_by_one.add(note(Kind.PUBLISH, offset))
    assert kept(one_by_one) == kept(tracer)


def test_ten_thousand_spans_are_kept() -> None:
    tracer = Tracer()
    assert SPANS_MAX == 10_000
    tracer.add(note(Kind.PUBLISH, *range(9_999)))
    tracer.add(note(Kind.PUBLISH, 9_999))
    assert len(kept(tracer)) == 10_000
    tracer.add(note(Kind.PUBLISH, 10_000))
    assert kept(tracer) == list(range(1, 10_001))


def test_what_is_gone_is_found_by_nobody() -> None:
    tracer = Tracer(capacity=2)
    tracer.add(note(Kind.PUBLISH, 0, 1, 2))
    traces = [span.trace for span in spans_of(note(Kind.PUBLISH, 0, 1, 2), range(3))]
    assert [tracer.find(trace) is not None for trace in traces] == [False, True, True]
    assert tracer.search(Search(offset=0), 10) == ([], 0)
    assert tracer.statistics().pending == 2


def test_memory_does_not_grow_with_what_has_passed() -> None:
    """Notes of one message each are the dearest way to fill the ring."""
    tracer = Tracer()

    def pass_by(count: int) -> None:
        for offset in range(count):
            tracer.add(Note(Kind.PUBLISH, PLACE, (offset,), offset, offset))

    pass_by(SPANS_MAX)
    tracemalloc.start()
    try:
        pass_by(SPANS_MAX)
        first, _ = tracemalloc.get_traced_memory()
        pass_by(3 * SPANS_MAX)
        last, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert last - first < MIB
    assert tracer.statistics().spans == SPANS_MAX


def test_notes_without_a_message_are_not_kept() -> None:
    tracer = Tracer()
    tracer.add(note(Kind.FETCH))
    assert tracer.search(Search(), 1) == ([], 0)
    assert tracer.statistics().spans == 0


def test_who_exports_gets_each_note_once_and_only_from_then_on() -> None:
    tracer = Tracer(capacity=1)
    first, second, third = (note(Kind.PUBLISH, offset) for offset in range(3))
    tracer.add(first)
    assert tracer.take() == []
    tracer.export()
    tracer.add(second)
    tracer.add(third)
    assert tracer.take() == [second, third]
    assert tracer.take() == []


def test_counts_are_those_of_what_is_kept() -> None:
    tracer = Tracer()
    tracer.add(note(Kind.PUBLISH, 0, 1, 2, at=100))
    tracer.add(note(Kind.ACK, 0, at=300, group="g", attempts=(1,)))
    tracer.add(note(Kind.REJECT, 1, at=400, group="g", attempts=(1,)))
    counted = tracer.statistics()
    assert (counted.completed, counted.errors, counted.pending) == (1, 1, 1)
    assert (counted.average_ns, counted.spans, counted.capacity) == (200, 5, SPANS_MAX)
    assert len(tracer.search(Search(status=TraceStatus.PENDING), 9)[0]) == 1
