"""The text for Prometheus, read back by the parser of the official client."""

import math
from collections.abc import Iterator

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from goqueue.metrics import SECONDS, Family, Histogram, Kind, Sample, expose
from goqueue.model import SECOND


def parse(*families: Family) -> list[Metric]:
    text = b"".join(expose(families)).decode()
    return list(text_string_to_metric_families(text))


def test_a_counter_and_a_gauge_are_read_as_they_were_given() -> None:
    counter = Family(
        name="goqueue_things_total",
        kind=Kind.COUNTER,
        meaning="Things.",
        labels=("topic", "consumer_group"),
        samples=[(("a.b-c_d", ""), 3), ('topic="e",consumer_group="f"', 2**60)],
    )
    gauge = Family(name="goqueue_level", kind=Kind.GAUGE, meaning="A level.", samples=[((), 0.25)])

    things, level = parse(counter, gauge)
    assert (things.name, things.type, things.documentation) == (
        "goqueue_things",
        "counter",
        "Things.",
    )
    assert [(each.labels, each.value) for each in things.samples] == [
        ({"topic": "a.b-c_d", "consumer_group": ""}, 3),
        ({"topic": "e", "consumer_group": "f"}, 2**60),
    ]
    assert [(each.name, each.value) for each in level.samples] == [("goqueue_level", 0.25)]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_none_have_their_own_words(number: float) -> None:
    gauge = Family(name="goqueue_level", kind=Kind.GAUGE, meaning="A.", samples=[((), number)])
    (level,) = parse(gauge)
    assert repr(level.samples[0].value) == repr(number)


@pytest.mark.parametrize("labels", [(), ("topic",)])
def test_a_histogram_is_cumulative_and_ends_with_its_sum_and_count(labels: tuple[str, ...]) -> None:
    histogram = Histogram()
    for quantity in (0, SECOND, SECOND, 60 * SECOND):
        histogram.observe(quantity)
    values = ("t",) * len(labels)
    family = Family(
        name="goqueue_wait_seconds",
        kind=Kind.HISTOGRAM,
        meaning="Waiting.",
        labels=labels,
        samples=[(values, histogram)],
    )

    (wait,) = parse(family)
    assert wait.type == "histogram"
    buckets = {each.labels["le"]: each.value for each in wait.samples if "le" in each.labels}
    assert list(buckets) == [*SECONDS.names, "+Inf"]
    assert [buckets[bound] for bound in ("0.0005", "0.5", "1", "5", "+Inf")] == [1, 1, 3, 3, 4]
    others = {each.name: each.value for each in wait.samples if "le" not in each.labels}
    assert others == {"goqueue_wait_seconds_sum": 62.0, "goqueue_wait_seconds_count": 4}
    shared = dict(zip(labels, values, strict=True))
    assert all(shared.items() <= each.labels.items() for each in wait.samples)


def test_histograms_that_counted_the_same_keep_their_own_labels_and_sums() -> None:
    histograms = [Histogram() for _ in range(3)]
    for index, histogram in enumerate(histograms):
        histogram.observe(index)
    family = Family(
        name="goqueue_wait_seconds",
        kind=Kind.HISTOGRAM,
        meaning="Waiting.",
        labels=("topic",),
        samples=[((f"t{index}",), histogram) for index, histogram in enumerate(histograms)],
    )

    (wait,) = parse(family)
    sums = {each.labels["topic"]: each.value for each in wait.samples if each.name.endswith("_sum")}
    assert sums == {"t0": 0.0, "t1": 1e-9, "t2": 2e-9}
    counted = [each.labels["topic"] for each in wait.samples if each.labels.get("le") == "1"]
    assert counted == ["t0", "t1", "t2"]


def test_a_family_without_samples_is_left_out() -> None:
    empty = Family(name="goqueue_level", kind=Kind.GAUGE, meaning="A level.", samples=[])
    assert b"".join(expose([empty])) == b""


def test_others_may_run_between_slices_and_samples_are_made_no_sooner() -> None:
    made: list[int] = []

    def samples() -> Iterator[Sample]:
        for number in range(2500):
            made.append(number)
            yield (str(number),), number

    family = Family(
        name="goqueue_level", kind=Kind.GAUGE, meaning="A.", labels=("n",), samples=samples()
    )
    seen = [len(made) for _ in expose([family])]
    assert seen == [1000, 2000, 2500]


def test_others_may_run_while_rows_without_a_sample_are_passed() -> None:
    """Before, 100,000 rows of which none had a sample were one slice."""
    passed: list[int] = []

    def samples() -> Iterator[Sample | None]:
        for number in range(2500):
            passed.append(number)
            yield ((str(number),), number) if number == 2400 else None

    family = Family(
        name="goqueue_level", kind=Kind.GAUGE, meaning="A.", labels=("n",), samples=samples()
    )
    pieces = [(len(passed), piece) for piece in expose([family])]

    assert [count for count, _ in pieces] == [1000, 2000, 2500]
    assert [bool(piece) for _, piece in pieces] == [False, False, True]
    assert pieces[-1][1].endswith(b'goqueue_level{n="2400"} 2400\n')
