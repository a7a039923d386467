"""Fetches stored records of partitions, and returns their messages one by one.

- `Chunk` is a decoded answer. Decoding drops what a reader of stored records must not show (records
  below the wanted offset, control records, delayed ones, those of aborted transactions) and checks
  every checksum.
- `Reader` reads one partition from an offset on, a few chunks ahead. It continues across restarts
  of the broker, and at the next offset that the broker returns, which may be past records that are
  never shown. An error that it cannot recover from takes the place of a chunk.
- `Feed` returns the messages: an index into a list for each. A message counts as finished when the
  next one is requested, so a consumer that dies while handling one gets it again.

Invariant: chunks of one partition are returned in order, and each is released to its reader exactly
once.
"""

import asyncio
import itertools
import logging
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.client.errors import Closed, GoQueueError
from goqueue.client.http import Transport
from goqueue.client.message import Lease, Message
from goqueue.client.retries import is_worth_retrying
from goqueue.client.stored_records import RecordPage, fetch_records
from goqueue.model import LogId
from goqueue.model.requests import Isolation, TraceSeed
from goqueue.records import (
    BATCH_HEADER_START,
    HEADER_SIZE,
    Columns,
    Corrupt,
    Flag,
    decode,
    decode_headers,
    decompress,
    encode_headers,
    walk,
)

if TYPE_CHECKING:
    from goqueue.client.payloads import PayloadReader

__all__ = ["Chunk", "Feed", "OffsetSource", "Reader", "decode_chunk", "decode_leased"]

# How a record is treated, by its flags: left out, taken as it is, or unpacked.
_LEFT_OUT, _TAKEN, _UNPACKED = range(3)
_HIDDEN = int(Flag.CONTROL | Flag.DELAYED)
_PACKED = int(Flag.COMPRESSED | Flag.TOMBSTONE)
_TREATMENTS = bytes(
    _LEFT_OUT if flags & _HIDDEN else _UNPACKED if flags & _PACKED else _TAKEN
    for flags in range(256)
)
_COUNT_SIZE = 2

Ranges = tuple[tuple[int, int], ...]
# A record: its lease, position, offset, timestamp, priority, and the lengths of its parts.
Row = tuple[Lease | None, int, int, int, int, int, int, int]


class Chunk(msgspec.Struct, frozen=True):
    """Messages in offset order, and where to go on after the last of them."""

    log: LogId
    messages: list[Message]
    next_offset: int


def decode_chunk(
    log: LogId, data: bytes, offset: int, aborted: Ranges = (), seed: TraceSeed | None = None
) -> list[Message]:
    """The messages that a reader who wants `offset` and later is to see.

    The traces of those that carry no context follow from the seed.
    """
    try:
        columns = walk(data)
        treatments = _treatments(columns, offset, aborted)
        rows = _rows(columns, itertools.repeat(None, len(treatments)))
        return _messages(log, data, rows, treatments, seed)
    except Corrupt as corrupt:
        words = f"{log}: {corrupt}"
        raise GoQueueError("records_damaged", words) from corrupt


def decode_leased(
    log: LogId,
    data: bytes,
    leases: Callable[[Sequence[int]], Sequence[Lease | None]],
    seed: TraceSeed | None,
) -> list[Message]:
    """The messages of which a lease is held, in the order of their records.

    `leases` is asked for that of each offset; None if the record is not leased.
    """
    try:
        columns = walk(data)
        held = leases(columns.offsets)
        treatments = bytearray(bytes(columns.flags).translate(_TREATMENTS))
        if None in held:
            for index, lease in enumerate(held):
                if lease is None:
                    treatments[index] = _LEFT_OUT
        return _messages(log, data, _rows(columns, held), treatments, seed)
    except Corrupt as corrupt:
        words = f"{log}: {corrupt}"
        raise GoQueueError("records_damaged", words) from corrupt


def _treatments(columns: Columns, offset: int, aborted: Ranges) -> bytearray:
    """One byte per record; no work per record here."""
    treatments = bytearray(bytes(columns.flags).translate(_TREATMENTS))
    offsets = columns.offsets
    for first, last in ((0, offset - 1), *aborted):
        begin, end = bisect_left(offsets, first), bisect_right(offsets, last)
        if begin < end:
            treatments[begin:end] = bytes(end - begin)
    return treatments


def _rows(columns: Columns, leases: Iterable[Lease | None]) -> Iterator[Row]:
    return zip(
        leases,
        columns.positions,
        columns.offsets,
        columns.timestamps,
        columns.priorities,
        columns.key_lengths,
        columns.value_lengths,
        columns.header_lengths,
        strict=True,
    )


def _messages(
    log: LogId, data: bytes, rows: Iterator[Row], treatments: bytearray, seed: TraceSeed | None
) -> list[Message]:
    if treatments.count(_TAKEN) == len(treatments):
        return _plain(log, data, rows, seed)
    return _picked(log, data, rows, treatments, seed)


def _plain(log: LogId, data: bytes, rows: Iterator[Row], seed: TraceSeed | None) -> list[Message]:
    """The fast road: nothing to drop, nothing to unpack, one object per record."""
    topic, partition = log.topic, log.partition
    messages: list[Message] = []
    append = messages.append
    for lease, start, offset, timestamp, priority, key_size, value_size, headers_size in rows:
        value_at = start + HEADER_SIZE + key_size
        end = value_at + value_size
        append(
            Message(
                topic,
                partition,
                offset,
                timestamp,
                priority,
                data[start + HEADER_SIZE : value_at],
                data[value_at:end],
                _headers(data[end : end + headers_size]) if headers_size else b"",
                lease,
                seed,
            )
        )
    return messages


def _headers(block: bytes) -> bytes:
    """The headers of a record without the mark of its batch, which is for the log alone."""
    if not block.startswith(BATCH_HEADER_START, _COUNT_SIZE):
        return block
    return encode_headers(decode_headers(block)[1:])


def _picked(
    log: LogId, data: bytes, rows: Iterator[Row], treatments: bytearray, seed: TraceSeed | None
) -> list[Message]:
    """As above, with a look at what is to be done with each; those left out cost nothing."""
    topic, partition = log.topic, log.partition
    messages: list[Message] = []
    append = messages.append
    for treatment, (
        lease,
        start,
        offset,
        timestamp,
        priority,
        key_size,
        value_size,
        headers_size,
    ) in itertools.compress(zip(treatments, rows, strict=True), treatments):
        if treatment == _UNPACKED:
            append(_unpacked(log, data, start, lease, seed))
            continue
        value_at = start + HEADER_SIZE + key_size
        end = value_at + value_size
        append(
            Message(
                topic,
                partition,
                offset,
                timestamp,
                priority,
                data[start + HEADER_SIZE : value_at],
                data[value_at:end],
                _headers(data[end : end + headers_size]) if headers_size else b"",
                lease,
                seed,
            )
        )
    return messages


def _unpacked(
    log: LogId, data: bytes, position: int, lease: Lease | None, seed: TraceSeed | None
) -> Message:
    record = decode(data, position)
    if record.flags & Flag.COMPRESSED:
        record = decompress(record)
    return Message(
        log.topic,
        log.partition,
        record.offset,
        record.timestamp,
        record.priority,
        record.key,
        record.value,
        _headers(encode_headers(record.headers)),
        lease,
        seed,
    )


_log = logging.getLogger("goqueue.client")

_CHUNKS_AHEAD = 2
# When the broker answers "nothing yet" at once, it is stopping: do not ask it in a tight loop.
_PAUSE_S = 0.05
_PAUSE_S_MAX = 2.0

OffsetSource = Chunk | GoQueueError


class Reader:
    """The chunks of one partition, in order; `run` is its task."""

    def __init__(
        self,
        transport: Transport,
        log: LogId,
        offset: int,
        *,
        chunk_bytes: int,
        wait_s: float,
        on_reading: Callable[["Reader", OffsetSource], None],
        isolation: Isolation = Isolation.READ_COMMITTED,
        payloads: "PayloadReader | None" = None,
    ) -> None:
        self.log = log
        self.is_stopped = False
        self._transport = transport
        self._offset = offset
        self._chunk_bytes = chunk_bytes
        self._wait_s = wait_s
        self._isolation = isolation
        self._payloads = payloads
        self._on_reading = on_reading
        self._room = asyncio.Semaphore(_CHUNKS_AHEAD)

    async def run(self) -> None:
        ended: GoQueueError = Closed(f"reading {self.log} has ended")
        try:
            ended = await self._read_on()
        finally:
            # Whoever waits is told, also when the whole connection breaks down.
            self._on_reading(self, ended)

    async def _read_on(self) -> GoQueueError:
        """Read until there is a failure that no waiting will mend."""
        pause_s = _PAUSE_S
        while True:
            await self._room.acquire()
            try:
                chunk = await self._read_some()
                pause_s = _PAUSE_S
            except GoQueueError as error:
                if not is_worth_retrying(error, is_repeatable=True):
                    return error
                _log.warning("reading %s: %s; trying again", self.log, error)
                self._room.release()
                await self._transport.clock.pause(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
                continue
            self._on_reading(self, chunk)

    def take(self) -> None:
        """A chunk was worked off: there is room for another."""
        self._room.release()

    async def _read_some(self) -> Chunk:
        """Wait for records; the chunk may hold no message, but then it leads further."""
        clock = self._transport.clock
        while True:
            asked_at = clock.time()
            try:
                page = await self._fetch()
            except GoQueueError as error:
                self._jump(error)
                continue
            if page.next_offset > self._offset:
                return await self._chunk(page)
            if clock.time() - asked_at < _PAUSE_S:
                await clock.pause(_PAUSE_S)

    async def _fetch(self) -> RecordPage:
        return await fetch_records(
            self._transport,
            self.log,
            self._offset,
            max_bytes=self._chunk_bytes,
            wait_s=self._wait_s,
            isolation=self._isolation,
        )

    async def _chunk(self, page: RecordPage) -> Chunk:
        messages = decode_chunk(self.log, page.data, self._offset, page.aborted, page.trace_seed)
        if self._payloads is not None:
            messages = await self._payloads.attach(messages)
        # Only now: where the registry does not answer, the records are fetched again.
        self._offset = page.next_offset
        return Chunk(self.log, messages, page.next_offset)

    def _skip_damage(self, error: GoQueueError) -> None:
        following = error.details.get("next_offset")
        if not isinstance(following, int) or following <= self._offset:
            raise error
        _log.warning(
            "%s: offsets %d to %d are damaged on the broker's disk and skipped",
            self.log,
            self._offset,
            following - 1,
        )
        self._offset = following

    def _jump(self, error: GoQueueError) -> None:
        """Retention took what was wanted, or a failover cut the log: go to where there is a log.

        Records that are damaged on the broker's disk are passed over, too: nobody can read them,
        and to end here would keep all that lies behind from being read.
        """
        if error.code == "records_damaged":
            self._skip_damage(error)
            return
        if error.code != "offset_out_of_range":
            raise error
        earliest, end = error.details.get("earliest"), error.details.get("end")
        if not isinstance(earliest, int) or not isinstance(end, int):
            raise error
        offset = earliest if self._offset < earliest else end
        if offset == self._offset:
            raise error
        _log.warning("%s: offset %d is gone, going on at %d", self.log, self._offset, offset)
        self._offset = offset


class Feed:
    """What waits, and the chunk that is being handed out."""

    def __init__(
        self, begin: Callable[[], Awaitable[None]], on_finished: Callable[[LogId, int], None]
    ) -> None:
        self._begin = begin
        self._on_finished = on_finished
        self._waiting: deque[tuple[Reader, OffsetSource]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._reader: Reader | None = None
        self._chunk: Chunk | None = None
        self._messages: list[Message] = []
        self._index = 0
        # The first message that was handed out and is not known to be finished.
        self._held = 0
        self._failure: GoQueueError | None = None
        self._is_ended = False

    async def next(self) -> Message:
        """The next message, if need be when there is one."""
        index = self._index
        if index < len(self._messages):
            self._held = index
            self._index = index + 1
            return self._messages[index]
        await self._advance()
        self._index = 1
        return self._messages[0]

    async def take(self, count_max: int) -> list[Message]:
        """At least one message, at most what is there; all count as one in `next`'s sense."""
        if self._index >= len(self._messages):
            await self._advance()
        self._held = self._index
        taken = self._messages[self._index : self._index + count_max]
        self._index += len(taken)
        return taken

    def position(self, *, is_done: bool, except_last: int = 0) -> tuple[LogId, int] | None:
        """Where the chunk in hand stands.

        With `is_done` everything handed out is finished, except for the last so many; without, what
        was handed out last is not.
        """
        chunk = self._chunk
        if chunk is None or self._index == 0:
            return None
        reached = max(self._index - except_last, 0) if is_done else self._held
        if reached == len(self._messages):
            return chunk.log, chunk.next_offset
        return chunk.log, self._messages[reached].offset

    def put(self, reader: Reader, reading: OffsetSource) -> None:
        """A reader brings a chunk, or the reason why it brings no more."""
        if not reader.is_stopped:
            self._waiting.append((reader, reading))
            self._wake()

    def drop(self, reader: Reader) -> None:
        """Hand out nothing more from this reader."""
        reader.is_stopped = True
        self._waiting = deque(pair for pair in self._waiting if pair[0] is not reader)
        if self._reader is reader:
            self._let_go()

    def fail(self, error: GoQueueError) -> None:
        """After what was read there is nothing but this error."""
        self._failure = error
        self._wake()

    def end(self) -> None:
        """After the message in hand the iteration ends."""
        self._is_ended = True
        self._messages = []
        self._index = 0
        self._wake()

    async def _advance(self) -> None:
        """Finish the chunk in hand and take up the next one that has messages."""
        if not self._is_ended:
            await self._begin()
        while True:
            self._finish()
            if self._is_ended:
                raise StopAsyncIteration
            if not self._waiting:
                if self._failure is not None:
                    raise self._failure
                await self._wait()
                continue
            reader, reading = self._waiting.popleft()
            if isinstance(reading, GoQueueError):
                raise reading
            self._reader, self._chunk = reader, reading
            self._messages, self._index, self._held = reading.messages, 0, 0
            if reading.messages:
                return

    def _finish(self) -> None:
        if self._chunk is not None and self._reader is not None:
            self._on_finished(self._chunk.log, self._chunk.next_offset)
            self._reader.take()
        self._let_go()

    def _let_go(self) -> None:
        self._reader = self._chunk = None
        self._messages, self._index, self._held = [], 0, 0

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise GoQueueError("request_invalid", "a stream is read by one task at a time")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
