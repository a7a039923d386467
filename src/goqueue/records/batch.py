"""Records one after the other: drafted from messages, verified, and given their offsets.

The publish path. Works on bytes that may come from anyone: whatever is wrong is found before
anything is changed.

Invariant: a batch that verify() accepted consists of whole records, and stamp() keeps it so.
"""

from array import array
from collections.abc import Sequence

import msgspec

from goqueue.model import Code, Facts, Header, Message, Priority, Refused
from goqueue.records.cursor import Cursor
from goqueue.records.layout import DELIVER_HEADER, OFFSET_MAX, Buffer
from goqueue.records.record import encode_headers

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import (
        HAS_HEADERS,
        IS_COMMIT,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        OK,
        PRIORITY_MAX,
    )
    from goqueue.records.octets import digits_of
    from goqueue.records.record import prove, weigh


# Room for some thirty small messages; each time it is full it is doubled.
_FIRST_ROOM = 4096
_NORMAL = int(Priority.NORMAL)
# Where the flags are in a record. The sum does not cover them.
_FLAGS_BYTE = 3
# A time from 2001 to 2262 has as many. So the block of a delayed message without other headers
# begins always alike.
_DIGITS = 19
_TIME_ALONE = ((DELIVER_HEADER, bytes(_DIGITS)),)
_TIME_BEGINS = encode_headers(_TIME_ALONE)[:-_DIGITS]


class Stamped(msgspec.Struct, frozen=True):
    """How many records were stamped, and the newest of their timestamps."""

    count: int
    max_timestamp: int


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What a valid batch holds, as far as all of its records together tell."""

    count: int
    # The flags that at least one record has.
    flags: int
    # Whether a record has an offset already.
    has_offset: bool
    # Whether a record has a header whose name is reserved, other than that of its codec.
    has_reserved: bool


class Draft:
    """Messages becoming a batch one by one; a refused one leaves the batch as it was.

    Records have offset 0, and a timestamp of 0 is left to the broker.
    """

    __slots__ = ("_built", "_cursor")

    def __init__(self) -> None:
        self._built = bytearray()
        self._cursor = Cursor(self._built)

    def add(
        self,
        key: bytes,
        value: bytes | None,
        headers: tuple[Header, ...] = (),
        priority: int = _NORMAL,
        *,
        timestamp: int = 0,
    ) -> None:
        """Append an ordinary message, given by its parts to spare the object."""
        self._note(priority, timestamp)
        self._append(key, value, _block(headers) if headers else b"", headers, 0)

    def delay(
        self,
        key: bytes,
        value: bytes | None,
        due: int,
        headers: tuple[Header, ...] = (),
        priority: int = _NORMAL,
    ) -> None:
        """Append a message that is to be delivered at a time, which becomes its last header."""
        self._note(priority, 0)
        if not 0 <= due <= OFFSET_MAX:
            raise Refused(Code.MESSAGE_INVALID, part="headers", found=due)
        digits = digits_of(due)
        if headers or len(digits) != _DIGITS:
            headers = (*headers, (DELIVER_HEADER, digits))
            self._append(key, value, _block(headers), headers, IS_DELAYED)
        else:
            self._append(key, value, _TIME_BEGINS + digits, _TIME_ALONE, IS_DELAYED)

    def put(self, message: Message) -> None:
        """Append a message of any kind."""
        self._note(message.priority, message.timestamp)
        headers = message.headers
        block = _block(headers) if headers else b""
        self._append(message.key, message.value, block, headers, _flags(message))

    def take(self) -> bytearray:
        """The batch; the draft is empty again and may be used for the next one."""
        built = self._built
        end = self._cursor.position
        self._cursor.release()
        del built[end:]
        self._built = bytearray()
        self._cursor = Cursor(self._built)
        return built

    def _note(self, priority: int, timestamp: int) -> int:
        if not 0 <= priority <= PRIORITY_MAX:
            raise Refused(Code.MESSAGE_INVALID, part="priority", found=priority)
        if not 0 <= timestamp <= OFFSET_MAX:
            raise Refused(Code.MESSAGE_INVALID, part="timestamp", found=timestamp)
        self._cursor.priority = priority
        self._cursor.timestamp = timestamp
        return 0

    def _append(
        self,
        key: bytes,
        value: bytes | None,
        block: bytes,
        headers: tuple[Header, ...],
        flags: int,
    ) -> int:
        """Write a record; `block` is what the headers are as bytes."""
        if block:
            flags |= HAS_HEADERS
        if value is None:
            value = b""
            flags |= IS_TOMBSTONE
        size = weigh(key, value, block)
        flags = prove(flags, key, headers)
        if self._cursor.size - self._cursor.position < size:
            self._grow(size)
        self._cursor.flags = flags
        self._cursor.write(key, value, block)
        return 0

    def _grow(self, size: int) -> int:
        before = self._cursor
        position = before.position
        before.release()
        # Doubled by repeating itself, which needs no second buffer: what lies past the position
        # is written over or cut off.
        self._built *= 2
        if len(self._built) - position < size:
            self._built.extend(bytes(max(size, _FIRST_ROOM)))
        self._cursor = Cursor(self._built)
        self._cursor.position = position
        self._cursor.priority = before.priority
        self._cursor.timestamp = before.timestamp
        return 0


def build(messages: Sequence[Message]) -> bytearray:
    """The records of these messages, with offset 0; a timestamp of 0 is left to the broker."""
    draft = Draft()
    index = 0
    try:
        for message in messages:
            draft.put(message)
            index += 1
    except Refused as refused:
        facts: Facts = {"index": index, **refused.facts}
        raise Refused(refused.code, **facts) from None
    return draft.take()


def _block(headers: tuple[Header, ...]) -> bytes:
    for name, _ in headers:
        if not name:
            raise Refused(Code.MESSAGE_INVALID, part="headers", found="empty name")
    return encode_headers(headers)


def _flags(message: Message) -> int:
    if message.is_commit and not message.is_control:
        raise Refused(Code.MESSAGE_INVALID, part="flags", found="commit without control")
    flags = IS_COMPRESSED if message.is_compressed else 0
    if message.is_control:
        flags |= IS_CONTROL
    if message.is_commit:
        flags |= IS_COMMIT
    if message.is_delayed:
        flags |= IS_DELAYED
    return flags


def mark_delayed(batch: bytearray, now: int, latest: int) -> "array[int]":
    """Flag the records of a verified batch that are to be delivered after `now`, and say when.

    0 stands for a record to be delivered at once. -1 stands for one that was not looked into: it
    is due after `latest`, or has reserved headers that are not just one time.
    """
    cursor = Cursor(batch)
    reason = cursor.hop_all()
    if reason != OK:
        raise cursor.corrupt(reason)
    dues = array("q", bytes(8 * cursor.count))
    # The same memory, typed where compiled.
    column = dues
    position = 0
    for index in range(cursor.count):
        reason = cursor.hop(position)
        if reason == OK and cursor.headers_length:
            reason = cursor.check_headers()
            due = cursor.due
            if due > latest:
                column[index] = -1
            elif due > now:
                batch[position + _FLAGS_BYTE] |= IS_DELAYED
                column[index] = due
            elif due < 0:
                column[index] = -1
        if reason != OK:
            raise cursor.corrupt(reason)
        position = cursor.end
    return dues


def verify(batch: Buffer) -> int:
    """The number of records, if the batch is nothing but whole and valid ones.

    Offsets are not looked at: a batch that was not stamped yet has none.
    """
    cursor = Cursor(batch)
    reason = cursor.check_all(0, False)
    if reason != OK:
        raise cursor.corrupt(reason)
    return cursor.count


def examine(batch: Buffer) -> Examined:
    """verify(), and what a gateway decides by, in one pass over the bytes."""
    cursor = Cursor(batch)
    count = position = 0
    flags = 0
    offsets = 0
    has_reserved = False
    while position < cursor.size:
        reason = cursor.hop(position)
        if reason == OK:
            reason = cursor.check()
        if reason != OK:
            raise cursor.corrupt(reason)
        flags |= cursor.flags
        offsets |= cursor.offset
        if cursor.headers_length > 0 and cursor.due != 0:
            has_reserved = True
        position = cursor.end
        count += 1
    return Examined(count=count, flags=flags, has_offset=offsets != 0, has_reserved=has_reserved)


def sums(data: Buffer, start: int, end: int) -> None:
    """Check the whole records in data[start:end] as verify() does, and that their offsets rise.

    For stored data: a valid record of another place is as wrong there as a damaged one.
    """
    cursor = Cursor(data)
    if not 0 <= start <= end <= cursor.size:
        raise IndexError(f"bytes {start} to {end} of {cursor.size}")
    cursor.size = end
    reason = cursor.check_all(start, True)
    if reason != OK:
        raise cursor.corrupt(reason)


def stamp(batch: bytearray | memoryview, first_offset: int, timestamp: int) -> Stamped:
    """Give the records offsets from `first_offset` on.

    A timestamp of 0, or one in the future, becomes `timestamp`; others are kept. Bodies are
    not verified: a wrong sum would be covered by the new one, so verify() comes first.
    """
    cursor = Cursor(batch)
    if cursor.is_readonly():
        raise BufferError("a batch is stamped in place: it must be writable")
    reason = cursor.hop_all()
    if reason != OK:
        raise cursor.corrupt(reason)
    count = cursor.count
    if first_offset < 0 or first_offset > OFFSET_MAX - count:
        raise IndexError(f"{count} offsets from {first_offset} on")
    position = 0
    newest = 0
    for index in range(count):
        reason = cursor.hop(position)
        # Only if someone wrote to the batch since it was counted: never sum past its end.
        if reason != OK:
            raise cursor.corrupt(reason)
        stamped = cursor.timestamp
        if stamped == 0 or stamped > timestamp:
            stamped = timestamp
        newest = max(newest, stamped)
        cursor.stamp(first_offset + index, stamped)
        position = cursor.end
    return Stamped(count, newest)


def crc32c(data: Buffer) -> int:
    """CRC-32C (Castagnoli) of the bytes, as stored in records."""
    return Cursor(data).sum_all()
