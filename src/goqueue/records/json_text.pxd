# C types of json_text.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from goqueue.records.cursor cimport Cursor
from goqueue.records.octets cimport (
    SLACK_BYTES, base64_size, json_size, put, put_base64, put_moment, put_number, put_string, put_trace, resize,
    room_of,
)

# Python numbers elsewhere, and too often used to be looked up each time.
cdef int64_t SECOND
cdef Py_ssize_t _ROOM_MIN, _NUMBER_BYTES, _TRACE_BYTES, _DECIMALS_BYTES

@cython.final
cdef class JsonText:
    cdef bytearray _buffer
    # Of the buffer, which nobody else resizes.
    cdef uint8_t *_base
    cdef Py_ssize_t _room, size
    cdef int64_t _second
    cdef bytes _moment

    cdef int reserve(self, Py_ssize_t more) except -1
    cdef int _grow(self, Py_ssize_t more) except -1
    cdef int put(self, bytes piece) except -1

    @cython.locals(more=Py_ssize_t)
    cdef int put_number(self, bytes before, int64_t number, bytes after) except -1

    @cython.locals(more=Py_ssize_t)
    cdef int put_trace(self, bytes before, uint64_t high, uint64_t low, bytes after) except -1

    @cython.locals(second=int64_t, fraction=int64_t, more=Py_ssize_t)
    cdef int put_time(self, int64_t ns, bytes after) except -1

    cdef Py_ssize_t measure(self, Cursor source, Py_ssize_t start, Py_ssize_t end) except? -1

    @cython.locals(base="const uint8_t *", more=Py_ssize_t)
    cdef int put_string(self, Cursor source, Py_ssize_t start, Py_ssize_t end, Py_ssize_t size) except -1

    @cython.locals(base="const uint8_t *", more=Py_ssize_t)
    cdef int put_base64(self, Cursor source, Py_ssize_t start, Py_ssize_t end) except -1

    cdef int shorten(self, Py_ssize_t size) except -1

    @cython.locals(buffer=bytearray)
    cdef bytearray take(self)
