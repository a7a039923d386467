cimport cython
from libc.stdint cimport int64_t

# Python numbers elsewhere, and too often compared to be looked up each time.
cdef Py_ssize_t _OFFSET_DIGITS_MAX, _COMPARED_MAX

@cython.final
cdef class _NamedLease:
    cdef str handle, start, end
    cdef list offsets

    @cython.locals(before=Py_ssize_t, after=Py_ssize_t, digits=str)
    cdef object read(self, str receipt)

@cython.final
cdef class NamedReceipts:
    cdef readonly list receipts
    cdef readonly tuple leases
    cdef list _handles, _offsets

    @cython.locals(
        leases=list, by_handle=dict, lease=_NamedLease, other=_NamedLease, found=_NamedLease, receipt=str,
    )
    cdef list _gather(self)
