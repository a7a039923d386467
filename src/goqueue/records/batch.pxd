cimport cython
from libc.stdint cimport int64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport (
    HAS_HEADERS, IS_COMMIT, IS_COMPRESSED, IS_CONTROL, IS_DELAYED, IS_TOMBSTONE, OK, PRIORITY_MAX,
)
from goqueue.records.octets cimport digits_of
from goqueue.records.record cimport prove, weigh

cdef Py_ssize_t _FIRST_ROOM, _FLAGS_BYTE, _DIGITS
cdef bytes _TIME_BEGINS

@cython.final
cdef class Draft:
    cdef bytearray _built
    cdef Cursor _cursor

    cpdef put(self, message)

    @cython.locals(built=bytearray, end=Py_ssize_t)
    cpdef bytearray take(self)

    cdef int _note(self, priority, timestamp) except -1

    @cython.locals(size=Py_ssize_t)
    cdef int _append(self, bytes key, bytes value, bytes block, headers, int flags) except -1

    @cython.locals(before=Cursor, position=Py_ssize_t)
    cdef int _grow(self, Py_ssize_t size) except -1

@cython.locals(draft=Draft, index=Py_ssize_t)
cpdef bytearray build(messages)

cdef bytes _block(headers)

@cython.locals(flags=int)
cdef int _flags(message) except -1

@cython.locals(
    cursor=Cursor, column=int64_t[::1], position=Py_ssize_t, index=Py_ssize_t, due=int64_t, reason=int,
)
cpdef mark_delayed(bytearray batch, int64_t now, int64_t latest)

@cython.locals(cursor=Cursor, reason=int)
cpdef Py_ssize_t verify(batch) except -1

@cython.locals(
    cursor=Cursor, count=Py_ssize_t, position=Py_ssize_t, flags=int, offsets=int64_t, has_reserved=bint, reason=int,
)
cpdef object examine(batch)

@cython.locals(cursor=Cursor, reason=int)
cpdef sums(data, Py_ssize_t start, Py_ssize_t end)

@cython.locals(cursor=Cursor, count=Py_ssize_t, index=Py_ssize_t, position=Py_ssize_t, stamped=int64_t, newest=int64_t, reason=int)
cpdef object stamp(batch, int64_t first_offset, int64_t timestamp)
