cimport cython
from libc.stdint cimport int64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport BAD_OFFSET, OK

@cython.final
cdef class IndexedRecords:
    cdef Cursor cursor
    cdef int64_t _offset
    cdef Py_ssize_t _position, _count, _next
    # Every index is below `_count`, and both are one longer.
    cdef int64_t[::1] _offsets, _positions

    @cython.locals(cursor=Cursor, previous=int64_t, reason=int)
    cdef bint seek(self, int64_t offset) except -1

    @cython.locals(cursor=Cursor, position=Py_ssize_t, previous=int64_t, index=Py_ssize_t, reason=int)
    cdef int _index(self) except -1

    @cython.locals(index=Py_ssize_t, after=Py_ssize_t, middle=Py_ssize_t, reason=int)
    cdef bint _search(self, int64_t offset) except -1

@cython.final
cdef class RecordFinder:
    cdef list _pieces
    cdef IndexedRecords _last

    @cython.locals(piece=IndexedRecords)
    cdef Cursor find(self, int64_t offset)

    @cython.locals(gathered=bytearray, into=Cursor, cursor=Cursor)
    cpdef gather(self, offsets, Py_ssize_t size)
