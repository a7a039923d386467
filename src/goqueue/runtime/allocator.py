"""How the C library keeps memory that the process has freed.

A node allocates a buffer for each large answer, under TLS a second one, and frees both. glibc
returns what lies at the end of the heap to the kernel as soon as it is 128 KiB, or twice the
largest block that was freed; then the kernel clears every page of the next buffer again. For reads
under TLS that was half of what the processor did.
"""

import ctypes

__all__ = ["keep_freed_memory"]

# Of <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3

_MIB = 1024 * 1024
# Larger than the buffers of answers, and small beside what a node needs.
_BLOCK_BYTES_MAX = 8 * _MIB
_KEPT_BYTES_MAX = 16 * _MIB


def keep_freed_memory() -> bool:
    """Keep up to 16 MiB of freed memory in the process; False where the C library has no such."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    is_set = mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES_MAX)
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX) and is_set)
