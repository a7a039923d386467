"""Families as the text that Prometheus reads (format 0.0.4), a slice at a time.

Never holds more than a slice of samples: whoever takes the slices may let others run in between.

Cost per sample: one format of its labels and one of its line, or of all lines of a histogram.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from goqueue.metrics.family import Family, Kind, Sample
from goqueue.metrics.histogram import Bounds, Histogram

__all__ = ["expose"]

# About a millisecond of work.
_SAMPLES_PER_SLICE = 1000
_HISTOGRAMS_PER_SLICE = 200


def expose(families: Iterable[Family]) -> Iterator[bytes]:
    """The text of these families; a family without samples is left out."""
    for family in families:
        is_histogram = family.kind is Kind.HISTOGRAM
        size = _HISTOGRAMS_PER_SLICE if is_histogram else _SAMPLES_PER_SLICE
        samples = iter(family.samples)
        head = f"# HELP {family.name} {family.meaning}\n# TYPE {family.name} {family.kind}\n"
        while slice_ := list(islice(samples, size)):
            lines = _histograms(family, slice_) if is_histogram else _lines(family, slice_)
            yield (head + lines).encode()
            head = ""


def _lines(family: Family, samples: list[Sample]) -> str:
    name = family.name
    if not family.labels:
        return "".join([f"{name} {_number(value)}\n" for _, value in samples])
    line = f"{name}{{{_pattern(family)}}} "
    return "".join([f"{line % labels}{_number(value)}\n" for labels, value in samples])


def _number(value: float | Histogram) -> str:
    if type(value) is int:
        return str(value)
    assert type(value) is float, "only a histogram has no number of its own"
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _pattern(family: Family) -> str:
    return ",".join([f'{label}="%s"' for label in family.labels])


def _histograms(family: Family, samples: list[Sample]) -> str:
    pattern = _pattern(family)
    shown: list[str] = []
    block, bounds = "", None
    for labels, histogram in samples:
        assert isinstance(histogram, Histogram), "the kind says so"
        if histogram.bounds is not bounds:
            bounds = histogram.bounds
            block = _block(family, bounds)
        counts = histogram.cumulated()
        # Every line but the last two has the labels and a count; the sum comes before the count.
        counts.extend((counts[-1], counts[-1]))
        fields: list[str | int | float] = [pattern % labels] * (2 * len(counts))
        fields[1::2] = counts
        fields[-3] = histogram.total / bounds.unit
        shown.append(block % tuple(fields))
    return "".join(shown)


def _block(family: Family, bounds: Bounds) -> str:
    """The lines of one histogram, with places for its labels and numbers."""
    name, comma = family.name, "," if family.labels else ""
    brackets = "{%s}" if family.labels else "%s"
    buckets = [f'{name}_bucket{{%s{comma}le="{bound}"}} %d\n' for bound in (*bounds.names, "+Inf")]
    return f"{''.join(buckets)}{name}_sum{brackets} %r\n{name}_count{brackets} %d\n"
