"""How spans and moments of time are written: durations as Go writes them, times as RFC 3339 does.

Durations are also read in days and weeks, which people write: a day has 24 hours, whatever a clock
on a wall does. Answers are never written so, because programs in Go read them; `plain_duration` is
for texts that people read.

Everything is whole nanoseconds, computed with integers. Never reads a clock and never rounds up.
What cannot be read is a ValueError whose text is the reason; which code it is refused with
depends on where it stood, and is the caller's to choose.

Invariant: what a `format_` function wrote, its `parse_` function reads as the same number.
"""

import re

from goqueue.model.digits import (
    COMPILED,
    MONTH_STARTS,
    date_of,
    is_leap,
    sum_up,
    write_moment,
    year_start,
)
from goqueue.model.ids import HOUR, MILLISECOND, SECOND, Timestamp

__all__ = ["format_duration", "format_time", "parse_duration", "parse_time", "plain_duration"]

_LARGEST = (1 << 63) - 1
_SMALLEST = -(1 << 63)
_TEXT_MAX = 128

# Durations

_MICROSECOND = 1_000
_MINUTE = 60 * SECOND
# Both characters that look like a micro sign are in use.
_UNITS = {
    "ns": 1,
    "us": _MICROSECOND,
    "\u00b5s": _MICROSECOND,
    "\u03bcs": _MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": _MINUTE,
    "h": HOUR,
    "d": 24 * HOUR,
    "w": 7 * 24 * HOUR,
}
_EXPECTED = "must be a duration such as 250ms, 30s, 1h30m or 7d"
_PART = re.compile("([0-9]*)(?:\\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w)")


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as `250ms`, `1h30m`, `1.5h` or `7d`.

    A fraction of a nanosecond is dropped. A number without a unit is refused: what it counts
    differs from place to place.
    """
    if not text or len(text) > _TEXT_MAX:
        raise ValueError(_EXPECTED)
    if COMPILED:
        summed = sum_up(text)
        if summed >= 0:
            return summed
    if text.startswith("-"):
        raise ValueError("must not be negative")
    total = 0
    position = 1 if text.startswith("+") else 0
    while True:
        part = _PART.match(text, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(_EXPECTED)
        unit = _UNITS[part[3]]
        fraction = part[2] or ""
        scale: int = 10 ** len(fraction)
        total += int(part[1] or "0") * unit + int(fraction or "0") * unit // scale
        position = part.end()
        if position == len(text):
            break
    if total > _LARGEST:
        raise ValueError("longer than 292 years")
    return total


def format_duration(ns: int) -> str:
    """A duration as Go prints it: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    if ns < 0:
        return "-" + format_duration(-ns)
    if ns >= SECOND:
        minutes, rest = divmod(ns, _MINUTE)
        hours, minutes = divmod(minutes, 60)
        seconds = _decimal(rest, SECOND) + "s"
        if hours:
            return f"{hours}h{minutes}m{seconds}"
        return f"{minutes}m{seconds}" if minutes else seconds
    if ns >= MILLISECOND:
        return _decimal(ns, MILLISECOND) + "ms"
    if ns >= _MICROSECOND:
        return _decimal(ns, _MICROSECOND) + "\u00b5s"
    return f"{ns}ns" if ns else "0s"


_PLAIN_UNITS = (("d", 24 * HOUR), ("h", HOUR), ("m", _MINUTE), ("s", SECOND))


def plain_duration(ns: int) -> str:
    """A duration as people write it, exactly: `7d`, `1h30m`, `250ms`."""
    if ns < 0 or ns % SECOND:
        return format_duration(ns)
    parts = []
    for name, unit in _PLAIN_UNITS:
        count, ns = divmod(ns, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts) or "0s"


def _decimal(ns: int, unit: int) -> str:
    """The number of units with as many decimals as it needs; a unit is a power of ten."""
    whole, rest = divmod(ns, unit)
    if not rest:
        return str(whole)
    decimals = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{decimals}"


# Times

_DAY_SECONDS = 86_400
_FEBRUARY = 2
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def parse_time(text: str) -> Timestamp:
    """The moment that an RFC 3339 text names, with `Z` or an offset.

    A leap second is refused: the clock that stamps records has none.
    """
    found = _TIME.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if found is None:
        raise ValueError("not a time such as 2025-01-31T12:00:00Z")
    year, month, day, hour, minute, second = (int(digits) for digits in found.groups()[:6])
    if not (year and 1 <= month <= 12 and 1 <= day <= _days_in(year, month)):
        raise ValueError("no such day")
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time of day")
    fraction = found[7] or ""
    if len(fraction) > 9:
        raise ValueError("finer than a nanosecond")
    seconds = _days_before(year, month, day) * _DAY_SECONDS + hour * 3600 + minute * 60 + second
    seconds -= _offset_seconds(found[8], found[9], found[10])
    ns = seconds * SECOND + int(fraction.ljust(9, "0"))
    if not _SMALLEST <= ns <= _LARGEST:
        raise ValueError("not between the years 1677 and 2262")
    return Timestamp(ns)


def format_time(ns: int) -> str:
    """A moment in UTC, with as many decimals of a second as it needs."""
    if COMPILED and 0 <= ns <= _LARGEST:
        return write_moment(ns)
    seconds, fraction = divmod(ns, SECOND)
    days, second = divmod(seconds, _DAY_SECONDS)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    decimals = f".{fraction:09d}".rstrip("0") if fraction else ""
    year, month_and_day = divmod(date_of(days), 10_000)
    date = f"{year:04d}-{month_and_day // 100:02d}-{month_and_day % 100:02d}"
    return f"{date}T{hour:02d}:{minute:02d}:{second:02d}{decimals}Z"


def _offset_seconds(sign: str | None, hours: str | None, minutes: str | None) -> int:
    if sign is None or hours is None or minutes is None:
        return 0
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError("no such offset")
    seconds = int(hours) * 3600 + int(minutes) * 60
    return -seconds if sign == "-" else seconds


def _days_in(year: int, month: int) -> int:
    is_longer = month == _FEBRUARY and is_leap(year)
    return MONTH_STARTS[month] - MONTH_STARTS[month - 1] + is_longer


def _days_before(year: int, month: int, day: int) -> int:
    has_leap_day = month > _FEBRUARY and is_leap(year)
    return year_start(year) + MONTH_STARTS[month - 1] + has_leap_day + day - 1
