cimport cython

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport (
    HAS_HEADERS, HEADER_SIZE, IS_COMMIT, IS_COMPRESSED, IS_CONTROL, IS_DELAYED, IS_TOMBSTONE, OK,
    PROVEN_BITS, RESERVED_BITS,
)

@cython.locals(cursor=Cursor, reason=int)
cpdef decode(data, Py_ssize_t position=*)

@cython.locals(cursor=Cursor, value=bytes, block=bytes, size=Py_ssize_t)
cpdef bytes encode(record)

@cython.locals(proven=int, name=str)
cpdef int prove(int flags, bytes key, headers) except -1

cpdef Py_ssize_t weigh(bytes key, bytes value, bytes block) except -1

@cython.locals(size=Py_ssize_t, left=int, position=Py_ssize_t, headers=list)
cpdef tuple decode_headers(bytes block)

@cython.locals(start=Py_ssize_t, end=Py_ssize_t)
cdef tuple _piece(bytes block, Py_ssize_t position)
