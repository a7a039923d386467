cimport cython
from libc.stdint cimport int64_t

# Python numbers elsewhere, and too often used to be looked up each time.
cdef int64_t HOUR, MILLISECOND, SECOND
cdef int64_t _CYCLE_DAYS, _CYCLE_YEARS, _DAY_SECONDS, _MINUTE, _SUM_MAX
cdef int _DIGITS_MAX, _ZERO, _ZULU

@cython.locals(
    size=Py_ssize_t, place=Py_ssize_t, begin=Py_ssize_t, total=int64_t, number=int64_t, unit=Py_UCS4,
)
cpdef int64_t sum_up(str text) except? -1

# Every place is one of the template.
@cython.locals(
    text=bytearray, seconds=int64_t, fraction=int64_t, days=int64_t, second=int64_t, date=int64_t,
    end=Py_ssize_t,
)
cpdef str write_moment(int64_t ns)

cdef int _put(bytearray text, Py_ssize_t last, int64_t number) except -1

cpdef bint is_leap(int64_t year) noexcept

@cython.locals(before=int64_t)
cpdef int64_t year_start(int64_t year) noexcept

@cython.locals(year=int64_t, rest=int64_t, month=int, start=int64_t)
cpdef int64_t date_of(int64_t days) except? -1
