"""Kinds of values of settings: how each is parsed, validated and shown.

Never knows which setting it parses, nor where the value came from. An invalid value is a ValueError
whose text is the reason.

Invariant: a value that was parsed and shown is parsed from the shown text as the same value.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Generic, TypeGuard, TypeVar

import msgspec

from goqueue.model import HOUR, MASK, Refused, Secret, check_name, parse_duration, plain_duration

__all__ = [
    "ADDRESSES",
    "BOOLEAN",
    "COUNT",
    "ENDPOINT",
    "LISTENER",
    "NAME",
    "NETWORKS",
    "ORIGINS",
    "PATH",
    "SECRET",
    "SHARE",
    "TEXT",
    "Kind",
    "Listener",
    "Network",
    "choice",
    "choices",
    "count",
    "duration",
    "hours",
    "read_address",
    "size",
]

T = TypeVar("T")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_TEXT_MAX = 4096
_ITEMS_MAX = 256
_PORT_MAX = 65_535
_COUNT_MAX = 1_000_000


class Kind(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One kind of value. Environment and flags supply text, a TOML file supplies values.

    `noun` stands for a value in help texts; `words` are all values, where they are few.
    """

    allowed: str
    from_text: Callable[[str], T]
    from_toml: Callable[[object], T]
    show: Callable[[T], str]
    noun: str = "TEXT"
    words: tuple[str, ...] = ()


def _kind(
    allowed: str,
    read: Callable[[str], T],
    show: Callable[[T], str],
    noun: str,
    words: tuple[str, ...] = (),
) -> Kind[T]:
    """A kind that is text in TOML too."""

    def from_toml(given: object) -> T:
        if not isinstance(given, str):
            raise ValueError("is not a string")  # noqa: TRY004 - a ValueError is the refusal here
        return read(given)

    return Kind(
        allowed=allowed, from_text=read, from_toml=from_toml, show=show, noun=noun, words=words
    )


# Text


def _text(given: str) -> str:
    if len(given) > _TEXT_MAX:
        raise ValueError(f"has more than {_TEXT_MAX} characters")
    if not given.isprintable():
        raise ValueError("has a character that cannot be printed")
    return given


def _path(given: str) -> str:
    if not given:
        raise ValueError("is empty")
    return _text(given)


def _name(given: str) -> str:
    try:
        return check_name(given, "name")
    except Refused:
        raise ValueError("is not a name") from None


def choice(*words: str) -> Kind[str]:
    """One of a few words."""

    *others, last = words
    allowed = f"{', '.join(others)} or {last}" if others else last

    def read(given: str) -> str:
        if given not in words:
            raise ValueError(f"is not {allowed}")
        return given

    return _kind(allowed, read, str, "|".join(words), words)


TEXT: Kind[str] = _kind("text", _text, str, "TEXT")
SECRET: Kind[Secret] = _kind(
    "text", lambda given: Secret(_text(given)), lambda value: MASK if value else "", "TEXT"
)
PATH: Kind[str] = _kind("a path", _path, str, "PATH")
NAME: Kind[str] = _kind("1 to 249 of A-Z a-z 0-9 . _ -, not . or ..", _name, str, "NAME")


# Numbers


def _boolean(given: str) -> bool | None:
    if given not in {"true", "false"}:
        raise ValueError("is neither")
    return given == "true"


def _boolean_from_toml(given: object) -> bool | None:
    if not isinstance(given, bool):
        raise ValueError("is not a boolean")  # noqa: TRY004 - a ValueError is the refusal here
    return given


def _show_boolean(value: bool | None) -> str:
    return "unset" if value is None else str(value).lower()


# None is for settings with a meaning when they are unset.
BOOLEAN: Kind[bool | None] = Kind(
    allowed="true or false",
    from_text=_boolean,
    from_toml=_boolean_from_toml,
    show=_show_boolean,
    noun="true|false",
    words=("true", "false"),
)

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,19}) ?(|KiB|MiB|GiB)")


def size(least: int, most: int) -> Kind[int]:
    """A number of bytes."""

    def read(given: str) -> int:
        found = _SIZE.fullmatch(given)
        if found is None:
            raise ValueError("is not a size")
        return _within(int(found[1]) * _UNITS[found[2]], least, most)

    def from_toml(given: object) -> int:
        if isinstance(given, str):
            return read(given)
        if not _is_whole(given):
            raise ValueError("is not a size")
        return _within(given, least, most)

    allowed = f"bytes, or a number with KiB, MiB or GiB; from {_sized(least)} to {_sized(most)}"
    return Kind(allowed=allowed, from_text=read, from_toml=from_toml, show=_sized, noun="SIZE")


def _sized(count: int) -> str:
    """In the largest unit that divides it, without rounding."""
    fitting = (unit for unit in ("GiB", "MiB", "KiB") if count and count % _UNITS[unit] == 0)
    unit = next(fitting, "")
    return f"{count // _UNITS[unit]}{unit}"


def _is_whole(given: object) -> TypeGuard[int]:
    """Whether a TOML value is an integer; Python counts true and false as integers too."""
    return isinstance(given, int) and not isinstance(given, bool)


def _within(value: int, least: int, most: int) -> int:
    if value < least:
        raise ValueError("is too small")
    if value > most:
        raise ValueError("is too large")
    return value


def duration(most: int) -> Kind[int]:
    """A span of time, in nanoseconds."""

    def read(given: str) -> int:
        return _within(_span(given), 0, most)

    allowed = f"a duration such as 90s, 1h30m or 7d, at most {plain_duration(most)}"
    return _kind(allowed, read, plain_duration, "TIME")


def _span(given: str) -> int:
    try:
        return parse_duration(given)
    except ValueError as unreadable:
        raise ValueError(f"cannot be read: {unreadable}") from None


def hours(least: int, most: int) -> Kind[int]:
    """A number of hours, or a duration of whole hours."""

    def read(given: str) -> int:
        if re.fullmatch(r"[0-9]{1,9}", given):
            return _within(int(given), least, most)
        span_ns = _span(given)
        if span_ns % HOUR:
            raise ValueError("is not a whole number of hours")
        return _within(span_ns // HOUR, least, most)

    def from_toml(given: object) -> int:
        if isinstance(given, str):
            return read(given)
        if not _is_whole(given):
            raise ValueError("is not a number")
        return _within(given, least, most)

    def show(value: int) -> str:
        return plain_duration(value * HOUR) if value else "0"

    allowed = f"hours, or a duration such as 36h or 90d; from {show(least)} to {show(most)}"
    return Kind(allowed=allowed, from_text=read, from_toml=from_toml, show=show, noun="HOURS")


def count(least: int, most: int) -> Kind[int]:
    """A number of things."""

    def read(given: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", given):
            raise ValueError("is not a number")
        return _within(int(given), least, most)

    def from_toml(given: object) -> int:
        if not _is_whole(given):
            raise ValueError("is not a number")
        return _within(given, least, most)

    allowed = f"a number from {least} to {most}"
    return Kind(allowed=allowed, from_text=read, from_toml=from_toml, show=str, noun="N")


COUNT: Kind[int] = count(0, _COUNT_MAX)


def _share(given: str) -> float:
    if not re.fullmatch(r"0|1|[01]?\.[0-9]{1,18}", given):
        raise ValueError("is not a share")
    return _share_from_toml(float(given))


def _share_from_toml(given: object) -> float:
    # NaN compares false both ways, and so is refused.
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise ValueError("is not a share")
    return float(given)


def _show_share(value: float) -> str:
    return f"{value:.18f}".rstrip("0").rstrip(".")


SHARE: Kind[float] = Kind(
    allowed="a number from 0 to 1",
    from_text=_share,
    from_toml=_share_from_toml,
    show=_show_share,
    noun="SHARE",
)


# Addresses


class Listener(msgspec.Struct, frozen=True):
    """The address of a listener. Port 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect. Names other than localhost may be any address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:]+)):([0-9]{1,5})", re.ASCII)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# A last label of digits would be an address, which is parsed separately.
_HOST_NAME = re.compile(rf"(?:{_LABEL}\.)*(?![0-9]+\Z){_LABEL}")
_OFF = "off"


def read_address(given: str) -> Listener:
    """The address in `host:port`; raises ValueError."""
    found = _HOST_AND_PORT.fullmatch(given) if len(given) <= 300 else None
    if found is None:
        hint = "; 0.0.0.0 stands for every address" if given.startswith(":") else ""
        raise ValueError(f"is not host:port{hint}")
    try:
        if found[1] is not None:
            host = str(ipaddress.IPv6Address(found[1]))
        elif _HOST_NAME.fullmatch(found[2]):
            host = found[2].lower()
        else:
            host = str(ipaddress.IPv4Address(found[2]))
    except ValueError:
        raise ValueError("has no valid host") from None
    if int(found[3]) > _PORT_MAX:
        raise ValueError(f"has a port above {_PORT_MAX}")
    return Listener(host, int(found[3]))


def _listener(given: str) -> Listener | None:
    return None if given == _OFF else read_address(given)


def _show_listener(value: Listener | None) -> str:
    return _OFF if value is None else str(value)


LISTENER: Kind[Listener | None] = _kind(
    "host:port with an IPv6 address in brackets, or off", _listener, _show_listener, "HOST:PORT"
)

_ENDPOINT = re.compile(r"(https?://)?([^/\s]*?[^:/\s])(:[0-9]{1,5})?(?:/[!-~]*)?")


def _endpoint(given: str) -> str:
    if given:
        found = _ENDPOINT.fullmatch(given) if len(given) <= _TEXT_MAX else None
        if found is None:
            raise ValueError("is no address of a collector")
        # A URL may leave the port to its scheme.
        read_address(found[2] + (found[3] or (":0" if found[1] else "")))
    return given


ENDPOINT: Kind[str] = _kind(
    "host:port, or a URL with http or https, or empty for the usual one", _endpoint, str, "URL"
)


# Lists


def choices(*words: str) -> Kind[tuple[str, ...]]:
    """Any of a few words, in the given order."""

    def read(given: str) -> str:
        if given not in words:
            raise ValueError(f"has an item that is none of {', '.join(words)}")
        return given

    return _list("a list out of " + ", ".join(words), read, ",".join(words), words)


def _list(
    allowed: str, read: Callable[[str], T], noun: str = "LIST", words: tuple[str, ...] = ()
) -> Kind[tuple[T, ...]]:
    def from_items(items: list[str]) -> tuple[T, ...]:
        if len(items) > _ITEMS_MAX:
            raise ValueError(f"has more than {_ITEMS_MAX} items")
        return tuple(dict.fromkeys(map(read, items)))

    def from_text(given: str) -> tuple[T, ...]:
        return from_items([item.strip() for item in given.split(",")] if given.strip() else [])

    def from_toml(given: object) -> tuple[T, ...]:
        if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
            raise ValueError("is not an array of strings")
        return from_items(given)

    def show(value: tuple[T, ...]) -> str:
        return ",".join(map(str, value))

    return Kind(
        allowed=allowed,
        from_text=from_text,
        from_toml=from_toml,
        show=show,
        noun=noun,
        words=words,
    )


_ORIGIN = re.compile(
    rf"[a-z][a-z0-9+.-]*://({_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(:[0-9]{{1,5}})?"
)


def _origin(given: str) -> str:
    origin = given.lower()
    if origin != "*" and not _ORIGIN.fullmatch(origin):
        raise ValueError("has an item that is not an origin")
    return origin


def _network(given: str) -> Network:
    try:
        return ipaddress.ip_network(given)
    except ValueError:
        raise ValueError("has an item that is neither an address nor a network") from None


ORIGINS: Kind[tuple[str, ...]] = _list(
    "a list of origins such as https://console.example.com, without a path", _origin
)
NETWORKS: Kind[tuple[Network, ...]] = _list(
    "a list of addresses and networks such as 10.0.0.0/8, without host bits", _network
)
ADDRESSES: Kind[tuple[Listener, ...]] = _list("a list of host:port", read_address)
