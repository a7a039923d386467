cimport cython
from libc.stdint cimport uint64_t, uint8_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport HEADER_SIZE, IS_CONTROL, OK

@cython.locals(room=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, has_keys=bint, reason=int, context=bytes)
cdef bint _scan_traces(Cursor cursor, uint64_t[::1] keys, dict contexts) except -1

@cython.locals(
    cursor=Cursor, high=uint64_t, low=uint64_t, position=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    length=Py_ssize_t, reason=int, context=bytes, is_sampled=bint,
)
cpdef scan_sampled(batch, tuple seed, uint64_t first, uint64_t threshold)

@cython.locals(cursor=Cursor)
cpdef key_fingerprint(bytes key)

@cython.locals(cursor=Cursor, position=Py_ssize_t, reason=int, context=bytes, found=dict)
cpdef dict find_trace_contexts(data)

@cython.locals(end=Py_ssize_t, position=Py_ssize_t, start=Py_ssize_t, value=Py_ssize_t, following=Py_ssize_t, left=int, origin=bytes, context=bytes)
cdef bytes header_context(Cursor cursor)

@cython.locals(cursor=Cursor)
cpdef bytes parse_traceparent(bytes text)
cdef bytes _read_offset(bytes digits)

cdef uint64_t _U64, _GOLDEN, _FIRST, _SECOND

@cython.locals(number=uint64_t)
cpdef uint64_t mix_seed(uint64_t one, uint64_t other)

cdef uint64_t _mixed(uint64_t number) noexcept

cdef uint64_t trace_high(uint64_t high, uint64_t offset) noexcept

cdef uint64_t trace_low(uint64_t high, uint64_t low, uint64_t offset) noexcept

@cython.locals(size=Py_ssize_t, place=Py_ssize_t, offset=uint64_t, first=uint64_t, second=uint64_t, third=uint64_t)
cdef int _derive(uint64_t high, uint64_t low, offsets, bytearray derived) except -1

@cython.locals(index=int)
cdef int _put(bytearray derived, Py_ssize_t place, uint64_t number) except -1

@cython.locals(size=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, place=Py_ssize_t, number=uint64_t)
cpdef list sampled_indexes(bytes contexts, uint64_t threshold)
