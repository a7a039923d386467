cimport cython
from libc.stdint cimport int64_t, uint8_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport BAD_LENGTH, HEADER_SIZE, IS_COMPRESSED, IS_CONTROL, IS_DELAYED, IS_TOMBSTONE, OK, SCHEMA_FRAME_BYTES, TRUNCATED
from goqueue.records.traceparent cimport header_context

@cython.locals(cursor=Cursor, position=Py_ssize_t, start=Py_ssize_t, previous=int64_t, next_offset=int64_t, reached=bint, reason=int)
cpdef slice_records(data, int64_t from_offset, int64_t below_offset, int64_t max_bytes)

cpdef gather_records(pieces, list offsets, Py_ssize_t size)

@cython.locals(
    gathered=bytearray, into=Cursor, cursor=Cursor, count=Py_ssize_t, index=Py_ssize_t, position=Py_ssize_t,
    previous=int64_t, wanted=int64_t, reason=int,
)
cdef _gather(pieces, int64_t[::1] offsets, int64_t[::1] positions, Py_ssize_t size)

# Every offset of the order is one of the others, so the index that is found is below their count.
@cython.locals(
    cursor=Cursor, arranged=bytearray, into=Cursor, count=Py_ssize_t, index=Py_ssize_t, after=Py_ssize_t,
    middle=Py_ssize_t, wanted=int64_t,
)
cdef bytearray _rearrange(bytearray gathered, int64_t[::1] offsets, int64_t[::1] positions, list order)

@cython.locals(
    cursor=Cursor, columns=int64_t[::1], room=Py_ssize_t, marked=Py_ssize_t, place=Py_ssize_t,
    count=Py_ssize_t, previous=int64_t, max_timestamp=int64_t, reason=int,
)
cpdef index_records(data, int64_t position, int64_t last, int64_t interval)

@cython.locals(position=Py_ssize_t, size=Py_ssize_t, previous=int64_t, reason=int, key=bytes, context=bytes)
cdef int64_t _scan_messages(Cursor cursor, int64_t from_offset, bint with_keys, list known) except -1

@cython.locals(cursor=Cursor, count=Py_ssize_t)
cpdef find_delayed(data, int64_t first=*)

@cython.locals(room=Py_ssize_t, seen=Py_ssize_t, count=Py_ssize_t, position=Py_ssize_t, previous=int64_t, reason=int)
cdef Py_ssize_t _find_delayed(Cursor cursor, int64_t first, int64_t[::1] offsets, int64_t[::1] dues, uint8_t[::1] priorities) except -1

cdef int64_t _OPAQUE

@cython.locals(
    room=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t, first=Py_ssize_t, start=Py_ssize_t,
    last_id=int64_t, schema_id=int64_t, reason=int,
)
cdef int _scan_values(Cursor cursor, int64_t[::1] starts, int64_t[::1] ends, list runs) except -1

@cython.locals(cursor=Cursor, position=Py_ssize_t, reason=int)
cpdef bint has_compressed(data) except -1

@cython.locals(cursor=Cursor, position=Py_ssize_t, previous=int64_t, reason=int)
cpdef last_offset(data)
