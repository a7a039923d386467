"""What callers hand in and get back, to and from the bytes and words of the wire.

Owns the mapping of values, keys, headers, times and durations. Never guesses: bytes stay bytes,
text is UTF-8, everything else is JSON.
"""

import datetime as dt
import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar, get_args

import msgspec

from goqueue.client.errors import ArgumentInvalid, GoQueueError
from goqueue.client.option_checks import check_seconds
from goqueue.model import Header, Priority, parse_duration
from goqueue.model.requests import Isolation

__all__ = [
    "NORMAL_PRIORITY",
    "Delay",
    "DeliverAt",
    "Due",
    "GroupMode",
    "GroupProtocolName",
    "Headers",
    "IsolationLevel",
    "PriorityName",
    "StartPosition",
    "Value",
    "check_choice",
    "due_of",
    "duration",
    "encode_key",
    "encode_value",
    "group_mode",
    "group_protocol",
    "headers",
    "isolation_of",
    "lease_seconds",
    "moment_of",
    "nanoseconds",
    "priority_number",
    "seconds_of",
    "span_of",
]

# How messages are shared out: each partition to one member, each message to anyone, or each message
# to anyone but those of one key in order.
GroupMode = Literal["partitioned", "shared", "key_ordered"]
# Whether a rebalance interrupts only partitions that move, or all.
GroupProtocolName = Literal["cooperative", "eager"]
# Where a group without a position begins.
StartPosition = Literal["earliest", "latest"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]
PriorityName = Literal["critical", "high", "normal", "low", "background"]

# Seconds from now, a span from now, or text such as "10m" or "1h30m".
Delay = float | str | dt.timedelta
# A time with a zone, or text (RFC 3339).
DeliverAt = dt.datetime | str
# Either of them as it was before they had names of their own.
Due = float | dt.timedelta | dt.datetime

_SPAN_S_MIN = 0.001
_LEASE_S_MAX = 12 * 3600.0

NORMAL_PRIORITY = int(Priority.NORMAL)

# bytes, text, None (a tombstone), or anything that msgspec writes as JSON.
Value = object
Headers = Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]]

_ENCODER = msgspec.json.Encoder()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TIME_WORDS = "is a datetime with a time zone, or text such as '2030-01-31T09:00:00Z'"
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII
)


def encode_value(value: Value) -> bytes | None:
    """The bytes of a value; None stays None, which is a tombstone."""
    if value is None:
        return None
    if isinstance(value, bytes):
        # Of a subclass, the bytes themselves.
        return bytes(value)
    if isinstance(value, str):
        return _utf8("the value", value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise GoQueueError("message_invalid", f"the value is not JSON: {error}") from error


def encode_key(key: str | bytes | None) -> bytes:
    """The bytes of a key; none is empty."""
    return b"" if key is None else _encode_text("a key", key)


def headers(given: Headers | None) -> tuple[Header, ...]:
    """Names and values in the order given."""
    if not given:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple(_header(pair) for pair in pairs)


def priority_number(priority: int | str) -> int:
    """The number of a priority, given as a number or by name in any case."""
    if isinstance(priority, bool) or not isinstance(priority, int | str):
        raise TypeError(f"a priority is a name or a number, not {type(priority).__name__}")
    try:
        return int(Priority(priority) if isinstance(priority, int) else Priority[priority.upper()])
    except (KeyError, ValueError):
        names = ", ".join(each.name.lower() for each in Priority)
        words = f"{priority!r} is not a priority; use {names}, or a number from 0 to 4"
        raise GoQueueError("message_invalid", words) from None


C = TypeVar("C")


def check_choice(what: str, given: C, allowed: object) -> C:
    """A value that is one of a Literal, or `ArgumentInvalid` with the one that was meant."""
    names = get_args(allowed)
    if given in names:
        return given
    words = f"{what} is {given!r}; use {', '.join(map(repr, names[:-1]))} or {names[-1]!r}"
    likely = difflib.get_close_matches(str(given), names, 1)
    raise ArgumentInvalid(f"{words}; did you mean {likely[0]!r}?" if likely else words)


def seconds_of(delay: Delay) -> float:
    """A delay in seconds; `ArgumentInvalid` for what is none."""
    try:
        if isinstance(delay, str):
            return parse_duration(delay) / 1_000_000_000
        seconds = delay.total_seconds() if isinstance(delay, dt.timedelta) else float(delay)
    except (TypeError, ValueError) as error:
        if isinstance(delay, str):
            raise ArgumentInvalid(f"a delay {error}, not {delay!r}") from error
        words = "a delay is a number of seconds, a timedelta or text such as '10m'"
        raise ArgumentInvalid(f"{words}, not {delay!r}") from error
    if not math.isfinite(seconds) or seconds < 0:
        raise ArgumentInvalid(f"a delay is at least 0 seconds, not {seconds:g}")
    return seconds


def span_of(what: str, given: Delay, *, most_s: float) -> float:
    """How long something may take, in seconds: from a millisecond, the finest, to `most_s`."""
    allowed = f"{what} is from 1 ms to {most_s:g} s, as a number of seconds, a timedelta or text"
    words = f'{allowed} such as "500ms"; not {given!r}'
    try:
        seconds = math.nan if isinstance(given, bool) else seconds_of(given)
    except ArgumentInvalid as error:
        raise ArgumentInvalid(words) from error
    if not _SPAN_S_MIN <= seconds <= most_s:
        raise ArgumentInvalid(words)
    return seconds


def due_of(delay: Delay | None, deliver_at: DeliverAt | None, due: Due | None) -> Due | None:
    """When a message is due, given in one of the ways; None for at once."""
    if delay is None and deliver_at is None:
        return due
    if due is not None or (delay is not None and deliver_at is not None):
        raise ArgumentInvalid("give delay or deliver_at, not both")
    if delay is not None:
        return seconds_of(delay)
    return moment_of("deliver_at", deliver_at)


def moment_of(what: str, given: DeliverAt | None) -> dt.datetime:
    """A time with a zone, given as one or as text (RFC 3339)."""
    if isinstance(given, str):
        try:
            given = dt.datetime.fromisoformat(given)
        except ValueError as error:
            raise ArgumentInvalid(f"{what} {_TIME_WORDS}, not {given!r}") from error
    if not isinstance(given, dt.datetime) or given.tzinfo is None:
        raise ArgumentInvalid(f"{what} {_TIME_WORDS}, not {given!r}")
    return given


def duration(seconds: float) -> str:
    """Seconds in the syntax of the contract."""
    return f"{round(seconds * 1000)}ms"


def nanoseconds(text: str) -> int:
    """A time of the contract, RFC 3339 with up to nine digits, as nanoseconds since 1970."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise GoQueueError("response_invalid", f"{text!r} is no time")
    whole, fraction, zone = found.groups()
    try:
        since = dt.datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone)) - _EPOCH
    except ValueError as error:
        raise GoQueueError("response_invalid", f"{text!r} is no time: {error}") from error
    seconds = since.days * 86_400 + since.seconds
    return seconds * 1_000_000_000 + (int(fraction.ljust(9, "0")) if fraction else 0)


def _encode_text(what: str, given: object) -> bytes:
    """The bytes of text or bytes. `bytes(5)` would be five zero bytes: nothing else is taken."""
    if isinstance(given, str):
        return _utf8(what, given)
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    kind = type(given).__name__
    raise TypeError(f"{what} is str or bytes, not {kind}; convert it, for example with str()")


def _utf8(what: str, text: str) -> bytes:
    """Text as bytes; half of a surrogate pair, as of a file name that is not UTF-8, has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise GoQueueError("message_invalid", f"{what} is not text: {error}") from error


def _header(pair: object) -> Header:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"headers are a mapping, or pairs of a name and a value, not {pair!r:.100}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is str, not {type(name).__name__}")
    return name, _encode_text(f"the value of header {name!r}", value)


def lease_seconds(visibility_s: float | None) -> float | None:
    """How long a lease is to last; None as its topic says."""
    if visibility_s is None:
        return None
    return check_seconds("visibility_s", visibility_s, _LEASE_S_MAX, is_positive=True)


def group_mode(mode: GroupMode | None) -> GroupMode | None:
    return None if mode is None else check_choice("mode", mode, GroupMode)


def group_protocol(protocol: GroupProtocolName | None) -> GroupProtocolName | None:
    return None if protocol is None else check_choice("protocol", protocol, GroupProtocolName)


def isolation_of(level: IsolationLevel) -> Isolation:
    return Isolation(check_choice("isolation", level, IsolationLevel))
