cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from goqueue.records.octets cimport address, is_utf8

# Python numbers elsewhere, and too often compared to be looked up each time.
cdef int64_t _STEPS_MAX, _ITEMS_MAX, _CALLS_MAX
cdef int64_t _END, _VARINT, _BOOLEAN, _SKIP, _BYTES, _TEXT, _ENUM, _UNION, _BLOCKS, _NEXT, _RETURN, _JUMP
cdef int _OK, _EARLY, _TEN_BYTES, _LARGE, _LENGTH, _NO_TEXT, _NO_BOOLEAN, _NO_INT, _SYMBOL, _BRANCH
cdef int _BLOCK_SIZE, _ITEMS, _CALLS, _FRAMES, _STEPS, _MORE
cdef int _INT_BITS, _SHIFT_MAX
cdef Py_ssize_t _FRAME

@cython.final
cdef class AvroWalk:
    cdef int64_t[::1] _program, _stack
    cdef uint64_t _number
    cdef int64_t _calls, _items
    cdef Py_ssize_t _top
    cdef readonly int reason
    cdef readonly Py_ssize_t place, rest

    @cython.locals(
        base="const uint8_t *", size=Py_ssize_t, index=Py_ssize_t, first=int64_t[::1], last=int64_t[::1],
    )
    cpdef list find_refused(self, data, starts, ends)

    cpdef int walk(self, data) except -1

    # An octet is as wide as the number that it is shifted into.
    @cython.locals(shift=int, octet=uint64_t, number=uint64_t)
    cdef Py_ssize_t _read(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end) noexcept

    cdef Py_ssize_t _skip_number(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end, int64_t bits) noexcept

    @cython.locals(after=Py_ssize_t, length=uint64_t)
    cdef Py_ssize_t _skip_octets(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end, bint is_text) noexcept

    @cython.locals(
        program=int64_t[::1], place=Py_ssize_t, steps=int64_t, step=int64_t, reason=int, number=uint64_t,
    )
    cdef int _walk(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end) noexcept

    @cython.locals(program=int64_t[::1], stack=int64_t[::1], top=Py_ssize_t, place=Py_ssize_t)
    cdef Py_ssize_t _turn(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end, int64_t step) noexcept

    @cython.locals(program=int64_t[::1], stack=int64_t[::1], top=Py_ssize_t, opener=Py_ssize_t)
    cdef Py_ssize_t _next_item(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end) noexcept

    @cython.locals(number=uint64_t, count=uint64_t)
    cdef Py_ssize_t _read_count(self, const uint8_t *base, Py_ssize_t position, Py_ssize_t end) noexcept
