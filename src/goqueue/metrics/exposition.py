"""Families as the text that Prometheus reads (format 0.0.4), a slice at a time.

Never holds more than a slice of samples: the caller may run other work between slices.

Cost per sample: one formatted line. Histograms with equal counts share their formatted buckets;
on a node with many idle topics that is most of them.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice

from goqueue.metrics.family import Family, Kind, Sample
from goqueue.metrics.histogram import Histogram

__all__ = ["expose"]

# About a millisecond of work.
_SAMPLES_PER_SLICE = 1000
_HISTOGRAMS_PER_SLICE = 200
# Formatted buckets that are cached, about a hundred bytes each.
_BLOCKS_MAX = 2000
# A placeholder for the labels; it occurs in no name.
_LABELS = "\0"


def expose(families: Iterable[Family]) -> Iterator[bytes]:
    """The text of these families; a family without samples is left out.

    A slice of work that produced no text is an empty piece.
    """
    for family in families:
        head = f"# HELP {family.name} {family.meaning}\n# TYPE {family.name} {family.kind}\n"
        for lines in _slices(family):
            if lines:
                yield (head + lines).encode()
                head = ""
            else:
                yield b""


def _slices(family: Family) -> Iterator[str]:
    samples = iter(family.samples)
    if family.kind is Kind.HISTOGRAM:
        histograms = _Histograms(family)
        while some := list(islice(samples, _HISTOGRAMS_PER_SLICE)):
            yield histograms.show([sample for sample in some if sample is not None])
    else:
        while some := list(islice(samples, _SAMPLES_PER_SLICE)):
            yield _lines(family, [sample for sample in some if sample is not None])


def _lines(family: Family, samples: list[Sample]) -> str:
    name, pattern = family.name, _pattern(family)
    if not pattern:
        return "".join([f"{name} {_number(value)}\n" for _, value in samples])
    return "".join(
        [
            f"{name}{{{labels if type(labels) is str else pattern % labels}}} {_number(value)}\n"
            for labels, value in samples
        ]
    )


def _number(value: float | Histogram) -> str:
    if type(value) is int:
        return str(value)
    assert type(value) is float, "only a histogram has no number of its own"
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _pattern(family: Family) -> str:
    return ",".join([f'{label}="%s"' for label in family.labels])


class _Histograms:
    """Formats the histograms of one family."""

    def __init__(self, family: Family) -> None:
        self._name = family.name
        self._pattern = _pattern(family)
        self._blocks: dict[tuple[int, ...], str] = {}

    def show(self, samples: list[Sample]) -> str:
        name, pattern = self._name, self._pattern
        shown: list[str] = []
        for given, histogram in samples:
            assert isinstance(histogram, Histogram), "the kind says so"
            labels = given if isinstance(given, str) else pattern % given
            counts = histogram.counts
            block = self._blocks.get(counts)
            if block is None:
                block = self._format(histogram)
            total = histogram.total / histogram.bounds.unit
            braced = f"{{{labels}}}" if labels else ""
            shown.append(f"{block.replace(_LABELS, labels)}{name}_sum{braced} {total!r}\n")
            shown.append(f"{name}_count{braced} {sum(counts)}\n")
        return "".join(shown)

    def _format(self, histogram: Histogram) -> str:
        """The buckets of one histogram, shared with all that have the same counts."""
        if len(self._blocks) >= _BLOCKS_MAX:
            self._blocks.clear()
        before = f"{self._name}_bucket{{{_LABELS}{',' if self._pattern else ''}"
        bounds = (*histogram.bounds.names, "+Inf")
        block = self._blocks[histogram.counts] = "".join(
            [
                f'{before}le="{bound}"}} {count}\n'
                for bound, count in zip(bounds, accumulate(histogram.counts), strict=True)
            ]
        )
        return block
