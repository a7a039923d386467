cimport cython
from libc.stdint cimport uint64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport HEADER_SIZE, IS_CONTROL, OK
from goqueue.records.tracing.made cimport second_half

@cython.locals(room=Py_ssize_t, position=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, has_keys=bint, reason=int, context=bytes)
cdef bint _look(Cursor cursor, uint64_t[::1] keys, dict contexts) except -1

@cython.locals(
    cursor=Cursor, high=uint64_t, low=uint64_t, position=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    length=Py_ssize_t, reason=int, context=bytes, is_followed=bint,
)
cpdef follow(batch, tuple seed, uint64_t first, uint64_t threshold)

@cython.locals(cursor=Cursor)
cpdef fingerprint(bytes key)

@cython.locals(cursor=Cursor, position=Py_ssize_t, reason=int, context=bytes, found=dict)
cpdef dict find_contexts(data)

@cython.locals(end=Py_ssize_t, position=Py_ssize_t, start=Py_ssize_t, value=Py_ssize_t, following=Py_ssize_t, left=int, origin=bytes, context=bytes)
cdef bytes context_of(Cursor cursor)

cdef int _DASH

@cython.locals(digits=bytes, context=bytes)
cpdef bytes read_context(bytes text)
cdef bytes _read_offset(bytes digits)
