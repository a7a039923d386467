"""Which ranges of topics share a task, and so a file.

Pure. A topic of many partitions has few new rows in each of them, most of the time; a file for each
with every batch would soon be a swamp of small ones.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["bundle"]

_ROWS_MAX = 100_000


class Planned(Protocol):
    """A range that the connector plans for a task: `value` has topic, start and end."""

    value: Any


P = TypeVar("P", bound=Planned)


def bundle(planned: Sequence[P]) -> list[list[P]]:
    """What is planned, in tasks: small ranges of a topic together, in their order."""
    bundles: list[list[P]] = []
    topic, rows = None, 0
    for each in planned:
        wanted = each.value
        count = wanted.end - wanted.start
        if topic != wanted.topic or rows + count > _ROWS_MAX:
            bundles.append([])
            rows = 0
        topic, rows = wanted.topic, rows + count
        bundles[-1].append(each)
    return bundles
