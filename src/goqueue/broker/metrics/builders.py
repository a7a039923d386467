"""Families by the shape of their samples: one number each, or one for each key of a dict."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from goqueue.metrics import Family, Histogram, Kind, Sample

__all__ = ["counter", "gauge", "histogram", "keyed", "plain"]

Counted = TypeVar("Counted")
# The values of the labels, and what was counted under them.
Row = tuple[tuple[str, ...], Counted]


def counter(
    name: str, meaning: str, labels: tuple[str, ...], samples: Iterable[Sample | None]
) -> Family:
    return Family(name=name, kind=Kind.COUNTER, meaning=meaning, labels=labels, samples=samples)


def gauge(
    name: str, meaning: str, labels: tuple[str, ...], samples: Iterable[Sample | None]
) -> Family:
    return Family(name=name, kind=Kind.GAUGE, meaning=meaning, labels=labels, samples=samples)


def histogram(
    name: str, meaning: str, labels: tuple[str, ...], samples: Iterable[Sample | None]
) -> Family:
    return Family(name=name, kind=Kind.HISTOGRAM, meaning=meaning, labels=labels, samples=samples)


def plain(
    rows: Iterable[tuple[tuple[str, ...] | str, Counted]],
    take: Callable[[Counted], int | float | Histogram | None],
) -> Iterator[Sample | None]:
    """One sample of each row, and None where there is none."""
    for labels, counted in rows:
        quantity = take(counted)
        yield None if quantity is None else (labels, quantity)


def keyed(
    rows: Iterable[Row[Counted]],
    take: Callable[[Counted], Mapping[str, int] | Mapping[str, Histogram] | None],
) -> Iterator[Sample | None]:
    """One sample of each row for each key of one of its dicts: the key is the last label."""
    for labels, counted in rows:
        yield None
        for key, quantity in (take(counted) or {}).items():
            yield (*labels, key), quantity
