"""A slow model of cron: looks at every minute, with dates from the standard library."""

from datetime import UTC, datetime, timedelta

from goqueue.schedules import Zone, parse_cron

__all__ = ["model_ticks"]

_MINUTE = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Fields:
    """The fields of an expression as sets; only what the reader of `parse_cron` found."""

    def __init__(self, text: str) -> None:
        self._expression = parse_cron(text)
        fields = text.split()
        self._stars = fields[2].startswith("*"), fields[4].startswith("*")
        self.is_every_hour = set(self._expression.hours) == set(range(24))

    def matches(self, local: int) -> bool:
        shown = _EPOCH + timedelta(seconds=local)
        expression = self._expression
        tomorrow = shown + timedelta(days=1)
        is_last = tomorrow.month != shown.month
        in_month = bool(expression.days & 1 << shown.day) or (expression.is_last_day and is_last)
        in_week = bool(expression.weekdays & 1 << shown.isoweekday() % 7)
        in_days = in_month and in_week if any(self._stars) else in_month or in_week
        in_time = shown.minute in expression.minutes and shown.hour in expression.hours
        return in_days and in_time and bool(expression.months & 1 << shown.month)


def model_ticks(text: str, zone: Zone, first: int, end: int) -> list[int]:
    """Every tick from `first` to `end`, both whole minutes, of a zone with offsets of minutes."""
    fields = _Fields(text)
    ticks: list[int] = []
    shown: set[int] = set()
    # What clocks showed before counts as shown.
    before = first - 26 * 3600
    previous = before - _MINUTE + zone.offset_at(before - _MINUTE)
    for moment in range(before, end + _MINUTE, _MINUTE):
        local = moment + zone.offset_at(moment)
        skipped = range(previous + _MINUTE, local, _MINUTE)
        is_tick = fields.matches(local)
        if not fields.is_every_hour:
            is_tick = is_tick and local not in shown
            is_tick |= any(map(fields.matches, skipped))
            shown.update(skipped)
        shown.add(local)
        previous = local
        if is_tick and moment >= first:
            ticks.append(moment)
    return ticks
