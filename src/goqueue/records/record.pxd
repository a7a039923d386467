cimport cython
from libc.stdint cimport int64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport (
    HAS_HEADERS, HEADER_SIZE, IS_COMMIT, IS_COMPRESSED, IS_CONTROL, IS_DELAYED, IS_TOMBSTONE, OK,
    PROVEN_BITS, RESERVED_BITS,
)

# Imported as Python numbers, and too often compared to be looked up each time.
cdef Py_ssize_t HEADERS_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX

@cython.locals(cursor=Cursor, reason=int)
cpdef decode(data, Py_ssize_t position=*)

cdef object _read(Cursor cursor)

@cython.locals(
    cursor=Cursor, wanted=list, picked=list, count=Py_ssize_t, index=Py_ssize_t,
    position=Py_ssize_t, previous=int64_t, offset=int64_t, reason=int,
)
cpdef list pick(data, offsets)

@cython.locals(
    cursor=Cursor, shown=list, count=int64_t, position=Py_ssize_t, previous=int64_t, reason=int,
    index=Py_ssize_t, first=int64_t, following=int64_t, is_left_out=bint,
)
cpdef list visible(data, int64_t from_offset, int64_t count_max, without=*)

cdef object _show(Cursor cursor)

@cython.locals(cursor=Cursor, value=bytes, block=bytes, size=Py_ssize_t)
cpdef bytes encode(record)

@cython.locals(proven=int, name=str)
cpdef int prove(int flags, bytes key, headers) except -1

cpdef Py_ssize_t weigh(bytes key, bytes value, bytes block) except -1

@cython.locals(pieces=list, encoded=bytes, name=str, value=bytes, size=Py_ssize_t, cursor=Cursor)
cpdef bytes encode_headers(headers)

@cython.locals(
    size=Py_ssize_t, left=int, position=Py_ssize_t, name_end=Py_ssize_t, end=Py_ssize_t, headers=list, name=str,
)
cpdef tuple decode_headers(bytes block)

@cython.locals(start=Py_ssize_t, end=Py_ssize_t)
cdef Py_ssize_t _end_of_piece(bytes block, Py_ssize_t position) except -1
