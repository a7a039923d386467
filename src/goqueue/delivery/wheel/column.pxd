from cpython.array cimport array, resize_smart
from libc.stdint cimport int64_t

cdef inline int push(array column, int64_t number) except -1:
    cdef Py_ssize_t size = len(column)
    resize_smart(column, size + 1)
    column.data.as_longlongs[size] = number
    return 0
