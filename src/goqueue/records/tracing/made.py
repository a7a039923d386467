"""Trace contexts that nobody gave: each follows from a seed and an offset, and is stored nowhere.

A seed belongs to one log in one life of its topic. For one seed no two offsets have the same trace,
because every step of the mixing can be undone.
"""

from collections.abc import Sequence

__all__ = ["CONTEXT_BYTES", "choose", "make_contexts", "mix", "second_half"]

# A trace id and a span id.
CONTEXT_BYTES = 24
_U64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def mix(one: int, other: int) -> int:
    """A number of 64 bits, never 0, that follows from two of them."""
    number = _mixed(one ^ _mixed(other))
    return number or 1


def _mixed(number: int) -> int:
    number = (number + _GOLDEN) & _U64
    number = ((number ^ (number >> 30)) * _FIRST) & _U64
    number = ((number ^ (number >> 27)) * _SECOND) & _U64
    return number ^ (number >> 31)


def make_contexts(high: int, low: int, offsets: Sequence[int]) -> bytes:
    """The contexts of these offsets, one after the other; the seed is given in two halves."""
    made = bytearray(CONTEXT_BYTES * len(offsets))
    _make(high, low, offsets, made)
    return bytes(made)


def _make(high: int, low: int, offsets: Sequence[int], made: bytearray) -> None:
    size = CONTEXT_BYTES
    place = 0
    for offset in offsets:
        first = _mixed(high ^ offset)
        second = _mixed(low ^ first)
        third = _mixed(second ^ high)
        _put(made, place, first or 1)
        _put(made, place + 8, second)
        _put(made, place + 16, third or 1)
        place += size


def _put(made: bytearray, place: int, number: int) -> None:
    for index in range(8):
        made[place + index] = (number >> (56 - 8 * index)) & 255


def second_half(high: int, low: int, offset: int) -> int:
    """What decides whether the trace of an offset is followed."""
    return _mixed(low ^ _mixed(high ^ offset))


def choose(contexts: bytes, threshold: int) -> list[int]:
    """Which of these contexts are of traces that are followed: the second half is below."""
    chosen: list[int] = []
    size = CONTEXT_BYTES
    for index in range(len(contexts) // size):
        start = index * size + 8
        number = 0
        for place in range(start, start + 8):
            number = number << 8 | contexts[place]
        if number < threshold:
            chosen.append(index)
    return chosen
