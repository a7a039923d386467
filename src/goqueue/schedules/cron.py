"""Cron expressions: five fields, read once, and the days and times of day that they match.

Minute, hour, day of the month, month, day of the week, as in Vixie cron: `*`, numbers, names
(`JAN`, `MON`), ranges, lists and steps; `L` is the last day of a month, and Sunday is 0 or 7. Where
both day fields are restricted (neither begins with `*`), a day that matches one of them matches.
`@yearly`, `@monthly`, `@weekly`, `@daily` and `@hourly` stand for the usual expressions.

Knows the calendar and no zone: days are numbered from 1970-01-01, whatever clocks show there.

Cost: a day is tested in a microsecond; months that do not match are passed over whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from goqueue.model import date_of, is_leap

__all__ = ["CRON_TEXT_MAX", "CronExpression", "parse_cron"]

CRON_TEXT_MAX = 256

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ALL_HOURS = 24
_FIELD_COUNT = 5
_DIGITS_MAX = 4
_FEBRUARY = 2
# 1970-01-01 was a Thursday.
_FIRST_WEEKDAY = 4
# 29 February is at most eight years away; whatever matches at all matches within them.
_SEARCH_DAYS = 366 * 9


class CronExpression(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression matches. Sets of days, months and weekdays are bits by their number."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: int
    months: int
    weekdays: int
    is_last_day: bool
    # Whether a day has to match one of the two fields, not both.
    is_either: bool

    @property
    def is_every_hour(self) -> bool:
        """Whether it follows elapsed time, through gaps and overlaps."""
        return len(self.hours) == _ALL_HOURS

    @property
    def count(self) -> int:
        """How many times of a day match."""
        return len(self.hours) * len(self.minutes)

    def second_of(self, index: int) -> int:
        """The `index`-th time of a day that matches, in seconds since its midnight."""
        hour, minute = divmod(index, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60

    def count_upto(self, second: int) -> int:
        """How many of the times that match are not after so many seconds since midnight."""
        if second < 0:
            return 0
        hour, rest = divmod(second, 3600)
        index = bisect_left(self.hours, hour)
        is_matched = index < len(self.hours) and self.hours[index] == hour
        matched = bisect_right(self.minutes, rest // 60) if is_matched else 0
        return index * len(self.minutes) + matched

    def next_day(self, day: int) -> int | None:
        """The first day from this one on that matches; None if there is none for years."""
        end = day + _SEARCH_DAYS
        while day < end:
            year, month, number = _date(day)
            if not self.months >> month & 1:
                day += _month_days(year, month) - number + 1
            elif self._matches(day, number, is_last=_month_days(year, month) == number):
                return day
            else:
                day += 1
        return None

    def last_day(self, day: int) -> int | None:
        """The last day up to this one that matches; None if there is none for years."""
        end = max(0, day - _SEARCH_DAYS)
        while day >= end:
            year, month, number = _date(day)
            if not self.months >> month & 1:
                day -= number
            elif self._matches(day, number, is_last=_month_days(year, month) == number):
                return day
            else:
                day -= 1
        return None

    def _matches(self, day: int, number: int, *, is_last: bool) -> bool:
        in_month = bool(self.days >> number & 1) or (self.is_last_day and is_last)
        in_week = bool(self.weekdays >> (day + _FIRST_WEEKDAY) % 7 & 1)
        return in_month or in_week if self.is_either else in_month and in_week


class _Field(msgspec.Struct, frozen=True):
    """One field: its name, its bounds, and names for its numbers from the lowest of them on."""

    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()

    def numbers(self, text: str) -> list[int]:
        """The numbers that a field matches, sorted."""
        found: dict[int, None] = {}
        for part in text.upper().split(","):
            span, slash, step_text = part.partition("/")
            step = self._read(step_text, 1) if slash else 1
            low, dash, high = span.partition("-")
            begin, end = self.lowest, self.highest
            if span != "*":
                begin = self._named(low)
                # 5/15 is 5-59/15.
                if dash:
                    end = self._named(high)
                elif not slash:
                    end = begin
            if end < begin:
                raise ValueError(f"{self.name}: {span.lower()} runs backwards")
            found.update(dict.fromkeys(range(begin, end + 1, step)))
        return sorted(found)

    def _named(self, text: str) -> int:
        if text in self.names:
            return self.names.index(text) + self.lowest
        return self._read(text, self.lowest)

    def _read(self, text: str, lowest: int) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
        if not is_number or not lowest <= int(text) <= self.highest:
            shown = text.lower() or "nothing"
            raise ValueError(
                f"{self.name}: {shown} is not a number from {lowest} to {self.highest}"
            )
        return int(text)


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of week", 0, 7, _WEEKDAYS)


def parse_cron(text: str) -> CronExpression:
    """Read an expression; ValueError says what is wrong with it."""
    if len(text) > CRON_TEXT_MAX:
        raise ValueError(f"has more than {CRON_TEXT_MAX} characters")
    fields = text.split()
    if len(fields) == 1 and fields[0].startswith("@"):
        known = _NICKNAMES.get(fields[0].lower())
        if known is None:
            raise ValueError(f"{fields[0]} is not one of {', '.join(_NICKNAMES)}")
        fields = known.split()
    if len(fields) != _FIELD_COUNT:
        raise ValueError(
            "must have five fields: minute, hour, day of month, month, day of week; "
            f"it has {len(fields)}"
        )
    days = fields[2].upper().split(",")
    plain_days = [each for each in days if each != "L"]
    expression = CronExpression(
        minutes=tuple(_MINUTE.numbers(fields[0])),
        hours=tuple(_HOUR.numbers(fields[1])),
        days=_bits(_DAY.numbers(",".join(plain_days)) if plain_days else ()),
        months=_bits(_MONTH.numbers(fields[3])),
        weekdays=_bits([each % 7 for each in _WEEKDAY.numbers(fields[4])]),
        is_last_day="L" in days,
        is_either=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )
    if expression.next_day(0) is None:
        raise ValueError("matches no day: no such month has such a day")
    return expression


def _bits(numbers: Sequence[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _date(day: int) -> tuple[int, int, int]:
    date = date_of(day)
    return date // 10_000, date // 100 % 100, date % 100


def _month_days(year: int, month: int) -> int:
    return _MONTH_DAYS[month - 1] + (month == _FEBRUARY and is_leap(year))
