"""What an audit finds, and an audit without Spark: rows are counted off one by one.

Producers number what they send, from some number on, without gaps. So of every producer each number
is there (else some are lost), once (else some are duplicates), and in each partition they rise
(else the order is broken). A number that comes again in its partition is a duplicate, and no break
of the order.

Pure: rows are handed in. Whoever checks a run of its own can use `Counting`; the audit of a topic
finds the same by SQL, which a test holds them to.

Invariant: the findings about a producer follow from its rows, in the order of offsets for each
partition; in which order partitions are counted does not matter.
"""

from collections.abc import Iterable, Mapping

import msgspec

__all__ = ["Counting", "Findings", "Gap", "Place", "ProducerFindings", "gaps_of"]

EXAMPLES_MAX = 20


class Place(msgspec.Struct, frozen=True, order=True):
    """Where a row is, and its number."""

    producer: str
    sequence: int
    partition: int
    offset: int


class Gap(msgspec.Struct, frozen=True, order=True):
    """Numbers that are missing, both ends included."""

    producer: str
    first: int
    last: int


class ProducerFindings(msgspec.Struct, frozen=True, kw_only=True):
    """About one producer. Duplicates are rows beyond the first of their number."""

    producer: str
    rows: int
    first: int
    last: int
    missing: int = 0
    duplicates: int = 0
    disorders: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.duplicates or self.disorders)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """About all of a topic, with the first few examples of each kind."""

    rows: int = 0
    producers: int = 0
    unreadable: int = 0
    missing: int = 0
    duplicates: int = 0
    disorders: int = 0
    absent: tuple[str, ...] = ()
    troubled: tuple[ProducerFindings, ...] = ()
    gaps: tuple[Gap, ...] = ()
    duplicate_rows: tuple[Place, ...] = ()
    disordered_rows: tuple[Place, ...] = ()

    @property
    def is_clean(self) -> bool:
        wrong = (self.unreadable, self.missing, self.duplicates, self.disorders, self.absent)
        return not any(wrong)


class Counting:
    """Counts rows off. `expected` says how many numbers a producer used, from `first` on."""

    def __init__(
        self, *, first: int | None = None, expected: Mapping[str, int] | None = None
    ) -> None:
        self._first = first
        self._expected = dict(expected or {})
        self._rows = 0
        self._unreadable = 0
        self._counts: dict[str, int] = {}
        # By producer the first place of each number, and by partition the numbers that were there.
        self._places: dict[str, dict[int, Place]] = {}
        self._numbers: dict[tuple[str, int], set[int]] = {}
        self._highest: dict[tuple[str, int], int] = {}
        self._disorders: dict[str, int] = {}
        self._duplicate_rows: list[Place] = []
        self._disordered_rows: list[Place] = []

    def add(self, producer: str | None, sequence: int | None, partition: int, offset: int) -> None:
        """Count a row; those of a partition come in the order of their offsets."""
        self._rows += 1
        if producer is None or sequence is None:
            self._unreadable += 1
            return
        self._counts[producer] = self._counts.get(producer, 0) + 1
        place = Place(producer, sequence, partition, offset)
        places = self._places.setdefault(producer, {})
        known = places.setdefault(sequence, place)
        if known is not place:
            places[sequence] = min(known, place)
            self._duplicate_rows.append(max(known, place))
        numbers = self._numbers.setdefault((producer, partition), set())
        if sequence in numbers:
            return
        numbers.add(sequence)
        highest = self._highest.get((producer, partition), sequence)
        if sequence < highest:
            self._disorders[producer] = self._disorders.get(producer, 0) + 1
            self._disordered_rows.append(place)
        self._highest[producer, partition] = max(sequence, highest)

    def findings(self) -> Findings:
        each = [self._of(producer) for producer in sorted(self._places)]
        gaps: list[Gap] = []
        for found in each:
            if found.missing and len(gaps) < EXAMPLES_MAX:
                gaps += gaps_of(found, self._places[found.producer])
        absent = sorted(name for name, count in self._expected.items() if count)
        absent = [name for name in absent if name not in self._places]
        return Findings(
            rows=self._rows,
            producers=len(each),
            unreadable=self._unreadable,
            missing=sum(found.missing for found in each),
            duplicates=sum(found.duplicates for found in each),
            disorders=sum(found.disorders for found in each),
            absent=tuple(absent),
            troubled=tuple(found for found in each if not found.is_clean)[:EXAMPLES_MAX],
            gaps=tuple(gaps[:EXAMPLES_MAX]),
            duplicate_rows=tuple(sorted(self._duplicate_rows)[:EXAMPLES_MAX]),
            disordered_rows=tuple(sorted(self._disordered_rows)[:EXAMPLES_MAX]),
        )

    def _of(self, producer: str) -> ProducerFindings:
        seen = self._places[producer]
        first, last = _bounds(producer, min(seen), max(seen), self._first, self._expected)
        rows = self._counts[producer]
        return ProducerFindings(
            producer=producer,
            rows=rows,
            first=first,
            last=last,
            missing=last - first + 1 - len(seen),
            duplicates=rows - len(seen),
            disorders=self._disorders.get(producer, 0),
        )


def gaps_of(found: ProducerFindings, seen: Iterable[int]) -> list[Gap]:
    """The ranges that a producer's numbers leave out."""
    gaps = []
    expected = found.first
    for number in [*sorted(set(seen)), found.last + 1]:
        if number > expected:
            gaps.append(Gap(found.producer, expected, min(number, found.last + 1) - 1))
        expected = max(expected, number + 1)
    return gaps


def _bounds(
    producer: str, lowest: int, highest: int, first: int | None, expected: Mapping[str, int]
) -> tuple[int, int]:
    """The first and the last number that should be there."""
    start = lowest if first is None else min(first, lowest)
    if producer in expected:
        begin = lowest if first is None else first
        return start, max(highest, begin + expected[producer] - 1)
    return start, highest
