"""Offsets that are done with: everything below a floor, and some above it.

Lanes make what is above as scattered as can be: a critical message here and there, far ahead of
the rest. So it is kept as one bit per offset, in blocks that are there only where something is,
and every change costs the same however much is done already.

Invariant: the floor is the lowest offset that is not in the set; two equal sets have one statement.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from goqueue.delivery.offset_blocks import BLOCK_SHIFT, bits_by_block
from goqueue.model import Offset, Range, runs

__all__ = ["Ranges", "Stretch"]

# Some offsets that are near each other: where the bits begin, and the bits, the lowest first.
Stretch = tuple[int, bytes]

_SHIFT = BLOCK_SHIFT
_BLOCK = 1 << _SHIFT
_MASK = _BLOCK - 1
# All blocks of which nothing is missing share this number.
_FULL = (1 << _BLOCK) - 1


class Ranges:
    """A set of offsets that is nearly an interval, or will be."""

    __slots__ = ("_blocks", "_count", "_floor")

    def __init__(
        self, floor: int = 0, above: Iterable[Range] = (), scattered: Iterable[Stretch] = ()
    ) -> None:
        self._floor = floor
        # By number, the lowest offset being the lowest bit. Nothing below the floor is set.
        self._blocks: dict[int, int] = {}
        # How many are above the floor.
        self._count = 0
        self.add_stated(above, scattered)

    def add_stated(self, above: Iterable[Range], scattered: Iterable[Stretch]) -> None:
        """Take in what was stated of a set."""
        for first, following in above:
            self.add(first, following)
        for first, octets in scattered:
            self._add_bits(first, int.from_bytes(octets, "little"))

    def copy(self) -> "Ranges":
        """The same set, from now on by itself."""
        copied = Ranges(self._floor)
        copied._blocks, copied._count = self._blocks.copy(), self._count
        return copied

    @property
    def floor(self) -> Offset:
        """The lowest offset that is not in the set."""
        return Offset(self._floor)

    @property
    def blocks(self) -> Iterable[tuple[int, int]]:
        """What is above the floor: numbers of blocks and their bits, the lowest offset first."""
        return self._blocks.items()

    @property
    def count_above(self) -> int:
        """How many offsets above the floor are in the set."""
        return self._count

    @property
    def end(self) -> Offset:
        """The offset after the highest in the set."""
        if not self._blocks:
            return Offset(self._floor)
        last = max(self._blocks)
        return Offset((last << _SHIFT) + self._blocks[last].bit_length())

    @property
    def above(self) -> list[Range]:
        """The whole blocks that are in the set above the floor, as ranges."""
        return self.stated_blocks(self._blocks)[0]

    @property
    def scattered(self) -> list[Stretch]:
        """All others above the floor, without the empty octets on both sides of them."""
        return self.stated_blocks(self._blocks)[1]

    @property
    def block_count(self) -> int:
        return len(self._blocks)

    @property
    def block_numbers(self) -> list[int]:
        """The blocks in which something above the floor is, in order."""
        return sorted(self._blocks)

    def stated_blocks(self, numbers: Iterable[int]) -> tuple[list[Range], list[Stretch]]:
        """What is in these blocks: whole ones as ranges, and the others."""
        full: list[int] = []
        stretches: list[Stretch] = []
        for number in sorted(numbers):
            bits = self._blocks.get(number, 0)
            if bits == _FULL:
                full.append(number)
            elif bits:
                octets = bits.to_bytes(_BLOCK // 8, "little").rstrip(b"\0")
                trimmed = octets.lstrip(b"\0")
                first = (number << _SHIFT) + 8 * (len(octets) - len(trimmed))
                stretches.append((first, trimmed))
        return [(first << _SHIFT, below << _SHIFT) for first, below in runs(full)], stretches

    def __contains__(self, offset: int) -> bool:
        if offset < self._floor:
            return True
        bits = self._blocks.get(offset >> _SHIFT)
        return bits is not None and bits >> (offset & _MASK) & 1 == 1

    def missing(self, offsets: Sequence[int]) -> Sequence[int]:
        """Those of the sorted offsets that are not in the set."""
        if not offsets:
            return offsets
        if offsets[0] >= self._floor and (not self._blocks or self._is_disjoint(offsets)):
            return offsets
        return [offset for offset in offsets if offset not in self]

    def _is_disjoint(self, offsets: Sequence[int]) -> bool:
        blocks = self._blocks
        return not any(bits & blocks.get(number, 0) for number, bits in bits_by_block(offsets))

    def next_missing(self, offset: int) -> int:
        """The first offset from this one on that is not in the set."""
        offset = max(offset, self._floor)
        while (bits := self._blocks.get(offset >> _SHIFT)) is not None:
            place = offset & _MASK
            above = bits >> place
            passed = (~above & (above + 1)).bit_length() - 1
            offset += passed
            if place + passed < _BLOCK:
                break
        return offset

    # Taking in

    def add_set(self, other: "Ranges") -> None:
        """Take in another set; costs by its blocks above the floor, not by its offsets."""
        self.raise_floor(other.floor)
        first, place = self._floor >> _SHIFT, self._floor & _MASK
        for number, bits in other.blocks:
            if number > first:
                self._set(number, bits)
            elif number == first and bits >> place:
                self._set(number, bits >> place << place)
        self._climb()

    def add(self, first: int, following: int) -> None:
        """Take in the offsets from `first` up to, not including, `following`."""
        if first <= self._floor:
            self.raise_floor(following)
            return
        while first < following:
            below = min(following, (first >> _SHIFT << _SHIFT) + _BLOCK)
            self._set(first >> _SHIFT, _ones(first & _MASK, below - first))
            first = below

    def add_all(self, offsets: Sequence[int]) -> None:
        """Take in sorted offsets, each given once."""
        if not offsets:
            return
        first, following = offsets[0], offsets[-1] + 1
        if following - first == len(offsets):
            self.add(first, following)
            return
        if first < self._floor:
            offsets = offsets[bisect_left(offsets, self._floor) :]
        for number, bits in bits_by_block(offsets):
            self._set(number, bits)
        self._climb()

    def _add_bits(self, first: int, bits: int) -> None:
        """Take in offsets that were stated, wherever the blocks were then."""
        passed = max(0, self._floor - first)
        first, bits = first + passed, bits >> passed
        while bits:
            place = first & _MASK
            self._set(first >> _SHIFT, bits << place & _FULL)
            bits >>= _BLOCK - place
            first += _BLOCK - place
        self._climb()

    def _set(self, number: int, bits: int) -> None:
        """Take in offsets of one block, none of them below the floor."""
        before = self._blocks.get(number, 0)
        after = before | bits
        self._count += after.bit_count() - before.bit_count()
        self._blocks[number] = _FULL if after == _FULL else after

    # The floor

    def raise_floor(self, floor: int) -> None:
        """Take in everything below `floor`; the floor goes on over what was in the set above."""
        if floor <= self._floor:
            return
        if self._blocks:
            self._clear(self._floor, floor)
        self._floor = floor
        self._climb()

    def cut(self, end: int) -> None:
        """Forget everything from `end` on."""
        if end <= self._floor:
            self._floor, self._count = end, 0
            self._blocks.clear()
        else:
            self._clear(end, self.end)

    def _climb(self) -> None:
        """Let the floor go on over what is in the set."""
        blocks = self._blocks
        while (bits := blocks.get(self._floor >> _SHIFT)) is not None:
            number, place = self._floor >> _SHIFT, self._floor & _MASK
            # The lowest bit that is missing, those below the floor left aside.
            above = bits >> place
            passed = (~above & (above + 1)).bit_length() - 1
            if not passed:
                return
            self._count -= passed
            self._floor += passed
            if above.bit_count() > passed:
                blocks[number] = above >> passed << place + passed
                return
            del blocks[number]

    def _clear(self, first: int, below: int) -> None:
        """Take the offsets of [first, below) out."""
        for number, bits in self._blocks_within(first, below):
            begin = number << _SHIFT
            low, high = max(0, first - begin), min(_BLOCK, below - begin)
            kept = bits & ~_ones(low, high - low)
            self._count -= bits.bit_count() - kept.bit_count()
            if kept:
                self._blocks[number] = kept
            else:
                del self._blocks[number]

    # Counting

    def missing_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are not in the set."""
        first = max(first, self._floor)
        if end <= first:
            return 0
        return end - first - (self.count_within(first, end) if self._blocks else 0)

    def count_within(self, first: int, end: int) -> int:
        """How many offsets of [first, end) are in the set, be they below the floor or above."""
        below = max(0, min(self._floor, end) - first)
        first = max(first, self._floor)
        if end <= first or not self._blocks:
            return below
        # What is asked for is nearly always all there is, so the few others are counted.
        outside = self._count_bits(self._floor, first) + self._count_bits(end, self.end)
        return below + self._count - outside

    def _count_bits(self, first: int, below: int) -> int:
        count = 0
        for number, bits in self._blocks_within(first, below):
            begin = number << _SHIFT
            low, high = max(0, first - begin), min(_BLOCK, below - begin)
            count += (bits & _ones(low, high - low)).bit_count()
        return count

    def _blocks_within(self, first: int, below: int) -> list[tuple[int, int]]:
        """The blocks that are there with something of [first, below)."""
        if below <= first:
            return []
        numbers = range(first >> _SHIFT, (below - 1 >> _SHIFT) + 1)
        if len(numbers) > len(self._blocks):
            return [each for each in self._blocks.items() if each[0] in numbers]
        return [(each, self._blocks[each]) for each in numbers if each in self._blocks]


def _ones(low: int, count: int) -> int:
    """A number with so many bits set from `low` on."""
    return (1 << count) - 1 << low
