cimport cython
from libc.stdint cimport int64_t

from goqueue.delivery.wheel.column cimport push

# Python numbers elsewhere, and too often used to be looked up each time.
cdef int64_t TICK_NS
cdef int _FINE, _MIDDLE, _COARSE, _RING_BITS, _RING_MASK

# Every index is below the length that both columns have.
@cython.locals(
    known=dict, columns=tuple, last=int64_t, index=Py_ssize_t,
    due=int64_t, tick=int64_t, differing=int64_t, key=int64_t,
)
cdef int _sift(tuple rings, int64_t present, int64_t[::1] dues, int64_t[::1] timers, list left) except -1

@cython.locals(index=Py_ssize_t, due=int64_t, first=int64_t)
cdef int64_t _first_pending(int64_t[::1] dues, int64_t[::1] timers, object due_of) except -2
