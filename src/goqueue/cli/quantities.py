"""Times, durations and sizes as people type and read them.

Every time is shown in one form, RFC 3339 to the millisecond, which the time flags also take. A size
is in binary units; decimal ones (`MB`) are taken too. What cannot be read is a ValueError whose
text says what is expected; the caller names the flag.

Invariant: what `exact_duration` and `exact_size` show, the `parse_` functions read as the same
number. Everything else that is shown is rounded down.
"""

import datetime as dt
import re

import click

from goqueue.cli.options import is_local_time
from goqueue.model import (
    HOUR,
    MILLISECOND,
    SECOND,
    format_time,
    parse_duration,
    parse_time,
    plain_duration,
)

__all__ = [
    "exact_duration",
    "exact_size",
    "parse_size",
    "read_duration",
    "read_time",
    "shown_duration",
    "shown_time",
    "sized",
]

_MINUTE = 60 * SECOND
_DAY = 24 * HOUR
_SHOWN = (("d", _DAY), ("h", HOUR), ("m", _MINUTE), ("s", SECOND))
_SHOWN_PARTS = 2
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NS_PER_US = 1000

_KIB = 1024
_SIZE = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,6}))?\s?([KMGT]i?B?|B)?")
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


# Durations


def read_duration(flag: str, text: str) -> int:
    """Nanoseconds of the duration of a flag; anything else is a usage error."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"--{flag} {text!a}: {error}") from error


def shown_duration(duration: str | int) -> str:
    """A duration of the API or in nanoseconds, rounded for people: `1m29s`, `3d4h`, `12ms`."""
    duration_ns = parse_duration(duration) if isinstance(duration, str) else duration
    if duration_ns < SECOND:
        return f"{duration_ns // MILLISECOND}ms" if duration_ns else "0s"
    parts = _parts(duration_ns)
    first = next(index for index, part in enumerate(parts) if part)
    return _joined(parts[:first] + parts[first : first + _SHOWN_PARTS])


def exact_duration(duration_ns: int) -> str:
    """A duration that can be typed again: `7d`, `1h30m`, `250ms`."""
    return plain_duration(duration_ns)


def _parts(duration_ns: int) -> list[int]:
    parts = []
    for _, unit in _SHOWN:
        count, duration_ns = divmod(duration_ns, unit)
        parts.append(count)
    return parts


def _joined(parts: list[int]) -> str:
    return "".join(
        f"{count}{name}" for count, (name, _) in zip(parts, _SHOWN, strict=False) if count
    )


# Times


def shown_time(moment: dt.datetime | int | None) -> str:
    """A time as RFC 3339 to the millisecond, in UTC or local; nothing for one that has not come.

    A number is nanoseconds since 1970.
    """
    if moment is None:
        return ""
    is_local = is_local_time()
    if isinstance(moment, int):
        if not is_local:
            # Every line of `consume` has one: a datetime would take five times as long.
            whole, _, fraction = format_time(moment)[:-1].partition(".")
            return f"{whole}.{fraction[:3]:0<3}Z"
        moment = _EPOCH + dt.timedelta(microseconds=moment // _NS_PER_US)
    if is_local:
        return moment.astimezone().isoformat(timespec="milliseconds")
    text = moment.astimezone(dt.UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def read_time(flag: str, text: str, now_ns: int) -> str:
    """The time of a flag: RFC 3339, or a duration ago (`15m` is a quarter of an hour ago)."""
    try:
        return format_time(now_ns - parse_duration(text))
    except ValueError:
        # It is a time, then, or nothing.
        pass
    try:
        return format_time(parse_time(text))
    except ValueError as error:
        words = f"--{flag} is neither a timestamp (2026-01-31T12:00:00Z) nor a duration (15m, 7d)"
        raise click.UsageError(f"{words}: {text[:100]!a}") from error


# Sizes


def sized(count: int) -> str:
    """A number of bytes for people."""
    size = float(count)
    for unit in _BINARY_UNITS[:-1]:
        if size < _KIB:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIB
    return f"{size:.1f} TiB"


def exact_size(count: int) -> str:
    """A size that can be typed again: `64MiB`, or bytes where no larger unit divides it."""
    power = 0
    while count and count % _KIB == 0 and power < len(_BINARY_UNITS) - 1:
        count //= _KIB
        power += 1
    return f"{count}{_BINARY_UNITS[power]}"


def parse_size(text: str) -> int:
    """Bytes of a size such as `1000`, `64MiB`, `1.5GiB` or `10MB`."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("must be a size such as 1000, 64KiB, 512MiB or 1.5GiB")
    whole, fraction, unit = found[1], found[2] or "", found[3] or "B"
    # `64M` is 64 MiB, as most tools take it; `64MB` is decimal.
    base = 1000 if unit.endswith("B") and "i" not in unit else _KIB
    scale = 1 if unit == "B" else base ** ("KMGT".index(unit[0]) + 1)
    count = int(whole + fraction) * scale
    if count % 10 ** len(fraction):
        raise ValueError("is not a whole number of bytes")
    return int(count // 10 ** len(fraction))
