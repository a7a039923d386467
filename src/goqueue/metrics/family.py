"""A family of samples: one name, one meaning, one sample for each set of labels.

Samples are created while they are read, so a reader may pause between any two. Label values are
validated names or members of fixed lists, so they need no escaping.
"""

import enum
from collections.abc import Iterable

import msgspec

from goqueue.metrics.histogram import Histogram

__all__ = ["Family", "Kind", "Sample"]

# The label values, or the formatted labels if they are used many times; and the quantity. All
# samples of a family have quantities of one kind.
Sample = tuple[tuple[str, ...] | str, int | float | Histogram]


class Kind(enum.StrEnum):
    """How the samples of a family change."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Samples that share a name; `labels` are the names of their labels."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    # None instead of a sample: looking for one took time and found none.
    samples: Iterable[Sample | None]
