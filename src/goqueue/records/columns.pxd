cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport BAD_LENGTH, BAD_OFFSET, OK, TRUNCATED

cdef int64_t _RISE, _ANYTHING

@cython.final
cdef class Columns:
    cdef readonly object offsets, timestamps, positions, priorities, flags
    cdef readonly object key_lengths, value_lengths, header_lengths

    @cython.locals(reason=int)
    cdef int note(self, Cursor cursor, int64_t expected) except -1

    # Every index is below `room`, the length that all columns have.
    @cython.locals(
        offsets=int64_t[::1], timestamps=int64_t[::1], positions=int64_t[::1],
        priorities=uint8_t[::1], flags=uint8_t[::1], key_lengths=uint16_t[::1],
        value_lengths=uint32_t[::1], header_lengths=uint16_t[::1], room=Py_ssize_t,
        position=Py_ssize_t, index=Py_ssize_t, previous=int64_t, reason=int, is_next=bint,
    )
    cdef int _fill(self, Cursor cursor, int64_t expected) except -1

@cython.locals(cursor=Cursor, columns=Columns, reason=int)
cpdef Columns walk(data)

@cython.locals(cursor=Cursor, columns=Columns, reason=int)
cpdef scan(data, int64_t expected_offset=*)
