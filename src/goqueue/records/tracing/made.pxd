cimport cython
from libc.stdint cimport uint64_t, uint8_t

cdef uint64_t _U64, _GOLDEN, _FIRST, _SECOND

@cython.locals(number=uint64_t)
cpdef uint64_t mix(uint64_t one, uint64_t other)

cdef uint64_t _mixed(uint64_t number) noexcept

cdef uint64_t second_half(uint64_t high, uint64_t low, uint64_t offset) noexcept

@cython.locals(size=Py_ssize_t, place=Py_ssize_t, offset=uint64_t, first=uint64_t, second=uint64_t, third=uint64_t)
cdef int _make(uint64_t high, uint64_t low, offsets, bytearray made) except -1

@cython.locals(index=int)
cdef int _put(bytearray made, Py_ssize_t place, uint64_t number) except -1

@cython.locals(size=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, place=Py_ssize_t, number=uint64_t)
cpdef list choose(bytes contexts, uint64_t threshold)
