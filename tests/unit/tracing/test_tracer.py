"""What a tracer keeps, the newest spans in bounded space, and every criterion of a search."""

import tracemalloc
from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.requests import TraceStatus
from goqueue.records import key_fingerprint
from goqueue.tracing import (
    NO_OFFSET,
    SPANS_MAX,
    UNWRITTEN,
    Kind,
    Search,
    TraceEntry,
    Tracer,
    place_of,
    spans_of,
)
from tests.unit.tracing.entries import GIVEN, PLACE, entry

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
        tracer.add(entry(Kind.PUBLISH, *range(end, end + size)))
        end += size
        assert tracer.statistics().spans == min(end, capacity)
    assert kept(tracer) == list(range(max(0, end - capacity), end))
    one_by_one = Tracer(capacity=capacity)
    for offset in range(end):
        one_by_one.add(entry(Kind.PUBLISH, offset))
    assert kept(one_by_one) == kept(tracer)


def test_ten_thousand_spans_are_kept() -> None:
    tracer = Tracer()
    assert SPANS_MAX == 10_000
    tracer.add(entry(Kind.PUBLISH, *range(9_999)))
    tracer.add(entry(Kind.PUBLISH, 9_999))
    assert len(kept(tracer)) == 10_000
    tracer.add(entry(Kind.PUBLISH, 10_000))
    assert kept(tracer) == list(range(1, 10_001))


def test_what_is_gone_is_found_by_nobody() -> None:
    tracer = Tracer(capacity=2)
    tracer.add(entry(Kind.PUBLISH, 0, 1, 2))
    traces = [span.trace for span in spans_of(entry(Kind.PUBLISH, 0, 1, 2), range(3))]
    assert [tracer.find(trace) is not None for trace in traces] == [False, True, True]
    assert tracer.search(Search(offset=0), 10) == ([], 0)
    assert tracer.statistics().pending == 2


def test_memory_does_not_grow_with_what_has_passed() -> None:
    """Entries of one message each are the dearest way to fill the ring."""
    tracer = Tracer()

    def pass_by(count: int) -> None:
        for offset in range(count):
            tracer.add(TraceEntry(Kind.PUBLISH, PLACE, (offset,), offset, offset))

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
    tracer.add(entry(Kind.FETCH))
    assert tracer.search(Search(), 1) == ([], 0)
    assert tracer.statistics().spans == 0


def test_who_exports_gets_each_note_once_and_only_from_then_on() -> None:
    tracer = Tracer(capacity=1)
    first, second, third = (entry(Kind.PUBLISH, offset) for offset in range(3))
    tracer.add(first)
    assert tracer.take() == []
    tracer.export()
    tracer.add(second)
    tracer.add(third)
    assert tracer.take() == [second, third]
    assert tracer.take() == []


def test_counts_are_those_of_what_is_kept() -> None:
    tracer = Tracer()
    tracer.add(entry(Kind.PUBLISH, 0, 1, 2, at=100))
    tracer.add(entry(Kind.ACK, 0, at=300, group="g", attempts=(1,)))
    tracer.add(entry(Kind.REJECT, 1, at=400, group="g", attempts=(1,)))
    counted = tracer.statistics()
    assert (counted.completed, counted.errors, counted.pending) == (1, 1, 1)
    assert (counted.average_ns, counted.spans, counted.capacity) == (200, 5, SPANS_MAX)
    assert len(tracer.search(Search(status=TraceStatus.PENDING), 9)[0]) == 1


OTHER = place_of("orders", 1, "1")

CLICKS = place_of("clicks", 0, "1")

KEYS = array("Q", (key_fingerprint(b"a"), 0, key_fingerprint(b"b")))


@pytest.fixture
def tracer() -> Tracer:
    """Three messages, one elsewhere, one in another topic; one acked, one dead."""
    tracer = Tracer()
    tracer.add(msgspec.structs.replace(entry(Kind.PUBLISH, 0, 1, 2, at=10), keys=KEYS))
    tracer.add(entry(Kind.PUBLISH, 0, at=20, place=OTHER))
    tracer.add(entry(Kind.PUBLISH, 0, at=30, place=CLICKS))
    tracer.add(entry(Kind.FETCH, 0, 1, at=40, group="g", attempts=(1, 1)))
    tracer.add(entry(Kind.ACK, 0, at=50, group="g", attempts=(1,)))
    tracer.add(entry(Kind.REJECT, 1, at=60, group="g", attempts=(1,)))
    tracer.add(entry(Kind.FETCH, 0, at=70, place=OTHER, group="h", attempts=(1,)))
    return tracer


def found(tracer: Tracer, search: Search) -> list[tuple[str, int, int]]:
    """Where the first span of each trace is, newest first."""
    traces, total = tracer.search(search, 100)
    assert total == len(traces)
    return [(each.first.topic, each.first.partition, each.first.offset) for each in traces]


FIRST, SECOND, THIRD = ("orders", 0, 0), ("orders", 0, 1), ("orders", 0, 2)

ELSEWHERE, CLICK = ("orders", 1, 0), ("clicks", 0, 0)


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (Search(), [CLICK, ELSEWHERE, THIRD, SECOND, FIRST]),
        (Search(topic="orders"), [ELSEWHERE, THIRD, SECOND, FIRST]),
        (Search(topic="clicks"), [CLICK]),
        (Search(topic="nowhere"), []),
        (Search(partition=1), [ELSEWHERE]),
        (Search(offset=0), [CLICK, ELSEWHERE, FIRST]),
        (Search(topic="orders", partition=0, offset=2), [THIRD]),
        (Search(key=key_fingerprint(b"a")), [FIRST]),
        (Search(key=key_fingerprint(b"b")), [THIRD]),
        (Search(key=key_fingerprint(b"c")), []),
        (Search(group="g"), [SECOND, FIRST]),
        (Search(group="h"), [ELSEWHERE]),
        (Search(member="g-1"), [SECOND, FIRST]),
        (Search(member="g-2"), []),
        (Search(status=TraceStatus.COMPLETED), [FIRST]),
        (Search(status=TraceStatus.ERROR), [SECOND]),
        (Search(status=TraceStatus.PENDING), [CLICK, ELSEWHERE, THIRD]),
        (Search(start=30), [CLICK, ELSEWHERE, SECOND, FIRST]),
        (Search(start=60), [ELSEWHERE, SECOND]),
        (Search(start=71), []),
        (Search(end=10), [THIRD, SECOND, FIRST]),
        (Search(end=9), []),
        (Search(start=20, end=30), [CLICK, ELSEWHERE]),
        (Search(group="g", status=TraceStatus.ERROR), [SECOND]),
        # Of one event: the group is that of a delivery, the key that of the publication.
        (Search(group="g", start=60), [SECOND]),
        (Search(group="g", key=key_fingerprint(b"a")), []),
    ],
)
def test_each_criterion(
    tracer: Tracer, search: Search, expected: list[tuple[str, int, int]]
) -> None:
    assert found(tracer, search) == expected


def test_a_limit_leaves_out_the_oldest_and_counts_them(tracer: Tracer) -> None:
    traces, total = tracer.search(Search(), 2)
    assert [each.first.topic for each in traces] == ["clicks", "orders"]
    assert total == 5


def test_a_trace_is_found_whole_by_its_id_and_by_a_search(tracer: Tracer) -> None:
    (trace,), _ = tracer.search(Search(status=TraceStatus.ERROR), 1)
    assert tracer.find(trace.first.trace) == trace
    assert [span.kind for span in trace.spans] == [Kind.PUBLISH, Kind.FETCH, Kind.REJECT]
    assert tracer.find(bytes(15) + b"\x01") is None


def test_what_was_never_written_has_no_offset() -> None:
    tracer = Tracer()
    tracer.add(entry(Kind.REFUSE, UNWRITTEN + 3, place=place_of("orders", -1, "1")))
    (trace,), _ = tracer.search(Search(status=TraceStatus.ERROR), 1)
    assert trace.first.offset == NO_OFFSET
    assert tracer.search(Search(offset=3), 1)[1] == 0


def test_a_rebalance_is_at_no_offset() -> None:
    tracer = Tracer()
    tracer.add(entry(Kind.REBALANCE, 3, place=place_of("orders", -1, "group 1"), group="g"))
    (trace,), _ = tracer.search(Search(topic="orders", group="g"), 1)
    assert trace.first.offset == NO_OFFSET
    assert tracer.search(Search(offset=3), 1)[1] == 0


def test_an_id_that_lies_across_two_contexts_is_none_of_them() -> None:
    tracer = Tracer()
    tracer.add(entry(Kind.PUBLISH, *range(50)))
    contexts = entry(Kind.PUBLISH, *range(50)).contexts()
    assert tracer.find(contexts[8:24]) is None
    assert tracer.find(contexts[24:40]) is not None


# Sampling


def test_a_share_of_messages_is_kept_and_the_same_share_for_all_that_happens() -> None:
    tracer = Tracer(0.3)
    for kind in (Kind.PUBLISH, Kind.FETCH, Kind.ACK):
        group = "" if kind is Kind.PUBLISH else "g"
        tracer.add(entry(kind, *range(1000), group=group, attempts=[1] * 1000 if group else ()))
    traces, total = tracer.search(Search(), 1000)
    assert 230 < total < 370
    assert {len(each.spans) for each in traces} == {3}
    assert all(each.status is TraceStatus.COMPLETED for each in traces)


@given(st.floats(0, 1))
def test_following_is_decided_by_the_id_alone(sampling: float) -> None:
    tracer = Tracer(sampling)
    each = entry(Kind.PUBLISH, *range(20))
    tracer.add(each)
    followed = [span.offset for span in spans_of(each, range(20)) if tracer.follows(span.trace)]
    traces, _ = tracer.search(Search(), 100)
    assert sorted(trace.first.offset for trace in traces) == followed
    assert tracer.is_on is (sampling > 0) or sampling < 1e-18


def test_all_and_nothing_are_exact() -> None:
    everything, nothing = Tracer(1.0), Tracer(0.0)
    for tracer in (everything, nothing):
        tracer.add(entry(Kind.PUBLISH, *range(1000)))
    assert everything.statistics().spans == 1000
    assert (nothing.statistics().spans, nothing.is_on) == (0, False)


def test_whoever_decided_against_a_trace_is_obeyed_and_others_of_the_batch_are_kept() -> None:
    against = GIVEN[:-1] + b"\x02"
    tracer = Tracer()
    tracer.add(entry(Kind.PUBLISH, 5, 6, 7, given={0: against, 2: (3).to_bytes(8)}))
    traces, total = tracer.search(Search(), 10)
    assert total == 2
    assert sorted(each.first.offset for each in traces) == [6, 7]
    assert tracer.find(GIVEN[:16]) is None
    delayed = next(each for each in traces if each.first.offset == 7)
    (origin,) = spans_of(entry(Kind.PUBLISH, 3, place=PLACE), (0,))
    assert delayed.first.trace == origin.trace
    assert delayed.first.parent == origin.span_id
