"""What must be true after a run, whatever failed when.

Pure: takes what was acknowledged, what the partitions hold, and the bytes that each node keeps.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

__all__ = ["Acknowledged", "Copy", "Verdict", "judge"]

Place = tuple[int, int]


class Acknowledged(msgspec.Struct, frozen=True):
    """A message whose publisher was told where it is."""

    value: str
    partition: int
    offset: int


class Copy(msgspec.Struct, frozen=True):
    """What one node keeps of one partition: all its segments, one after the other."""

    node: str
    partition: int
    data: bytes


class Verdict(msgspec.Struct, frozen=True):
    """Counts of what happened, and every promise that was broken."""

    counts: dict[str, int]
    violations: list[str]


def judge(
    acknowledged: list[Acknowledged], held: Mapping[Place, str], copies: list[Copy]
) -> Verdict:
    """Find what was lost, stored twice, or differs between nodes."""
    violations = [*_lost(acknowledged, held), *_repeated(held), *_divergent(copies)]
    counts = {
        "acknowledged": len(acknowledged),
        "stored": len(held),
        "unacknowledged but stored": len(held) - len(acknowledged),
        "copies compared": len(copies),
    }
    return Verdict(counts, violations)


def _lost(acknowledged: list[Acknowledged], held: Mapping[Place, str]) -> list[str]:
    found = []
    for each in acknowledged:
        there = held.get((each.partition, each.offset))
        if there != each.value:
            place = f"partition {each.partition}, offset {each.offset}"
            found.append(f"{each.value} was acknowledged at {place}, where {there} is")
    return found


def _repeated(held: Mapping[Place, str]) -> list[str]:
    counted = Counter(held.values())
    return [f"{value} is stored {count} times" for value, count in counted.items() if count > 1]


def _divergent(copies: list[Copy]) -> list[str]:
    found = []
    by_partition: dict[int, list[Copy]] = {}
    for each in copies:
        by_partition.setdefault(each.partition, []).append(each)
    for partition, theirs in sorted(by_partition.items()):
        first, *others = theirs
        for other in others:
            if other.data != first.data:
                at = _first_difference(first.data, other.data)
                found.append(
                    f"partition {partition} differs on {first.node} and {other.node} at byte {at}"
                )
    return found


def _first_difference(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
