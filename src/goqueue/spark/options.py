"""The options as Spark passes them, and the values that reads and writes share.

Owns the reading of one option by name: connection, start and end positions, filters by key and
header. A connection holds references to secrets, never the secrets. An unknown option is an error,
because a misspelt one would have no effect; so is one that is for another use.

Invariant: every problem is one `OptionInvalid` that names the option.
"""

import datetime as dt
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from goqueue.model import nearest_name
from goqueue.spark.option_table import OPTIONS, USES

__all__ = [
    "Filters",
    "Given",
    "Link",
    "Match",
    "OptionInvalid",
    "Place",
    "RegistryOptions",
    "filters_of",
    "link_of",
    "name_of",
    "place_of",
    "registry_of",
]

T = TypeVar("T")

# What Spark puts among the options for itself.
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode"})
_KNOWN = {option.name.lower(): option for rows in OPTIONS.values() for option in rows}
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST = (1 << 63) - 1


class OptionInvalid(ValueError):
    """An option that is missing, wrong, or contradicts another."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option = option
        self.reason = reason

    def __str__(self) -> str:
        return f"option `{self.option}` of format goqueue: {self.reason}"


class Given:
    """Texts by name, which is read in any case; those that are not for `use` are refused."""

    def __init__(self, given: Mapping[str, str], use: str) -> None:
        self._texts = {name.lower(): str(text).strip() for name, text in given.items()}
        for name in sorted(self._texts.keys() - _SPARKS_OWN):
            option = _KNOWN.get(name)
            if option is None:
                near = nearest_name(name, _KNOWN)
                hint = "" if near is None else f"; did you mean `{_KNOWN[near].name}`?"
                raise OptionInvalid(name, f"is unknown{hint}")
            if use not in option.uses:
                right = " and ".join(USES[each] for each in option.uses)
                raise OptionInvalid(option.name, f"is for {right}, not for {USES[use]}")

    def text(self, name: str) -> str | None:
        assert name.lower() in _KNOWN, name
        text = self._texts.get(name.lower())
        if text is not None and not text:
            raise OptionInvalid(name, "is empty")
        return text

    def flag(self, name: str, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in {"true", "false"}:
            raise OptionInvalid(name, f"is true or false, not {text!r}")
        return text == "true"

    def number(self, name: str, default: int, least: int = 1, most: int = _MOST) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,19}", text) or not least <= int(text) <= most:
            raise OptionInvalid(name, f"is a number from {least} to {most}, not {text!r}")
        return int(text)

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text)
        if found is None:
            raise OptionInvalid(name, f"is a duration such as 500ms, 30s or 15m, not {text!r}")
        return int(found[1]) * _UNITS_MS[found[2]]

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices, in any case; the first one is the default."""
        text = self.text(name) or choices[0]
        for each in choices:
            if each.lower() == text.lower():
                return each
        raise OptionInvalid(name, f"is one of {', '.join(choices)}, not {text!r}")

    def name(self, name: str) -> str | None:
        """The name of a topic or the like."""
        text = self.text(name)
        return None if text is None else name_of(name, text)

    def decoded(self, name: str, decoder: msgspec.json.Decoder[T], example: str) -> T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise OptionInvalid(name, f"is JSON such as {example}: {error}") from error


def name_of(option: str, text: str) -> str:
    """A name as the broker takes it; refused under the name of its option."""
    if not _NAME.fullmatch(text):
        raise OptionInvalid(option, f"{text!r} is no name: letters, digits, `.`, `_` and `-`")
    return text


_SEVERAL = 100
_KEYS: msgspec.json.Decoder[list[str]] = msgspec.json.Decoder(list[str])
_HEADERS: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])


class Match(msgspec.Struct, frozen=True):
    """Bytes to be equal to, or to begin with."""

    text: bytes
    is_prefix: bool = False


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Any of the keys will do, and all of the headers must be there; none given means all."""

    keys: tuple[Match, ...] = ()
    headers: tuple[tuple[str, Match], ...] = ()


def filters_of(given: Given) -> Filters:
    return Filters(keys=_keys(given), headers=_headers(given))


def _keys(given: Given) -> tuple[Match, ...]:
    text = given.text("keyFilter")
    if text is None:
        return ()
    if not text.startswith("["):
        return (_match(text),)
    several = given.decoded("keyFilter", _KEYS, '["user-1","user-2*"]') or []
    if not 1 <= len(several) <= _SEVERAL or not all(several):
        raise OptionInvalid("keyFilter", f"lists 1 to {_SEVERAL} keys, none of them empty")
    return tuple(_match(each) for each in several)


def _headers(given: Given) -> tuple[tuple[str, Match], ...]:
    text = given.text("headerFilter")
    if text is None:
        return ()
    if not text.startswith("{"):
        name, equals, wanted = text.partition("=")
        several = {name.strip(): wanted.strip() if equals else "*"}
    else:
        several = given.decoded("headerFilter", _HEADERS, '{"type":"order.*"}') or {}
    if not 1 <= len(several) <= _SEVERAL or not all(several):
        raise OptionInvalid("headerFilter", f"names 1 to {_SEVERAL} headers, none of them empty")
    return tuple((name, _match(wanted)) for name, wanted in sorted(several.items()))


def _match(text: str) -> Match:
    if text.endswith("\\*"):
        return Match(f"{text[:-2]}*".encode())
    return Match(text.removesuffix("*").encode(), text.endswith("*"))


MEBIBYTE = 1 << 20


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the broker. The key itself is in a file, which every worker reads.

    Without `retries` time alone bounds them.
    """

    servers: tuple[str, ...]
    token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    allow_plaintext: bool = False
    timeout_s: float = 30.0
    retries: int | None = None
    fetch_bytes_max: int = 8 * MEBIBYTE


def link_of(given: Given) -> Link:
    text = given.text("goqueue.servers")
    if text is None:
        raise OptionInvalid("goqueue.servers", "is missing: `host:port` or a URL of the broker")
    servers = [each.strip() for each in text.split(",")]
    if not all(servers):
        raise OptionInvalid("goqueue.servers", f"{text!r} has an empty entry")
    servers = _with_schemes(servers)
    for name in ("caFile", "certFile", "keyFile"):
        option = f"goqueue.tls.{name}"
        is_given = given.text(option) is not None
        if is_given and not any(each.startswith("https://") for each in servers):
            raise OptionInvalid(option, "needs an `https://` URL in `goqueue.servers`")
    cert_file, key_file = given.text("goqueue.tls.certFile"), given.text("goqueue.tls.keyFile")
    if key_file is not None and cert_file is None:
        raise OptionInvalid("goqueue.tls.keyFile", "needs `goqueue.tls.certFile`")
    retries = None
    if given.text("goqueue.retries") is not None:
        retries = given.number("goqueue.retries", 0, 0, 10_000)
    return Link(
        servers=tuple(dict.fromkeys(servers)),
        token_file=given.text("goqueue.tokenFile"),
        ca_file=given.text("goqueue.tls.caFile"),
        cert_file=cert_file,
        key_file=key_file,
        allow_plaintext=given.flag("goqueue.allowPlaintext", False),
        timeout_s=given.number("goqueue.timeoutMs", 30_000, 100, 3_600_000) / 1000,
        retries=retries,
        fetch_bytes_max=given.number("goqueue.fetch.maxBytes", 8 * MEBIBYTE, 1024, 16 * MEBIBYTE),
    )


def _with_schemes(servers: list[str]) -> list[str]:
    """URLs; what has no scheme gets that of the one before it, the first one http."""
    scheme = "http"
    found = []
    for each in servers:
        if "://" in each:
            scheme = each.partition("://")[0]
        found.append(each if "://" in each else f"{scheme}://{each}")
    return found


class RegistryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which schema of the registry values have. Without `version` it is the latest.

    `message` is one of a Protobuf file, else it is the first.
    """

    value_format: str
    subject: str
    version: int | None = None
    message: str | None = None


_FORMATS = ("raw", "json", "avro", "protobuf")
_OF_SUBJECTS = ("schemaVersion", "messageName")


def registry_of(given: Given) -> RegistryOptions | None:
    """The schema that values have by the registry; None if they have none there."""
    value_format = given.choice("valueFormat", _FORMATS)
    subject = given.text("schemaSubject")
    if subject is None:
        for name in _OF_SUBJECTS:
            if given.text(name) is not None:
                raise OptionInvalid(name, "needs `schemaSubject`")
        return None
    if value_format == "raw":
        raise OptionInvalid("schemaSubject", "needs `valueFormat`: json, avro or protobuf")
    message = given.text("messageName")
    if message is not None and value_format != "protobuf":
        raise OptionInvalid("messageName", "needs `valueFormat=protobuf`")
    version = given.text("schemaVersion")
    is_latest = version is None or version.lower() == "latest"
    return RegistryOptions(
        value_format=value_format,
        subject=subject,
        version=None if is_latest else given.number("schemaVersion", 1),
        message=message,
    )


EARLIEST = -2
LATEST = -1

_AGO = re.compile(r"-(\d{1,9})(ms|s|m|h|d)")
_BY_PARTITION: msgspec.json.Decoder[dict[str, dict[int, int]]] = msgspec.json.Decoder(
    dict[str, dict[int, int]]
)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in every partition: a word, so many records before the end, a time, or offsets.

    In `offsets` -1 stands for the end and -2 for the beginning; `rest` is the one of the two for
    partitions that are not named. `ago_ms` counts from when it is asked for. `times_us` are times
    by partition. `is_late_error` says that a time later than every record is a mistake.
    """

    option: str
    word: str = ""
    back: int = 0
    time_us: int | None = None
    ago_ms: int | None = None
    offsets: dict[str, dict[int, int]] = {}
    times_us: dict[str, dict[int, int]] = {}
    rest: int = EARLIEST
    is_late_error: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it names."""
        return tuple(sorted(self.offsets.keys() | self.times_us.keys()))


def place_of(given: Given, edge: str, default: str) -> Place:
    """The place of `starting` or `ending` options."""
    names = [f"{edge}Offsets", f"{edge}Timestamp", f"{edge}OffsetsByTimestamp"]
    asked = [name for name in names if given.text(name) is not None]
    if len(asked) > 1:
        raise OptionInvalid(asked[1], f"contradicts `{asked[0]}`: give one of them")
    rest = EARLIEST if edge == "starting" else LATEST
    option = asked[0] if asked else names[0]
    text = given.text(option) or default
    if option == names[1]:
        return _moment(option, text)
    if option == names[2]:
        times = given.decoded(option, _BY_PARTITION, '{"topic":{"0":1763208000000}}') or {}
        if any(time < 0 for each in times.values() for time in each.values()):
            raise OptionInvalid(option, "a time is not before 1970")
        in_us = {
            topic: {number: time * 1000 for number, time in each.items()}
            for topic, each in times.items()
        }
        return Place(option=option, times_us=in_us, rest=rest)
    return _offsets(given, option, text, rest)


def _offsets(given: Given, option: str, text: str, rest: int) -> Place:
    if text.lower() in {"earliest", "latest", "committed"}:
        return Place(option=option, word=text.lower(), rest=rest)
    if re.fullmatch(r"-\d{1,18}", text):
        return Place(option=option, back=int(text[1:]), rest=rest)
    example = '{"topic":{"0":23,"1":-1}}'
    if not text.startswith("{"):
        words = "earliest, latest, committed, -N (N records before the end)"
        raise OptionInvalid(option, f"is {words} or JSON such as {example}, not {text!r}")
    offsets = given.decoded(option, _BY_PARTITION, example) or {}
    if any(offset < EARLIEST for each in offsets.values() for offset in each.values()):
        raise OptionInvalid(option, "an offset is not below -2")
    if not offsets:
        raise OptionInvalid(option, "names no topic")
    return Place(option=option, offsets=offsets, rest=rest)


def _moment(option: str, text: str) -> Place:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return Place(option=option, ago_ms=int(ago[1]) * _UNITS_MS[ago[2]])
    if re.fullmatch(r"\d{1,15}", text):
        return Place(option=option, time_us=int(text) * 1000)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        words = "is a time such as 2026-11-15T12:00:00Z, milliseconds since 1970, or -15m"
        raise OptionInvalid(option, f"{words}, not {text!r}") from None
    if moment.tzinfo is None:
        raise OptionInvalid(option, f"{text!r} does not say in which time zone: end it with Z")
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return Place(option=option, time_us=since // dt.timedelta(microseconds=1))
