cimport cython
from libc.stdint cimport int64_t

from goqueue.records.arrow.input cimport IntegerColumn, HeaderColumn, BinaryColumn, InputColumns
from goqueue.records.cursor cimport Cursor
from goqueue.records.layout cimport (
    CONTROL_PREFIX, HAS_HEADERS, HEADER_SIZE, IS_TOMBSTONE, OFFSET_MAX, PRIORITY_MAX,
)
from goqueue.records.octets cimport digits_of

# Python numbers elsewhere, and too often used to be looked up each time.
cdef Py_ssize_t HEADERS_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX, _DELIVER_NAME_SIZE, _DUE_DIGITS
cdef int64_t _DUE_MIN
cdef int _NORMAL
cdef bytes _DELIVER_NAME

@cython.final
cdef class ArrowWriter:
    cdef int64_t _partitions, _body_bytes_max, _turn
    cdef object _sizes, _counts, _targets, _blocks
    cdef bint _is_keyed

    cpdef object write(self, InputColumns rows)

    # Targets are below the number of partitions, and the columns of rows as long as the input.
    @cython.locals(
        sizes=int64_t[::1], counts=int64_t[::1], targets=int64_t[::1], blocks=int64_t[::1],
        index=Py_ssize_t, key_size=Py_ssize_t, value_size=Py_ssize_t, given=int64_t,
        block_size=Py_ssize_t, target=int64_t,
    )
    cdef int _measure(self, InputColumns rows) except -1

    @cython.locals(
        headers=HeaderColumn, names=BinaryColumn, size=Py_ssize_t, first=Py_ssize_t, place=Py_ssize_t,
        length=Py_ssize_t, start=Py_ssize_t,
    )
    cdef Py_ssize_t _weigh(self, InputColumns rows, Py_ssize_t index) except -1

    @cython.locals(due=int64_t)
    cdef int _check_due(self, IntegerColumn dues, Py_ssize_t index) except -1

    @cython.locals(start=Py_ssize_t, number=int64_t)
    cdef int _check(self, InputColumns rows, Py_ssize_t index, Py_ssize_t key_size) except -1

    @cython.locals(target=int64_t, start=Py_ssize_t)
    cdef int64_t _choose(self, InputColumns rows, Py_ssize_t index, Py_ssize_t key_size) except -1

    @cython.locals(
        targets=int64_t[::1], blocks=int64_t[::1], into=list, record=Cursor, index=Py_ssize_t,
        key_size=Py_ssize_t, value_size=Py_ssize_t, start=Py_ssize_t,
    )
    cdef int _fill(self, InputColumns rows, dict batches) except -1

    @cython.locals(
        headers=HeaderColumn, is_delayed=bint, count=Py_ssize_t, first=Py_ssize_t, place=Py_ssize_t,
        length=Py_ssize_t, start=Py_ssize_t,
    )
    cdef int _write_headers(self, InputColumns rows, Py_ssize_t index, Cursor record) except -1
