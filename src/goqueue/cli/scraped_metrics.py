"""What a node serves for Prometheus, read again: its samples by name.

Pure: a text in, numbers out. What cannot be read is left out.
"""

import math
import re
from collections.abc import Mapping

__all__ = ["Metrics", "parse_metrics"]

_SAMPLES_MIN = 20
Labels = tuple[tuple[str, str], ...]
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """The samples of a scrape by name."""

    def __init__(self, samples: Mapping[str, Mapping[Labels, float]]) -> None:
        self._samples = samples

    @property
    def samples(self) -> Mapping[str, Mapping[Labels, float]]:
        """By name, then by labels."""
        return self._samples

    def value(self, name: str) -> float | None:
        """The sum over all labels; None if the node does not have the metric."""
        found = self._samples.get(name)
        return None if found is None else sum(found.values())

    @staticmethod
    def joined(scrapes: "Mapping[str, Metrics]") -> "Metrics":
        """The samples of several nodes, told apart by a label."""
        samples: dict[str, dict[Labels, float]] = {}
        for node, scrape in scrapes.items():
            for name, found in scrape.samples.items():
                kept = samples.setdefault(name, {})
                kept.update({(("node", node), *labels): value for labels, value in found.items()})
        return Metrics(samples)

    def minimum(self, name: str) -> float | None:
        """The least over all labels; None if there is none."""
        return min(self._samples.get(name, {}).values(), default=None)

    def quantile(self, name: str, share: float) -> float | None:
        """An upper bound of a quantile of a histogram; None with too few observations."""
        counts: dict[float, float] = {}
        for labels, count in self._samples.get(f"{name}_bucket", {}).items():
            bound = float(dict(labels)["le"])
            counts[bound] = counts.get(bound, 0.0) + count
        total = counts.get(math.inf, 0.0)
        if total < _SAMPLES_MIN:
            return None
        return next(bound for bound in sorted(counts) if counts[bound] >= share * total)


def parse_metrics(text: str) -> Metrics:
    """Read the text format of Prometheus; what cannot be read is left out."""
    samples: dict[str, dict[Labels, float]] = {}
    for line in text.splitlines():
        found = None if line.startswith("#") else _SAMPLE.match(line)
        if found is None:
            continue
        labels = tuple((each[1], each[2]) for each in _LABEL.finditer(found[2] or ""))
        try:
            samples.setdefault(found[1], {})[labels] = float(found[3])
        except ValueError:
            continue
    return Metrics(samples)
