"""When a message is to be delivered: read from its fields or from a header, within the limit.

Owns the rule that zero or past means at once, and that nothing waits longer than the limit; a delay
that equals the limit is accepted at every door. Where a client sends a time that it computed as now
plus a delay, its now is not the node's: such a time may be a minute over the limit. Never reads a
clock.
"""

import re

import msgspec

from goqueue.gateways.http.bodies import INT64_MAX, span_ns
from goqueue.model import (
    DELIVER_HEADER,
    SECOND,
    Code,
    Refused,
    Timestamp,
    format_duration,
    parse_duration,
    parse_time,
)

__all__ = ["DelayLimits"]

_DIGITS = re.compile(rb"[0-9]{1,19}")
_YEAR = re.compile(r"[0-9]{4}(?=-)", re.ASCII)
# The first and the last leap year that nanoseconds reach in whole.
_YEAR_MIN = 1680
_YEAR_MAX = 2260
# How far the clock of a client may be ahead, with the time that its question took.
_AHEAD_NS = 60 * SECOND
_DAY_NS = 86_400 * SECOND


class DelayLimits(msgspec.Struct, frozen=True):
    """The present, and how far from it a message may be due. Zero stands for at once."""

    now: Timestamp
    delay_ns_max: int

    @property
    def latest(self) -> int:
        """The last moment at which a client may say that a message is due."""
        return min(self.now + self.delay_ns_max + _AHEAD_NS, INT64_MAX)

    def of_fields(self, delay: str | float | None, deliver_at: str | None) -> int:
        """When a message with these fields is due; at most one of them is given."""
        if deliver_at is None and type(delay) is str:
            # What most people write, and there may be one in every message.
            try:
                delay_ns = parse_duration(delay)
            except ValueError as error:
                raise Refused(Code.MESSAGE_INVALID, reason=f"`delay`: {error}") from None
            is_simple = 0 < delay_ns <= self.delay_ns_max
            return self.now + delay_ns if is_simple else self._after(delay_ns)
        if delay is not None and deliver_at is not None:
            raise Refused(Code.MESSAGE_INVALID, reason="give `delay` or `deliverAt`, not both")
        if deliver_at is not None:
            try:
                return self.within(_moment(deliver_at))
            except ValueError as error:
                raise Refused(Code.MESSAGE_INVALID, reason=f"`deliverAt`: {error}") from None
        if delay is None:
            return 0
        if not isinstance(delay, str) and delay * SECOND > self.delay_ns_max:
            raise self._too_long()
        try:
            return self._after(span_ns(delay))
        except ValueError as error:
            raise Refused(Code.MESSAGE_INVALID, reason=f"`delay`: {error}") from None

    def of_header(self, value: bytes) -> int:
        """When a record with this value of the header is due."""
        if not _DIGITS.fullmatch(value):
            reason = f"`{DELIVER_HEADER}` is not nanoseconds since 1970 in decimal digits"
            raise Refused(Code.MESSAGE_INVALID, reason=reason)
        return self.within(int(value))

    def within(self, due: int) -> int:
        """This time, zero if it has come already; refuses what is too far away."""
        if due - self.now > self.delay_ns_max + _AHEAD_NS:
            raise self._too_long()
        return due if due > self.now else 0

    def _after(self, delay_ns: int) -> int:
        if delay_ns > self.delay_ns_max:
            raise self._too_long()
        return self.now + delay_ns if delay_ns else 0

    def _too_long(self) -> Refused:
        days, rest = divmod(self.delay_ns_max, _DAY_NS)
        longest = format_duration(self.delay_ns_max) if rest or not days else f"{days}d"
        reason = f"the longest delay is {longest}"
        return Refused(Code.DELAY_TOO_LONG, reason=reason)


def _moment(text: str) -> Timestamp:
    """The time of a text. A year that no timestamp reaches is as long ago, or as far away, as one
    that does: only the limit decides.
    """
    year = _YEAR.match(text)
    if year is not None:
        near = min(max(int(year[0]), _YEAR_MIN), _YEAR_MAX)
        text = f"{near}{text[4:]}"
    return parse_time(text)
