"""The arithmetic of measuring: percentiles, the pace, messages that come back."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.bench_load import SECOND_NS, Echoes, Latencies, Measurement, Pace, Plan

PLAN = Plan(topic="t", size=40, rate=None, batch=10, concurrency=1, duration_s=1.0)


@given(st.lists(st.integers(0, 10**12), min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_within_two_per_cent(durations: list[int], share: float) -> None:
    latencies = Latencies()
    for duration in durations:
        latencies.add(duration)
    position = min(-int(-share * len(durations) // 1), len(durations)) - 1
    exact = sorted(durations)[max(position, 0)]
    assert exact * 0.98 <= latencies.percentile(share) <= exact
    assert latencies.longest_ns == max(durations)


def test_without_measurements_every_percentile_is_zero() -> None:
    assert Latencies().percentile(0.99) == 0


def test_a_clock_that_went_back_counts_as_no_time() -> None:
    latencies = Latencies()
    latencies.add(-5)
    assert latencies.percentile(1.0) == 0


def test_without_a_rate_a_batch_is_due_now() -> None:
    pace = Pace(PLAN, started_ns=0)
    assert [pace.due_ns(7), pace.due_ns(9)] == [7, 9]


def test_with_a_rate_batches_are_due_at_even_distances_even_when_late() -> None:
    plan = Plan(topic="t", size=1, rate=100.0, batch=10, concurrency=2, duration_s=1.0)
    pace = Pace(plan, started_ns=0)
    tenth = SECOND_NS // 10
    assert [pace.due_ns(now) for now in (0, 0, 5 * SECOND_NS)] == [0, tenth, 2 * tenth]


def test_what_is_never_heard_is_a_failure_with_the_reason_of_its_publisher() -> None:
    echoes = Echoes(PLAN, b"12345678")
    assert [len(echoes.next_value(0)) for _ in range(5)] == [40] * 5
    published = Measurement()
    published.note_failed(2, "refused")
    result = echoes.result(published)
    assert result.failures == 5
    assert result.reasons == {"refused": 2, "published and not heard in time": 3}
