"""Where a read begins and ends, as it was asked for: words, counts, times, offsets."""

import datetime as dt
import re

import msgspec

from goqueue.spark.options.given import Given, OptionInvalid

__all__ = ["Place", "place_of"]

EARLIEST = -2
LATEST = -1

_AGO = re.compile(r"-(\d{1,9})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
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
        words = "earliest, latest, committed, -N (so many before the end)"
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
