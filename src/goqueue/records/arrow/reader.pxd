cimport cython
from libc.stdint cimport int64_t, uint8_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport (
    BATCH_HEADER, HEADER_SIZE, IS_COMPRESSED, IS_CONTROL, IS_DELAYED, IS_TOMBSTONE, OK,
)

cdef int64_t _BYTES_MAX
cdef int _BATCH_HEADER_SIZE, _PACKED

@cython.final
cdef class ArrowReader:
    cdef object _data
    cdef Cursor _cursor
    cdef int64_t _first, _below, _previous
    cdef object _positions
    cdef int64_t[::1] _aborted
    cdef bint _with_headers, _with_keys, _with_values
    cdef Py_ssize_t _position, _range, _rows, _headers
    cdef int64_t _bytes, _key_bytes, _value_bytes, _name_bytes, _header_bytes

    @cython.locals(reason=int)
    cpdef object read(self, Py_ssize_t rows_max, int64_t bytes_max)

    # `positions` has room for `rows_max`, which read() has seen to.
    @cython.locals(cursor=Cursor, positions=int64_t[::1], reason=int, size=Py_ssize_t, is_packed=bint)
    cdef int _measure(self, Py_ssize_t rows_max, int64_t bytes_max) except? -1

    @cython.locals(aborted=int64_t[::1], offset=int64_t, edges=Py_ssize_t)
    cdef bint _is_seen(self, Cursor cursor) except -1

    @cython.locals(position=Py_ssize_t, start=Py_ssize_t, left=int, length=int, value_length=int)
    cdef int _measure_headers(self, Cursor cursor) except -1

    cdef bint _is_note(self, Cursor cursor, Py_ssize_t start, Py_ssize_t length) noexcept

    # Every column has as many rows as were measured, and offsets one more.
    @cython.locals(
        cursor=Cursor, keys=Cursor, values=Cursor, positions=int64_t[::1], offsets=int64_t[::1],
        timestamps=int64_t[::1], priorities=int[::1], flags=uint8_t[::1], key_ends=int[::1],
        key_bits=uint8_t[::1], value_ends=int[::1], value_bits=uint8_t[::1], index=Py_ssize_t,
        start=Py_ssize_t, end=Py_ssize_t, reason=int,
    )
    cdef int _fill(self, output) except -1

    @cython.locals(
        cursor=Cursor, names=Cursor, values=Cursor, positions=int64_t[::1], rows=int[::1],
        name_ends=int[::1], value_ends=int[::1], count=Py_ssize_t, index=Py_ssize_t,
        position=Py_ssize_t, start=Py_ssize_t, left=int, length=int, value_length=int, reason=int,
    )
    cdef int _fill_headers(self, output) except -1

    @cython.locals(cursor=Cursor, count=Py_ssize_t, reason=int)
    cdef object _unpack(self, Py_ssize_t rows_max, int64_t bytes_max)
