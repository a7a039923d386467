"""The tail of a topic as server-sent events: what is there, and what comes, until somebody stops.

Each message is one event whose `data` is the message as a read shows it. The `id` of an event lists
where each partition continues after it, so a browser that sends the last id it saw gets what
follows, neither more nor less. What readers may not see is left out, as in a read.

An id that lies beyond the end of a partition, or is of another number of partitions, is of a topic
that was deleted and created again. To wait for its offsets would be silent, perhaps for ever, and a
refusal would end an `EventSource` for good without a word: the tail begins with all that is kept,
and a `reset` event says so. An `offset` in the query is a wish of the caller, and is refused there.

A client that does not keep up is waited for: nothing is read for it meanwhile, and what retention
removed until then is told as a `gap`. One that reads nothing is cut off by the connection. The last
event of a stream that the server ends is `end`, with the reason.

Cost: a tail that waits is one waiting request of the node, for all of its partitions. One read
brings at most 32 KiB of records (or one record), and messages are written a hundred at a time. A
tail whose messages come one by one reads at most fifty times a second.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from goqueue.gateways.errors import describe
from goqueue.gateways.http.bodies import INT64_MAX, TIME_PATTERN, JsonSchema
from goqueue.gateways.http.read import ISOLATION
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import (
    TOPIC,
    Parameter,
    choice,
    duration,
    integer,
    partition,
    text,
)
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse, HttpStream, StreamSink
from goqueue.gateways.visibility import AbortedRanges, end_for_reader, offset_after
from goqueue.model import (
    EVENT_STREAM_MEDIA,
    HOUR,
    SECOND,
    Code,
    Offset,
    Record,
    Refused,
    Timestamp,
    parse_duration,
    parse_time,
)
from goqueue.model.requests import (
    DescribePartitions,
    Isolation,
    PartitionList,
    Read,
    Records,
    Start,
    Watch,
    Watched,
)
from goqueue.records import JsonMessages, RecordFinder, visible

__all__ = ["TAIL_ROUTES"]

_SECTION = "Read by offset"
_PARTITIONS_MAX = 100
_READ_BYTES = 32 * 1024
_MESSAGES_TOGETHER = 100
_MESSAGE_BYTES_MAX = 64 * 1024 * 1024
_HEARTBEAT_NS = 15 * SECOND
# New messages are waited for so long before the next read, so that many travel together.
_RATE_WAIT_S_MAX = 1.0
_PACE_S = 0.02
_LAST_MAX = 10_000

# Every client ignores comments.
_COMMENT = b":\n"
_RETRY = b"retry: 1000\n\n"
_NO_BUFFERS = ((b"X-Accel-Buffering", b"no"),)
_EVENT_ID = b"last-event-id"
_ID_BYTES_MAX = 2048
_ID = re.compile(rb"[0-9]{1,19}(,[0-9]{1,19})*")
_ENCODER = msgspec.json.Encoder()


# ---- parameters ----------------------------------------------------------------------------


class _Since(NamedTuple):
    """A time, or how long ago."""

    at: Timestamp | None
    ago_ns: int


def _read_since(given: str) -> _Since:
    try:
        return _Since(None, parse_duration(given))
    except ValueError:
        pass
    try:
        # A plus that was not percent-encoded arrives as a space.
        zone = given[:-6] + "+" + given[-5:] if given[-6:-5] == " " else given
        return _Since(parse_time(zone), 0)
    except ValueError:
        reason = "must be a time such as 2025-01-31T12:00:00Z, or a duration such as 15m"
        raise Refused(Code.REQUEST_INVALID, field="since", reason=reason) from None


class _HeaderFilter(NamedTuple):
    name: str
    value: bytes | None


def _read_header(given: str) -> _HeaderFilter:
    name, colon, value = given.partition(":")
    if not name:
        reason = "must be a name, or name:value"
        raise Refused(Code.REQUEST_INVALID, field="header", reason=reason)
    return _HeaderFilter(name, value.encode() if colon else None)


def _optional_text(name: str, summary: str, maximum: int) -> Parameter[str | None]:
    needed = text(name, summary, maximum=maximum)
    return Parameter(name=name, summary=summary, schema=needed.schema, read=needed.read)


_TIME_SCHEMA: JsonSchema = {"type": "string", "pattern": TIME_PATTERN}
_AGO_SCHEMA: JsonSchema = {"type": "string", "pattern": "^[0-9]{1,5}(s|m|h)$"}

_PARTITION = partition("partition", "only this partition", default=None)
_KEY = _optional_text("key", "only messages with exactly this key", 4096)
_HEADER: Parameter[_HeaderFilter | None] = Parameter(
    name="header",
    summary="only messages with this header: `name`, or `name:value`",
    schema={"type": "string", "minLength": 1, "maxLength": 4096, "pattern": "^[^:]"},
    read=_read_header,
)
_FROM = choice(
    "from", "where to begin: with what comes, or with all that is kept", default=Start.LATEST
)
_OFFSET = integer(
    "offset",
    "begin at this offset, instead of `from`; needs `partition`",
    default=None,
    minimum=0,
    maximum=INT64_MAX,
)
_LAST = integer(
    "last",
    "begin this number of offsets before the end of each partition, instead of `from`",
    default=None,
    minimum=1,
    maximum=_LAST_MAX,
    is_cut=True,
)
_SINCE: Parameter[_Since | None] = Parameter(
    name="since",
    summary="begin at a time, or a duration ago (`15m`), instead of `from`",
    schema={"anyOf": [_AGO_SCHEMA, _TIME_SCHEMA], "examples": ["15m"]},
    read=_read_since,
)
_LIMIT = integer(
    "limit", "end after this number of messages", default=None, minimum=1, maximum=INT64_MAX
)
_TIMEOUT = duration(
    "timeout", "end after this time; absent, never", default=None, maximum_ns=24 * HOUR, is_cut=True
)
_STARTS = (_FROM, _OFFSET, _LAST, _SINCE)


# ---- events --------------------------------------------------------------------------------


class _Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a partition that cannot be shown, and why; of a reset, where it continues."""

    partition: int
    from_offset: int
    to_offset: int
    code: str


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """Why a stream has ended."""

    code: str
    reason: str


def _event(kind: str, data: msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _ENCODER.encode(data))


class _Filter(NamedTuple):
    """Which messages are shown."""

    key: bytes | None
    header: _HeaderFilter | None

    def takes(self, record: Record) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        wanted = self.header
        if wanted is None:
            return True
        # Of equal names the last counts, as in a read.
        found = dict(record.headers).get(wanted.name)
        return found is not None and wanted.value in (None, found)


class _Tail:
    """One stream: where it stands in each partition, and what it shows."""

    def __init__(self, call: Call, topic: str, begin: "_Begin", count: int) -> None:
        """`count` is how many partitions the topic has: an id of an event lists them all."""
        self._call = call
        self._topic = topic
        self._positions = begin.positions
        self._resets = begin.resets
        self._places = [begin.positions.get(number, 0) for number in range(count)]
        key = call[_KEY]
        self._filter = _Filter(None if key is None else key.encode(), call[_HEADER])
        self._isolation: Isolation = call[ISOLATION]
        self._left = call[_LIMIT]
        timeout_ns = call[_TIMEOUT]
        self._ticks = call.context.ticks
        self._sent_at = self._ticks()
        self._deadline = None if timeout_ns is None else self._ticks() + timeout_ns

    async def run(self, sink: StreamSink) -> None:
        """Send events until the limit, the time, or the node ends it."""
        await sink.send(_RETRY)
        for reset in self._resets:
            await self._send(sink, b"id: %b\n%b" % (self._event_id(), _event("reset", reset)))
        try:
            end = await self._follow(sink)
        except Refused as refused:
            end = _End(code=refused.code.value, reason=describe(refused.code, refused.facts))
        await sink.send(_event("end", end))

    async def _follow(self, sink: StreamSink) -> _End:
        behind = tuple(self._positions)
        while True:
            has_more = False
            for number in behind:
                has_more |= await self._show(sink, number)
                if self._left == 0:
                    return _End(code="limit", reason="as many messages as asked for")
            if self._deadline is not None and self._ticks() >= self._deadline:
                return _End(code="timeout", reason="the time is over")
            if self._ticks() - self._sent_at >= _HEARTBEAT_NS:
                # A filter may leave out all that comes: show the way to whoever resumes.
                await self._send(sink, b"%bid: %b\n\n" % (_COMMENT, self._event_id()))
            behind = await self._wait(is_paced=not has_more)

    async def _wait(self, *, is_paced: bool) -> tuple[int, ...]:
        """The partitions that have news; none if none came before the next sign of life is due."""
        if is_paced:
            await asyncio.sleep(_PACE_S)
        now = self._ticks()
        until = self._sent_at + _HEARTBEAT_NS
        if self._deadline is not None:
            until = min(until, self._deadline)
        watch = Watch(
            topic=self._topic,
            offsets={number: Offset(at) for number, at in self._positions.items()},
            wait_ns=max(0, until - now),
            isolation=self._isolation,
        )
        return (await self._call.ask(watch, Watched)).partitions

    async def _show(self, sink: StreamSink, number: int) -> bool:
        """Read on in one partition; whether there is more."""
        offset = self._positions[number]
        read = Read(
            topic=self._topic,
            partition=number,
            offset=Offset(offset),
            bytes_max=_READ_BYTES,
            isolation=self._isolation,
        )
        try:
            records = await self._call.ask(read, Records)
        except Refused as refused:
            if refused.code is Code.RATE_LIMITED:
                # A stream goes on when its tenant may read again; signs of life come meanwhile.
                wait_s = refused.facts.get("retry_after_ms", 0) / 1000
                await asyncio.sleep(min(wait_s, _RATE_WAIT_S_MAX))
                return True
            following = refused.facts.get("next_offset")
            if refused.code is not Code.RECORDS_DAMAGED or following is None:
                raise
            await self._skip(sink, number, following, Code.RECORDS_DAMAGED)
            return True
        if records.offset > offset:
            await self._skip(sink, number, records.offset, Code.OFFSET_OUT_OF_RANGE)
        for piece in _events_of(records, self._filter, self._take):
            await self._send(sink, piece)
            await asyncio.sleep(0)
        if self._left != 0:
            self._move(number, offset_after(records))
        return self._positions[number] < end_for_reader(records, self._isolation)

    async def _send(self, sink: StreamSink, data: bytes | bytearray) -> None:
        if data:
            await sink.send(data)
            self._sent_at = self._ticks()

    async def _skip(self, sink: StreamSink, number: int, upto: int, code: Code) -> None:
        gap = _Gap(
            partition=number, from_offset=self._positions[number], to_offset=upto, code=code.value
        )
        self._move(number, upto)
        await self._send(sink, _event("gap", gap))

    def _move(self, number: int, offset: int) -> None:
        self._positions[number] = self._places[number] = offset

    def _take(self, number: int, offset: int) -> bytes | None:
        """The id of the event of a message; None if no more are wanted."""
        if self._left == 0:
            return None
        if self._left is not None:
            self._left -= 1
        self._move(number, offset + 1)
        return self._event_id()

    def _event_id(self) -> bytes:
        return b",".join(b"%d" % place for place in self._places)


def _events_of(
    records: Records, wanted: _Filter, take: Callable[[int, int], bytes | None]
) -> Iterator[bytearray]:
    """The events of the messages that were read, a few at a time."""
    log = records.log
    pieces = [piece for piece in records.data if len(piece)]
    finder = RecordFinder(pieces)
    aborted = AbortedRanges(records.aborted).ranges
    text, count = bytearray(), 0
    for piece in pieces:
        for record in visible(piece, records.offset, len(piece), aborted):
            event_id = take(log.partition, record.offset) if wanted.takes(record) else b""
            if event_id is None:
                break
            if not event_id:
                continue
            messages = JsonMessages(b"", _MESSAGE_BYTES_MAX)
            messages.begin_partition(log.topic, log.partition, records.seed, 0)
            messages.add_found(finder, (record.offset,))
            text += b"id: %b\ndata: " % event_id
            text += messages.take(b"")
            text += b"\n\n"
            count += 1
            if count % _MESSAGES_TOGETHER == 0:
                yield text
                text = bytearray()
    yield text


# ---- where to begin ------------------------------------------------------------------------


async def _tail(call: Call) -> HttpResponse:
    given = [each.name for each in _STARTS if each.name in call.given]
    if len(given) > 1:
        reason = f"give only one of {' and '.join(given)}"
        raise Refused(Code.REQUEST_INVALID, field=given[1], reason=reason)
    if call.has(_OFFSET) and not call.has(_PARTITION):
        raise Refused(Code.REQUEST_INVALID, field="offset", reason="needs `partition`")
    topic = call[TOPIC]
    described = await call.ask(DescribePartitions(topic=topic), PartitionList)
    count = len(described.partitions)
    numbers = _numbers(call[_PARTITION], count)
    begin = _resumed(call.request.headers.get(_EVENT_ID), numbers, described)
    if begin is None:
        positions = {number: await _start(call, described, number) for number in numbers}
        begin = _Begin(positions, ())
    tail = _Tail(call, topic, begin, count)
    streams = call.context.streams
    streams.check()

    async def run(sink: StreamSink) -> None:
        with streams:
            await tail.run(sink)

    stream = HttpStream(run, _COMMENT + b"\n")
    return HttpResponse(200, b"", EVENT_STREAM_MEDIA.encode(), _NO_BUFFERS, stream)


def _numbers(wanted: int | None, count: int) -> list[int]:
    if wanted is None and count > _PARTITIONS_MAX:
        reason = f"is needed: the topic has more than {_PARTITIONS_MAX} partitions"
        raise Refused(Code.REQUEST_INVALID, field="partition", reason=reason)
    if wanted is None:
        return list(range(count))
    if wanted >= count:
        raise Refused(Code.PARTITION_NOT_FOUND, partitions=count)
    return [wanted]


class _Begin(NamedTuple):
    """The first offset of each partition, and where that is not what the client asked for."""

    positions: dict[int, int]
    resets: tuple[_Gap, ...]


def _resumed(event_id: bytes | None, numbers: list[int], described: PartitionList) -> _Begin | None:
    """Where the last event that a client saw leaves off; None if it saw none."""
    if not event_id:
        return None
    places: list[int] = []
    if len(event_id) <= _ID_BYTES_MAX and _ID.fullmatch(event_id):
        places = [int(place) for place in event_id.split(b",")]
    if not places or max(places) > INT64_MAX:
        reason = "is not the id of an event"
        raise Refused(Code.REQUEST_INVALID, field="Last-Event-ID", reason=reason)
    is_of_another = len(places) != len(described.partitions)
    positions, resets = {}, []
    for number in numbers:
        found = described.partitions[number]
        place = places[number] if number < len(places) else 0
        if is_of_another or place > found.high_watermark:
            start = int(found.earliest_offset)
            code = Code.OFFSET_OUT_OF_RANGE.value
            resets.append(_Gap(partition=number, from_offset=place, to_offset=start, code=code))
            place = start
        positions[number] = place
    return _Begin(positions, tuple(resets))


async def _start(call: Call, described: PartitionList, number: int) -> int:
    found = described.partitions[number]
    offset, last, since = call[_OFFSET], call[_LAST], call[_SINCE]
    if offset is not None:
        if offset > found.high_watermark:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE,
                offset=offset,
                earliest=found.earliest_offset,
                end=found.high_watermark,
            )
        return offset
    if last is not None:
        return max(found.earliest_offset, found.high_watermark - last)
    if since is not None:
        return await _offset_at(call, number, since)
    return found.earliest_offset if call[_FROM] is Start.EARLIEST else found.high_watermark


async def _offset_at(call: Call, number: int, since: _Since) -> int:
    at = since.at
    if at is None:
        at = Timestamp(max(0, call.context.clock() - since.ago_ns))
    read = Read(topic=call[TOPIC], partition=number, timestamp=at, bytes_max=1)
    try:
        return (await call.ask(read, Records)).offset
    except Refused as refused:
        following = refused.facts.get("next_offset")
        if refused.code is not Code.RECORDS_DAMAGED or following is None:
            raise
        return following


TAIL_ROUTES = (
    Route(
        method="GET",
        path="/topics/{topic}/tail",
        section=_SECTION,
        summary="Follow a topic as server-sent events",
        run=_tail,
        parameters=(
            TOPIC,
            _PARTITION,
            _KEY,
            _HEADER,
            *_STARTS,
            _LIMIT,
            _TIMEOUT,
            ISOLATION,
        ),
        answer_media=EVENT_STREAM_MEDIA,
        errors=(Code.PARTITION_NOT_FOUND, Code.PARTITION_INVALID, Code.OFFSET_OUT_OF_RANGE),
        waits=True,
    ),
)
