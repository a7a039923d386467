cimport cython
from libc.stdint cimport int64_t

# Python numbers elsewhere, and too often used to be looked up each time.
cdef int _SHIFT, _MASK, _BLOCK_BYTES

# A place within a block is below the length of its octets, whatever the offset is.
@cython.locals(found=list, octets=bytearray, block=int64_t, offset=int64_t)
cpdef list bits_by_block(offsets)
