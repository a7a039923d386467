"""Where reading begins, as a person says it. Told the time; knows no server."""

import msgspec

from goqueue.model import format_time, parse_duration, parse_time

__all__ = ["Start", "read_time"]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """At the end, else at the first message at or after a time, else at an offset."""

    offset: int = 0
    time: str | None = None
    is_latest: bool = False


def read_time(text: str, now_ns: int) -> str:
    """RFC 3339, or a duration that has passed since then: `15m` is a quarter of an hour ago."""
    try:
        return format_time(now_ns - parse_duration(text))
    except ValueError:
        # It is a time, then, or nothing.
        return format_time(parse_time(text))
