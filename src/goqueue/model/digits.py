# cython: boundscheck=False, wraparound=False
"""Common spans and moments read and written digit by digit, and the calendar that takes.

Compiled, because each message of a delayed batch has a span and a moment: there this is several
times faster than the general way of `notation`. Interpreted it is slower, and nobody takes it.

Invariant: what these functions answer is what the general way answers.
"""

from goqueue.model.ids import HOUR, MILLISECOND, SECOND

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

__all__ = [
    "COMPILED",
    "MONTH_STARTS",
    "date_of",
    "is_leap",
    "sum_up",
    "write_moment",
    "year_start",
]

COMPILED: bool = cython.compiled

# Days before each month of a year that is no leap year.
MONTH_STARTS = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_CYCLE_YEARS = 400
_CYCLE_DAYS = 146_097
_DAY_SECONDS = 86_400
_MINUTE = 60 * SECOND
_ZERO = ord("0")
_ZULU = ord("Z")
_TEMPLATE = b"0000-00-00T00:00:00.000000000Z"
# Digits of a number, and nanoseconds of a sum, that leave room for one part more.
_DIGITS_MAX = 6
_SUM_MAX = 1 << 62


def sum_up(text: str) -> int:
    """Nanoseconds of a duration of small whole numbers and plain units; -1 if it is another."""
    size = len(text)
    place = 0
    total = 0
    while place < size:
        number = 0
        begin = place
        while place < size and "0" <= text[place] <= "9":
            number = number * 10 + ord(text[place]) - _ZERO
            place += 1
        # More digits than these may be more than there is room for.
        if place in (begin, size) or place - begin > _DIGITS_MAX:
            return -1
        unit = text[place]
        place += 1
        if unit == "s":
            total += number * SECOND
        elif unit == "h":
            total += number * HOUR
        elif unit == "m" and place < size and text[place] == "s":
            total += number * MILLISECOND
            place += 1
        elif unit == "m":
            total += number * _MINUTE
        else:
            return -1
        if total > _SUM_MAX:
            return -1
    return total


def write_moment(ns: int) -> str:
    """A moment from 1970 on."""
    text = bytearray(_TEMPLATE)
    seconds = ns // SECOND
    fraction = ns - seconds * SECOND
    days = seconds // _DAY_SECONDS
    second = seconds - days * _DAY_SECONDS
    date = date_of(days)
    _put(text, 3, date // 10_000)
    _put(text, 6, date // 100 % 100)
    _put(text, 9, date % 100)
    _put(text, 12, second // 3600)
    _put(text, 15, second // 60 % 60)
    _put(text, 18, second % 60)
    end = 19
    if fraction:
        end = 29
        while fraction % 10 == 0:
            fraction //= 10
            end -= 1
        _put(text, end - 1, fraction)
    text[end] = _ZULU
    return text[: end + 1].decode("ascii")


def _put(text: bytearray, last: int, number: int) -> None:
    """Write a number whose last digit stands at `last`; what stands before it is zeros."""
    while number > 0:
        text[last] = _ZERO + number % 10
        number //= 10
        last -= 1


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def year_start(year: int) -> int:
    """Days from 1970-01-01 to the first day of a year."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 - 719_162


def date_of(days: int) -> int:
    """The date so many days after 1970-01-01, as the number that YYYYMMDD is."""
    # Years have 365.2425 days on average, so the guess is off by one at most.
    year = days * _CYCLE_YEARS // _CYCLE_DAYS + 1970
    if year_start(year) > days:
        year -= 1
    elif year_start(year + 1) <= days:
        year += 1
    rest = days - year_start(year)
    if is_leap(year) and rest >= 59:
        if rest == 59:
            return year * 10_000 + 229
        rest -= 1
    month = min(rest // 28, 11)
    if MONTH_STARTS[month] > rest:
        month -= 1
    start = MONTH_STARTS[month]
    return year * 10_000 + (month + 1) * 100 + rest - start + 1
