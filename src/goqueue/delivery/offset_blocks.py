# cython: boundscheck=False, wraparound=False
"""Offsets as the bits of blocks, the form in which what is settled above a floor is kept.

Compiled, because each message of a scattered lease takes a step here, twice when it is settled.

Invariant: every offset is a bit of exactly one block, and blocks come in the order of offsets.
"""

from collections.abc import Sequence

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

__all__ = ["BLOCK_SHIFT", "COMPILED", "bits_by_block"]

COMPILED: bool = cython.compiled

# A block has 512 offsets.
BLOCK_SHIFT = 9
_SHIFT = BLOCK_SHIFT
_MASK = (1 << BLOCK_SHIFT) - 1
_BLOCK_BYTES = 1 << BLOCK_SHIFT - 3


def bits_by_block(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """The numbers of the blocks of sorted offsets, none negative, and the bits that are in each."""
    found: list[tuple[int, int]] = []
    octets = bytearray(_BLOCK_BYTES)
    block = -1
    for offset in offsets:
        if offset >> _SHIFT != block:
            if block >= 0:
                found.append((block, int.from_bytes(octets, "little")))
                octets = bytearray(_BLOCK_BYTES)
            block = offset >> _SHIFT
        octets[(offset & _MASK) >> 3] |= 1 << (offset & 7)
    if block >= 0:
        found.append((block, int.from_bytes(octets, "little")))
    return found
