"""Numbers as people read them in a narrow column."""

import datetime as dt

from goqueue.model import MILLISECOND, SECOND

__all__ = ["UNKNOWN", "age", "clock", "rate", "short", "signed"]

UNKNOWN = "-"
_UNITS = ("k", "M", "G", "T", "P", "E")
_PLAIN_MAX = 99_999.5
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def short(count: float) -> str:
    """At most six characters, and a sign."""
    if abs(count) < _PLAIN_MAX:
        return f"{count:,.0f}"
    for unit in _UNITS:
        count /= 1000
        if abs(count) < 999.95:
            return f"{count:.1f}{unit}"
    return f"{count:.0f}{_UNITS[-1]}"


def rate(per_second: float | None) -> str:
    if per_second is None:
        return UNKNOWN
    if 0 < abs(per_second) < 9.95:
        return f"{per_second:.1f}" if abs(per_second) >= 0.05 else f"{per_second:.2f}"
    return short(per_second)


def signed(per_second: float | None) -> str:
    """A rate that may fall."""
    if per_second is None or not round(per_second, 2):
        return UNKNOWN if per_second is None else "0"
    return f"+{rate(per_second)}" if per_second > 0 else rate(per_second)


def age(span_ns: int) -> str:
    """A duration in its two largest units."""
    if span_ns < SECOND:
        return f"{span_ns // MILLISECOND}ms" if span_ns else "0s"
    seconds = span_ns // SECOND
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE:02}s"
    if seconds < _DAY:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02}m"
    return f"{seconds // _DAY}d{seconds % _DAY // _HOUR:02}h"


def clock(time: dt.datetime) -> str:
    """The time of day where the reader is."""
    return f"{time.astimezone():%H:%M:%S}"
