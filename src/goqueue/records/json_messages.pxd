cimport cython
from libc.stdint cimport int64_t, uint64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.json_text cimport JsonText
from goqueue.records.layout cimport (
    CONTROL_PREFIX, HEADER_SIZE, IS_COMPRESSED, IS_CONTROL, IS_DELAYED, IS_TOMBSTONE, OK,
)
from goqueue.records.record_finder cimport RecordFinder
from goqueue.records.traceparent cimport header_context, trace_high, trace_low

# Python numbers and bytes elsewhere, and too often used to be looked up each time.
cdef Py_ssize_t _QUICK_HEADERS_MAX, _STEP_BYTES, _CONTEXT_BYTES, _TRACE_BYTES, _ORIGIN_BYTES
cdef bytes _CODEC, _BATCH

@cython.final
cdef class JsonMessages:
    cdef readonly int64_t room, count, last_offset
    cdef readonly bint is_full
    cdef JsonText _text
    cdef Py_ssize_t _step_end
    cdef bytes _start, _lease
    cdef tuple _priorities
    cdef bint _has_lease, _has_seed
    cdef uint64_t _seed_high, _seed_low, _seed_max

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t add_found(self, RecordFinder finder, offsets, Py_ssize_t first=*) except -1

    @cython.locals(is_over=bint)
    cpdef bint ends_step(self) except -1

    @cython.locals(
        cursor=Cursor, position=Py_ssize_t, previous=int64_t, reason=int, index=Py_ssize_t, first=int64_t,
        following=int64_t, is_left_out=bint,
    )
    cpdef int64_t add_visible(self, data, int64_t from_offset, int64_t count_max, without=*) except -1

    @cython.locals(
        text=JsonText, values=Cursor, value_start=Py_ssize_t, value_end=Py_ssize_t, key_start=Py_ssize_t,
        key_end=Py_ssize_t, size=int64_t, value_size=Py_ssize_t, key_size=Py_ssize_t,
        is_unpacked=bint, has_headers=bint, unpacked=bytes, priority=bytes, reason=int,
    )
    cdef int _add(self, Cursor cursor) except -1

    cdef int _put(self, Cursor source, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size) except -1

    @cython.locals(
        text=JsonText, position=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, value=Py_ssize_t,
        size=Py_ssize_t, left=int, before=bytes, unreadable=list,
    )
    cdef list _put_headers(self, Cursor cursor, bint is_unpacked)

    @cython.locals(values=Cursor, unreadable=list, shown=dict, before=bytes)
    cdef list _put_many_headers(self, Cursor cursor, bint is_unpacked)

    @cython.locals(context=bytes)
    cdef int _put_trace(self, Cursor cursor, bint has_headers) except -1

    @cython.locals(low=uint64_t)
    cdef bint _put_derived(self, uint64_t offset) except -1

cdef bytes _decompressed(Cursor cursor)

cdef bint _is_hidden(bytes name, bint is_unpacked) except -1

@cython.locals(block=Py_ssize_t, position=Py_ssize_t, start=Py_ssize_t, length=Py_ssize_t, earlier=Py_ssize_t, other=Py_ssize_t)
cdef bint _has_name_twice(Cursor cursor) except -1
