# cython: boundscheck=False, wraparound=False
"""Many timers at once: each into the bucket that it belongs to, and the first of a bucket.

Compiled, because there is one step for each delayed message that is published, and because a
bucket may hold a million. Never keeps anything, and leaves to the caller those whose tick is over.

Invariant: every timer goes into exactly one bucket, or is left.
"""

from array import array
from collections.abc import Callable

from goqueue.delivery.wheel.ring import SHIFTS, TICK_NS, Ring

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.delivery.wheel.column import push

__all__ = ["first_pending", "sift"]

_FINE, _MIDDLE, _COARSE = SHIFTS[1:]
# What names a bucket: its number, and its ring in the lowest bits.
_RING_BITS = 2
_RING_MASK = (1 << _RING_BITS) - 1


def sift(
    rings: tuple[Ring, ...], present: int, dues: "array[int]", timers: "array[int]"
) -> list[int]:
    """Put timers into the rings as seen from the tick `present`; the places of those left."""
    assert len(dues) == len(timers)
    left: list[int] = []
    _sift(rings, present, dues, timers, left)
    return left


def first_pending(
    dues: "array[int]", timers: "array[int]", due_of: Callable[[int], int | None] | None
) -> int:
    """The least time of all timers, or of those that `due_of` knows to be due then; -1 if none.

    Asks only for timers that would be the first.
    """
    assert len(dues) == len(timers)
    return _first_pending(dues, timers, due_of)


def _first_pending(
    dues: "array[int]", timers: "array[int]", due_of: Callable[[int], int | None] | None
) -> int:
    first = -1
    for index in range(len(dues)):
        due = dues[index]
        if (first < 0 or due < first) and (due_of is None or due_of(timers[index]) == due):
            first = due
    return first


def _sift(
    rings: tuple[Ring, ...],
    present: int,
    dues: "array[int]",
    timers: "array[int]",
    left: list[int],
) -> None:
    known: dict[int, tuple[array[int], array[int]]] = {}
    columns = None
    last = -1
    for index in range(len(dues)):
        due = dues[index]
        tick = -(-due // TICK_NS)
        if tick <= present:
            left.append(index)
            continue
        differing = tick ^ present
        if differing >> _FINE == 0:
            key = tick << _RING_BITS
        elif differing >> _MIDDLE == 0:
            key = tick >> _FINE << _RING_BITS | 1
        elif differing >> _COARSE == 0:
            key = tick >> _MIDDLE << _RING_BITS | 2
        else:
            key = tick >> _COARSE << _RING_BITS | 3
        # Neighbours are often due together.
        if key != last:
            last = key
            columns = known.get(key)
        if columns is None:
            bucket = rings[key & _RING_MASK].bucket(key >> _RING_BITS)
            columns = known[key] = (bucket.dues, bucket.timers)
        push(columns[0], due)
        push(columns[1], timers[index])
