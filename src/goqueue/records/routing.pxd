cimport cython
from libc.stdint cimport int64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport BAD_HEADER_COUNT, IS_COMMIT, IS_CONTROL, IS_DELAYED, OK
from goqueue.records.octets cimport hash_bytes

cdef int _TOO_LARGE, _NO_KEY, _NO_PARTITION, _BAD_PARTITION, _RESERVED, _HEADERS, LANES, _DELIVERY_BYTES
cdef int _DELIVERY_BLOCK_BYTES, _HEADERS_BYTES_MAX

@cython.final
cdef class Plan:
    cdef int64_t _partitions, _next, _body_bytes_max
    cdef bint _needs_key
    cdef int _forbidden
    cdef object _sizes
    cdef readonly object lanes
    cdef readonly list placed
    cdef readonly int64_t turned

    @cython.locals(
        sizes=int64_t[::1], lanes=int64_t[::1], placed=list, position=Py_ssize_t, given_bytes=Py_ssize_t,
        block_bytes=Py_ssize_t,
        target=int64_t, reason=int,
    )
    cpdef int place_all(self, Cursor cursor, list targets) except -1

    @cython.locals(target=int64_t)
    cdef int64_t _choose(self, Cursor cursor) noexcept

    cdef int64_t _obey(self, Cursor cursor, wanted) except? -1

    @cython.locals(sizes=int64_t[::1], target=Py_ssize_t, size=int64_t)
    cpdef dict part(self, Cursor cursor, batch)

    @cython.locals(into=list, copy=Cursor, position=Py_ssize_t, target=int64_t, reason=int)
    cdef int _fill(self, Cursor cursor, dict parts) except -1

cdef bint is_marked(Cursor cursor)

cpdef murmur3(data)
