"""The options of `format("goqueue")`: read once, checked all, before any job starts.

Owns the names, the defaults and the words about what is wrong. Never asks a broker.

Invariant: whatever is wrong is told by one `OptionInvalid` that names the option; an option that
nobody knows is wrong, too, because a misspelt one would do nothing without a word.
"""

import datetime as dt
import difflib
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

__all__ = [
    "Link",
    "OptionInvalid",
    "Place",
    "ReadOptions",
    "Span",
    "WriteOptions",
    "read_options",
    "write_options",
]

T = TypeVar("T")

MEBIBYTE = 1 << 20
# What Spark puts among the options for itself.
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode"})
_LINK = ("goqueue.servers", "goqueue.tokenFile", "goqueue.timeoutMs", "goqueue.fetch.maxBytes")
_SOURCE = (
    "subscribe",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "groupId",
    "isolation",
    "failOnDataLoss",
    "includeHeaders",
    "headersAs",
    "maxRecordsPerTrigger",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "batchRows",
    "batchBytes",
)
_SINK = ("topic", "exactlyOnce", "transactionalId", "transactionalVersion", "transactionTimeoutMs")
_STREAM_ONLY = ("maxRecordsPerTrigger", "maxOffsetsPerTrigger", "maxBytesPerTrigger")
_BATCH_ONLY = ("endingOffsets", "endingTimestamp")
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_AGO = re.compile(r"-(\d{1,9})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PLACES: msgspec.json.Decoder[dict[str, dict[int, int]]] = msgspec.json.Decoder(
    dict[str, dict[int, int]]
)
_ASSIGNED: msgspec.json.Decoder[dict[str, list[int]]] = msgspec.json.Decoder(dict[str, list[int]])


class OptionInvalid(ValueError):
    """An option that is missing, wrong, or contradicts another."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(option, reason)
        self.option = option
        self.reason = reason

    def __str__(self) -> str:
        return f"option `{self.option}` of format goqueue: {self.reason}"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the broker. The key itself is in a file, which every worker reads."""

    server: str
    token_file: str | None = None
    timeout_s: float = 30.0
    fetch_bytes_max: int = 8 * MEBIBYTE


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in every partition: a word, so many records before the end, a time, or offsets.

    In `offsets` -1 stands for the end and -2 for the beginning. `ago_ms` counts from when it is
    asked for.
    """

    option: str
    word: str = ""
    back: int = 0
    time_us: int | None = None
    ago_ms: int | None = None
    offsets: dict[str, dict[int, int]] = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one trigger and on one task; 0 is none."""

    trigger_records_max: int = 0
    trigger_bytes_max: int = 0
    task_records_max: int = 0
    task_bytes_max: int = 64 * MEBIBYTE


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is read, from where to where, and in which portions. No partitions means all."""

    link: Link
    topics: tuple[str, ...]
    assigned: dict[str, list[int]]
    start: Place
    end: Place
    span: Span
    group: str | None = None
    isolation: str = "read_committed"
    fails_on_loss: bool = True
    with_headers: bool = False
    headers_as: str = "map"
    batch_rows: int = 10_000
    batch_bytes: int = 4 * MEBIBYTE


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where rows go and how. Without a topic the rows name it."""

    link: Link
    topic: str | None
    exactly_once: bool = True
    transactional_id: str | None = None
    transactional_version: int | None = None
    transaction_timeout_s: float = 600.0


def read_options(given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """The options of a source."""
    options = _Given(given, (*_LINK, *_SOURCE), _SINK)
    for name in _BATCH_ONLY if is_stream else _STREAM_ONLY:
        if options.text(name) is not None:
            raise OptionInvalid(name, f"is for {'batch' if is_stream else 'stream'} reads only")
    assigned = options.decoded("assign", _ASSIGNED, '{"topic":[0,2]}') or {}
    subscribed = options.text("subscribe")
    if (subscribed is None) is not bool(assigned):
        raise OptionInvalid("subscribe", "give exactly one of `subscribe` and `assign`")
    topics = tuple(sorted(assigned)) if subscribed is None else _names("subscribe", subscribed)
    for topic in topics:
        _name("assign" if assigned else "subscribe", topic)
    if any(partition < 0 for each in assigned.values() for partition in each):
        raise OptionInvalid("assign", "a partition is not negative")
    start = _place(
        options, "startingOffsets", "startingTimestamp", "latest" if is_stream else "earliest"
    )
    end = _place(options, "endingOffsets", "endingTimestamp", "latest")
    _check_places(start, end, topics)
    group = options.text("groupId")
    if start.word == "committed" and group is None:
        raise OptionInvalid("groupId", "`startingOffsets` is `committed`: of which group?")
    if options.text("headersAs") is not None and not options.flag("includeHeaders", False):
        raise OptionInvalid("headersAs", "needs `includeHeaders`")
    return ReadOptions(
        link=_link(options),
        topics=topics,
        assigned={topic: sorted(set(each)) for topic, each in assigned.items()},
        start=start,
        end=end,
        span=_span(options),
        group=None if group is None else _name("groupId", group),
        isolation=f"read_{options.choice('isolation', ('committed', 'uncommitted'))}",
        fails_on_loss=options.flag("failOnDataLoss", True),
        with_headers=options.flag("includeHeaders", False),
        headers_as=options.choice("headersAs", ("map", "array")),
        batch_rows=options.number("batchRows", 10_000, 1, 1_000_000),
        batch_bytes=options.number("batchBytes", 4 * MEBIBYTE, 1024, 512 * MEBIBYTE),
    )


def write_options(given: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """The options of a sink."""
    options = _Given(given, (*_LINK, *_SINK), _SOURCE)
    topic = options.text("topic")
    identity = options.text("transactionalId")
    version = options.text("transactionalVersion")
    exactly_once = options.flag("exactlyOnce", True)
    for name in ("transactionalId", "transactionalVersion", "transactionTimeoutMs"):
        if options.text(name) is not None and not exactly_once:
            raise OptionInvalid(name, "contradicts `exactlyOnce=false`")
    if version is not None and is_stream:
        raise OptionInvalid("transactionalVersion", "is for batch writes: a stream has batch ids")
    if not is_stream and (version is None) is not (identity is None):
        missing = "transactionalVersion" if version is None else "transactionalId"
        raise OptionInvalid(missing, "`transactionalId` and `transactionalVersion` go together")
    if identity is not None and len(_name("transactionalId", identity)) > 100:
        raise OptionInvalid("transactionalId", "has at most 100 characters")
    timeout_ms = options.number("transactionTimeoutMs", 600_000, 1000, 900_000)
    return WriteOptions(
        link=_link(options),
        topic=None if topic is None else _name("topic", topic),
        exactly_once=exactly_once,
        transactional_id=identity,
        transactional_version=(
            None if version is None else options.number("transactionalVersion", 0, 0, (1 << 63) - 1)
        ),
        transaction_timeout_s=timeout_ms / 1000,
    )


class _Given:
    """The options as Spark hands them over: texts, their names in any case."""

    def __init__(
        self, given: Mapping[str, str], known: tuple[str, ...], elsewhere: tuple[str, ...]
    ) -> None:
        self._texts = {name.lower(): str(text).strip() for name, text in given.items()}
        names = {name.lower(): name for name in known}
        for name in sorted(self._texts.keys() - names.keys() - _SPARKS_OWN):
            if name in {each.lower() for each in elsewhere}:
                raise OptionInvalid(name, "is not for this direction")
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean `{names[near[0]]}`?" if near else ""
            raise OptionInvalid(name, f"is unknown{hint}")

    def text(self, name: str) -> str | None:
        text = self._texts.get(name.lower())
        if text is not None and not text:
            raise OptionInvalid(name, "is empty")
        return text

    def flag(self, name: str, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in {"true", "false"}:
            raise OptionInvalid(name, f"is true or false, not {text!r}")
        return text == "true"

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name) or str(default)
        if not re.fullmatch(r"\d{1,19}", text) or not least <= int(text) <= most:
            raise OptionInvalid(name, f"is a number from {least} to {most}, not {text!r}")
        return int(text)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices, of which the first is the default."""
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise OptionInvalid(name, f"is one of {', '.join(choices)}, not {text!r}")
        return text

    def decoded(self, name: str, decoder: msgspec.json.Decoder[T], example: str) -> T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise OptionInvalid(name, f"is JSON such as {example}: {error}") from error


def _link(options: _Given) -> Link:
    server = options.text("goqueue.servers")
    if server is None:
        raise OptionInvalid("goqueue.servers", "is missing: `host:port` or a URL of the broker")
    if "," in server:
        raise OptionInvalid("goqueue.servers", "names one server: a node forwards to the others")
    return Link(
        server=server if "://" in server else f"http://{server}",
        token_file=options.text("goqueue.tokenFile"),
        timeout_s=options.number("goqueue.timeoutMs", 30_000, 100, 3_600_000) / 1000,
        fetch_bytes_max=options.number("goqueue.fetch.maxBytes", 8 * MEBIBYTE, 1024, 16 * MEBIBYTE),
    )


def _span(options: _Given) -> Span:
    most = (1 << 63) - 1
    for name in ("maxRecordsPerTrigger", "maxOffsetsPerTrigger"):
        if options.text(name) is not None:
            options.number(name, 1, 1, most)
    if options.text("maxRecordsPerTrigger") and options.text("maxOffsetsPerTrigger"):
        raise OptionInvalid("maxOffsetsPerTrigger", "is another name of `maxRecordsPerTrigger`")
    records = options.text("maxRecordsPerTrigger") or options.text("maxOffsetsPerTrigger")
    return Span(
        trigger_records_max=int(records or 0),
        trigger_bytes_max=_optional(options, "maxBytesPerTrigger"),
        task_records_max=_optional(options, "maxRecordsPerPartition"),
        task_bytes_max=options.number("maxBytesPerPartition", 64 * MEBIBYTE, 1024, most),
    )


def _optional(options: _Given, name: str) -> int:
    return 0 if options.text(name) is None else options.number(name, 1, 1, (1 << 63) - 1)


def _place(options: _Given, by_offset: str, by_time: str, default: str) -> Place:
    offsets, time = options.text(by_offset), options.text(by_time)
    if offsets is not None and time is not None:
        raise OptionInvalid(by_time, f"contradicts `{by_offset}`: give one of them")
    if time is not None:
        return _moment(by_time, time)
    text = offsets or default
    if text.lower() in {"earliest", "latest", "committed"}:
        return Place(option=by_offset, word=text.lower())
    if re.fullmatch(r"-\d{1,18}", text):
        return Place(option=by_offset, back=int(text[1:]))
    example = '{"topic":{"0":23,"1":-1}}'
    if not text.startswith("{"):
        words = "earliest, latest, committed, -N (so many before the end)"
        raise OptionInvalid(by_offset, f"is {words} or JSON such as {example}, not {text!r}")
    return Place(option=by_offset, offsets=options.decoded(by_offset, _PLACES, example) or {})


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


def _check_places(start: Place, end: Place, topics: tuple[str, ...]) -> None:
    if end.word in {"committed", "earliest"} or end.back:
        raise OptionInvalid(end.option, "is latest, a time, or JSON with offsets")
    for place in (start, end):
        for topic in place.offsets:
            if topic not in topics:
                raise OptionInvalid(place.option, f"names {topic!r}, which is not read")
        if any(offset < -2 for each in place.offsets.values() for offset in each.values()):
            raise OptionInvalid(place.option, "an offset is not below -2")
    both = (start.time_us, end.time_us)
    if both[0] is not None and both[1] is not None and both[0] > both[1]:
        raise OptionInvalid(end.option, f"is before `{start.option}`")


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(sorted({name.strip() for name in text.split(",")}))
    return tuple(_name(option, name) for name in names)


def _name(option: str, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise OptionInvalid(option, f"{text!r} is no name: letters, digits, `.`, `_` and `-`")
    return text
