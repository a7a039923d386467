cimport cython
from libc.stdint cimport int64_t, uint8_t

from goqueue.records.cursor cimport Cursor

@cython.final
cdef class IntegerColumn:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _start
    cdef const int64_t[::1] _numbers
    cdef const uint8_t[::1] _validity
    cdef bint _has_nulls

    @cython.locals(row=Py_ssize_t)
    cdef bint is_null(self, Py_ssize_t index) noexcept
    cdef int64_t at(self, Py_ssize_t index) noexcept

@cython.final
cdef class BinaryColumn:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _start
    cdef const int[::1] _ends
    cdef const uint8_t[::1] _validity
    cdef bint _has_nulls
    cdef Cursor data

    @cython.locals(row=Py_ssize_t)
    cdef bint is_null(self, Py_ssize_t index) noexcept
    cdef Py_ssize_t begin(self, Py_ssize_t index) noexcept

    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t size(self, Py_ssize_t index) except -1

@cython.final
cdef class HeaderColumn:
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _start
    cdef const int[::1] _ends
    cdef const uint8_t[::1] _validity
    cdef bint _has_nulls
    cdef BinaryColumn names, values

    cdef Py_ssize_t begin(self, Py_ssize_t index) noexcept

    @cython.locals(row=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t)
    cdef Py_ssize_t size(self, Py_ssize_t index) except -1

@cython.final
cdef class InputColumns:
    cdef readonly Py_ssize_t count
    cdef BinaryColumn keys, values
    cdef HeaderColumn headers
    cdef IntegerColumn priorities, partitions, timestamps, dues
