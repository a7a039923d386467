"""Encodes stored records as JSON messages of reads and polls.

Timestamps as text, many at a time: records of one batch share a moment, others a second.

What of the records that were read belongs to aborted transactions.

Owns the ranges that a reader of committed messages leaves out, and how many of them go along with
stored bytes. Never decides which transaction was aborted: the broker's answer says it.

Stored records as JSON messages: which are shown, and how their bytes become text.

Compressed values come out as they were before; one that cannot be unpacked, or that would make the
answer boundless, is handed out as stored, with the header that names its codec. Control and delayed
records are never shown, nor what was aborted, nor what the log notes about its writers.
"""

import base64
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from goqueue.gateways.http.messages import (
    PRIORITY_NAMES,
    DeliveredMessage,
    Delivery,
    ReadMessage,
    TraceNames,
)
from goqueue.model import SECOND, Header, Record, Timestamp, format_time
from goqueue.model.requests import Leased, Parcel, Records
from goqueue.records import (
    Corrupt,
    Flag,
    decode,
    decompress,
    has_compressed,
    last_offset,
    pick,
    visible,
    walk,
)

__all__ = [
    "ANSWER_BYTES_MAX",
    "AbortedRanges",
    "EncodedRead",
    "Portion",
    "TimeWriter",
    "encode_poll",
    "encode_read",
    "portion_of",
]


class TimeWriter:
    """Writes times as `format_time` does, and remembers the last moment and its second."""

    __slots__ = ("_at", "_prefix", "_second", "_text")

    def __init__(self) -> None:
        self._at = -1
        self._text = ""
        self._second = -1
        self._prefix = ""

    def write(self, at: int) -> str:
        """The text of a time that is not before 1970."""
        if at == self._at:
            return self._text
        second, fraction = divmod(at, SECOND)
        if second != self._second:
            self._second = second
            self._prefix = format_time(Timestamp(second * SECOND))[:-1]
        decimals = f".{fraction:09d}".rstrip("0") if fraction else ""
        self._at = at
        self._text = f"{self._prefix}{decimals}Z"
        return self._text


# They travel in a header, which few accept at any length: with offsets of ten digits this many
# stay below six kilobytes.
_RANGES_MAX = 250


class AbortedRanges:
    """Ranges of offsets, each from its first to the one after its last; in order, none touches."""

    __slots__ = ("_firsts", "_followings")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._firsts: list[int] = []
        self._followings: list[int] = []
        for first, following in sorted(ranges):
            if self._followings and first <= self._followings[-1]:
                self._followings[-1] = max(following, self._followings[-1])
            else:
                self._firsts.append(first)
                self._followings.append(following)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, offset: int) -> bool:
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset < self._followings[index]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """All of them, in order."""
        return list(zip(self._firsts, self._followings, strict=True))

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges that have offsets from `start` on and before `end`."""
        first = bisect_right(self._followings, start)
        after = bisect_left(self._firsts, end)
        return list(zip(self._firsts[first:after], self._followings[first:after], strict=True))


class Portion(msgspec.Struct, frozen=True):
    """Stored records for one answer, where to go on, and what to leave out of them."""

    pieces: tuple[memoryview, ...]
    next_offset: int
    aborted: list[tuple[int, int]]


def portion_of(records: Records) -> Portion:
    """The records that were read; fewer, where more ranges would have to go along than can."""
    pieces = tuple(piece for piece in records.data if len(piece))
    following = last_offset(pieces[-1]) + 1 if pieces else int(records.upto)
    if not records.aborted or not pieces:
        return Portion(pieces, following, [])
    aborted = AbortedRanges(records.aborted).within(records.offset, following)
    if len(aborted) <= _RANGES_MAX:
        return Portion(pieces, following, aborted)
    # Before the first range that finds no room there are others, so something is left.
    cut_at = aborted[_RANGES_MAX][0]
    return Portion(_before(pieces, cut_at), cut_at, aborted[:_RANGES_MAX])


def _before(pieces: tuple[memoryview, ...], offset: int) -> tuple[memoryview, ...]:
    """The records of these pieces that are before an offset."""
    kept = []
    for piece in pieces:
        if last_offset(piece) < offset:
            kept.append(piece)
            continue
        columns = walk(piece)
        index = bisect_left(columns.offsets, offset)
        if index:
            kept.append(piece[: columns.positions[index]])
        break
    return tuple(kept)


ANSWER_BYTES_MAX = 4 * 1024 * 1024
_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)

# Who wrote a batch is for the log alone.
_BOOKKEEPING = "gq.batch"

Encoding = Literal["base64"] | None


class EncodedRead(msgspec.Struct, frozen=True):
    """Messages for a reader, about how many bytes they are, and where to go on."""

    messages: list[ReadMessage]
    size: int
    next_offset: int


class _Text(msgspec.Struct, frozen=True):
    """Key, value and headers of a record as JSON writes them."""

    key: str | None
    value: str | None
    encoding: Encoding
    headers: dict[str, str] | None
    base64_headers: list[str] | None


def encode_read(records: Records, count_max: int, bytes_max: int, times: TimeWriter) -> EncodedRead:
    """The visible ones among the records that were read, within the limits; at least one."""
    topic, partition = records.log.topic, records.log.partition
    aborted = AbortedRanges(records.aborted)
    traces = TraceNames(records.seed)
    messages: list[ReadMessage] = []
    size = 0
    for piece in records.data:
        shown = _visible(piece, records.offset, count_max - len(messages), aborted)
        for record, trace in _with_traces(shown, traces):
            if messages and size >= bytes_max:
                return EncodedRead(messages, size, messages[-1].offset + 1)
            size += len(record.key) + len(record.value or b"")
            if record.headers:
                size += sum(len(name) + len(text) for name, text in record.headers)
            messages.append(_read_message(topic, partition, record, times, trace))
        if len(messages) >= count_max:
            return EncodedRead(messages, size, messages[-1].offset + 1)
    return EncodedRead(messages, size, _after(records))


def _after(records: Records) -> int:
    """The offset after everything that was read, shown or not."""
    pieces = [piece for piece in records.data if len(piece)]
    return last_offset(pieces[-1]) + 1 if pieces else records.upto


def _read_message(
    topic: str, partition: int, record: Record, times: TimeWriter, trace: str | None
) -> ReadMessage:
    timestamp, priority = times.write(record.timestamp), PRIORITY_NAMES[record.priority]
    if not record.headers:
        key, value = record.key, record.value
        try:
            # By position: keywords would cost more than the rest of the message.
            return ReadMessage(
                topic,
                partition,
                record.offset,
                timestamp,
                None if value is None else value.decode(),
                priority,
                key.decode() if key else None,
                trace_id=trace,
            )
        except UnicodeDecodeError:
            pass
    text = _text(record)
    return ReadMessage(
        topic,
        partition,
        record.offset,
        timestamp,
        text.value,
        priority,
        text.key,
        text.headers,
        text.encoding,
        text.base64_headers,
        trace,
    )


def encode_poll(leased: Leased) -> Delivery:
    """The messages of a poll, in the order in which they were leased."""
    times = TimeWriter()
    messages: list[DeliveredMessage] = []
    room = _UNPACKED_BYTES_MAX
    for parcel in leased.parcels:
        traced = _with_traces(list(_picked(parcel, room)), TraceNames(parcel.seed))
        found = {record.offset: (record, trace) for record, trace in traced}
        deadline = format_time(parcel.deadline)
        for offset, receipt, attempt in zip(
            parcel.offsets, parcel.receipts, parcel.attempts, strict=True
        ):
            # A lease without its bytes would be a message that nobody can settle.
            record, trace = found[offset]
            room -= len(record.value or b"")
            text = _text(record)
            messages.append(
                DeliveredMessage(
                    parcel.log.topic,
                    parcel.log.partition,
                    offset,
                    times.write(record.timestamp),
                    text.value,
                    PRIORITY_NAMES[record.priority],
                    receipt,
                    attempt,
                    deadline,
                    text.key,
                    text.headers,
                    text.encoding,
                    text.base64_headers,
                    trace,
                )
            )
    return Delivery(messages=messages)


def _with_traces(
    records: Iterable[Record], traces: TraceNames
) -> Iterable[tuple[Record, str | None]]:
    """Each record with its trace; those that are unpacked on the way one at a time."""
    if isinstance(records, list):
        return zip(records, traces.of_all(records), strict=True)
    return ((record, traces.of_all((record,))[0]) for record in records)


def _visible(
    piece: memoryview, from_offset: int, count_max: int, aborted: AbortedRanges
) -> Iterable[Record]:
    if has_compressed(piece):
        return _unpacked(piece, from_offset, count_max, aborted)
    return visible(piece, from_offset, count_max, aborted.ranges)


def _picked(parcel: Parcel, room: int) -> Iterable[Record]:
    offsets = sorted(parcel.offsets)
    for piece in parcel.data:
        if not has_compressed(piece):
            yield from pick(piece, offsets)
        else:
            wanted = frozenset(parcel.offsets)
            for record in _stored(piece, 0):
                if record.offset in wanted:
                    unpacked = _unpack(record) if room > 0 else record
                    room -= len(unpacked.value or b"")
                    yield unpacked


def _unpacked(
    piece: memoryview, from_offset: int, count_max: int, aborted: AbortedRanges
) -> Iterable[Record]:
    """Visible records one at a time: whoever reads may stop before the next is unpacked."""
    kept = (record for record in _stored(piece, from_offset) if record.offset not in aborted)
    for record in itertools.islice(kept, count_max):
        yield _unpack(record)


def _stored(piece: memoryview, from_offset: int) -> Iterable[Record]:
    """The visible records of a piece as they are stored."""
    columns = walk(piece)
    for index, position in enumerate(columns.positions):
        is_hidden = columns.flags[index] & _HIDDEN
        if columns.offsets[index] >= from_offset and not is_hidden:
            yield decode(piece, position)


def _unpack(record: Record) -> Record:
    try:
        return decompress(record)
    except Corrupt:
        return record


def _text(record: Record) -> _Text:
    encoding: Encoding = None
    value = record.value
    try:
        key_text = record.key.decode()
        value_text = None if value is None else value.decode()
    except UnicodeDecodeError:
        encoding = "base64"
        key_text = base64.b64encode(record.key).decode()
        value_text = None if value is None else base64.b64encode(value).decode()
    headers, unreadable = _headers(record.headers) if record.headers else (None, None)
    return _Text(key_text or None, value_text, encoding, headers or None, unreadable)


def _headers(headers: tuple[Header, ...]) -> tuple[dict[str, str], list[str] | None]:
    texts: dict[str, str] = {}
    unreadable: list[str] = []
    for name, value in headers:
        if name == _BOOKKEEPING:
            continue
        try:
            texts[name] = value.decode()
        except UnicodeDecodeError:
            texts[name] = base64.b64encode(value).decode()
            unreadable.append(name)
    return texts, unreadable or None
