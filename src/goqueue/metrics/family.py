"""A family of samples: one name, one meaning, one sample for each set of labels.

Samples are made while they are read, so that whoever shows them may pause in between. Label values
are checked names or members of fixed lists, so nothing in them needs to be escaped.
"""

import enum
from collections.abc import Iterable

import msgspec

from goqueue.metrics.histogram import Histogram

__all__ = ["Family", "Kind", "Sample"]

# The values of the labels, or the labels as they are shown, for whoever uses them many times; and
# the quantity. All samples of a family have quantities of one kind.
Sample = tuple[tuple[str, ...] | str, int | float | Histogram]


class Kind(enum.StrEnum):
    """How the samples of a family move."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """Samples that share a name; `labels` are the names of their labels."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    # None in place of a sample says that there is none, and that looking for one took its time.
    samples: Iterable[Sample | None]
