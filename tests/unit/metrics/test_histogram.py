"""Histograms: what falls where, and what is shown of it."""

import pytest

from goqueue.metrics import BATCH_SIZES, SECONDS, Histogram
from goqueue.model import MILLISECOND, SECOND


def test_the_bounds_are_those_of_the_contract() -> None:
    shown = [limit / SECOND for limit in SECONDS.limits]
    assert shown == [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5]
    assert [float(name) for name in SECONDS.names] == shown


@pytest.mark.parametrize(
    ("quantity", "bucket"),
    [
        (0, 0),
        (MILLISECOND // 2, 0),
        (MILLISECOND // 2 + 1, 1),
        (5 * SECOND, 12),
        (5 * SECOND + 1, 13),
        (10**18, 13),
    ],
)
def test_a_bound_belongs_to_the_bucket_below_it(quantity: int, bucket: int) -> None:
    histogram = Histogram()
    histogram.observe(quantity)
    assert [index for index, count in enumerate(histogram.counts) if count] == [bucket]
    assert (histogram.count, histogram.total) == (1, quantity)


def test_sizes_are_counted_in_their_own_buckets() -> None:
    histogram = Histogram(BATCH_SIZES)
    for size in (0, 1, 3, 1000, 5000):
        histogram.observe(size)
    assert histogram.counts == (2, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1)
