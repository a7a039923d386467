# cython: boundscheck=False, wraparound=False
"""Stored records as the JSON messages of a read or a poll, written straight from their bytes.

Owns the form of a message: which fields it has, in which order, and which are left out. Keys and
values are strings where both are UTF-8 and base64 where one of them is not; headers are so one by
one. The bytes were verified when they arrived; every length is checked against the record all the
same.

A message costs no object unless it is compressed, or has a trace context or unusual headers (more
than a few, one name twice, a value that is not UTF-8): what it has of those is made in Python and
written into the same text.

Invariant: the text is a list of whole messages, in the order in which they were added.
"""

from collections.abc import Sequence

import msgspec

from goqueue.model import Header, Priority
from goqueue.model.requests import TraceSeed
from goqueue.records.compression import decompress_value
from goqueue.records.cursor import Cursor
from goqueue.records.json_text import JsonText
from goqueue.records.layout import BATCH_HEADER, CODEC_HEADER, OFFSET_MAX, Buffer, Corrupt
from goqueue.records.record import decode_headers
from goqueue.records.record_finder import RecordFinder

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import (
        CONTROL_PREFIX,
        HEADER_SIZE,
        IS_COMPRESSED,
        IS_CONTROL,
        IS_DELAYED,
        IS_TOMBSTONE,
        OK,
    )
    from goqueue.records.traceparent import header_context, trace_high, trace_low

__all__ = ["JsonMessages"]

_PRIORITIES = tuple([b',"priority":"%b"' % each.name.lower().encode() for each in Priority])
_ENCODER = msgspec.json.Encoder()
_CODEC = CODEC_HEADER.encode()
_BATCH = BATCH_HEADER
# Of text, in about a millisecond.
_STEP_BYTES = 1024 * 1024
# Each name is compared with all before it.
_QUICK_HEADERS_MAX = 16
_CONTEXT_BYTES = 25
_TRACE_BYTES = 16
_ORIGIN_BYTES = 8
_U64_MAX = (1 << 64) - 1


class JsonMessages:
    """The messages of one answer, between a head and a tail.

    `room` is how many bytes of keys, values and headers the answer still takes, and how many bytes
    of compressed values are decompressed; `count` is how many messages were added.
    """

    __slots__ = (
        "_has_lease",
        "_has_seed",
        "_lease",
        "_priorities",
        "_seed_high",
        "_seed_low",
        "_seed_max",
        "_start",
        "_step_end",
        "_text",
        "count",
        "is_full",
        "last_offset",
        "room",
    )

    def __init__(self, head: bytes, room: int) -> None:
        self._text = JsonText()
        self._text.put(head)
        self.room = room
        self.count = 0
        self.is_full = False
        self.last_offset = -1
        self._step_end = _STEP_BYTES
        self._start = b""
        self._priorities = _PRIORITIES
        self._has_lease = False
        self._lease = b""
        self._has_seed = False
        self._seed_high = self._seed_low = self._seed_max = 0

    def begin_partition(
        self, topic: str, partition: int, seed: TraceSeed | None, expected_bytes: int
    ) -> None:
        """What is added from now on is of this partition; its traces follow from the seed.

        The text will hardly be more than `expected_bytes` longer.
        """
        self._text.reserve(expected_bytes)
        self._start = b'{"topic":%b,"partition":%d,"offset":' % (_ENCODER.encode(topic), partition)
        self._has_seed = seed is not None and seed.threshold > 0
        if seed is not None:
            self._seed_high = seed.high
            self._seed_low = seed.low
            self._seed_max = max(0, min(seed.threshold - 1, _U64_MAX))

    def begin_lease(self, receipt_start: str, receipt_end: str, attempt: int, until: str) -> None:
        """What is added from now on is leased; the offset stands between the parts of a receipt."""
        start = b',"receipt_handle":' + _ENCODER.encode(receipt_start).removesuffix(b'"')
        self._priorities = tuple([each + start for each in _PRIORITIES])
        end = _ENCODER.encode(receipt_end).removeprefix(b'"')
        deadline = _ENCODER.encode(until)
        self._lease = b'%b,"delivery_count":%d,"deadline":%b' % (end, attempt, deadline)
        self._has_lease = True

    def add_found(self, finder: RecordFinder, offsets: Sequence[int], first: int = 0) -> int:
        """Add the records with these offsets from the `first` on, in this order; the next to add.

        Stops where a step ends.
        """
        # Places are not checked below.
        index = max(first, 0)
        count = len(offsets)
        while index < count and self._text.size < self._step_end:
            self._add(finder.find(offsets[index]))
            index += 1
        return index

    def ends_step(self) -> bool:
        """Whether much was written since the last step: others should get a turn now."""
        is_over = self._text.size >= self._step_end
        if is_over:
            self._step_end = self._text.size + _STEP_BYTES
        return is_over

    def add_visible(
        self,
        data: Buffer,
        from_offset: int,
        count_max: int,
        without: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Add the records that readers may see; returns the offset to read from next.

        Control records are never seen, delayed ones not until their time, and nothing of the ranges
        `without`, each from its first offset to the one after its last, in order. Stops where a
        step ends, or when the answer has so many messages, or one and no room: then it is full.
        """
        cursor = Cursor(data)
        position = 0
        previous = -1
        # The range that is not passed yet.
        index = 0
        first = following = OFFSET_MAX
        if index < len(without):
            first, following = without[index]
        while position < cursor.size and self.count < count_max:
            if self._text.size >= self._step_end:
                break
            reason = cursor.rise(position, previous)
            if reason != OK:
                raise cursor.corrupt(reason)
            previous = cursor.offset
            position = cursor.end
            while previous >= following:
                index += 1
                first = following = OFFSET_MAX
                if index < len(without):
                    first, following = without[index]
            is_left_out = previous < from_offset or previous >= first
            if is_left_out or cursor.flags & (IS_CONTROL | IS_DELAYED):
                continue
            if self.room <= 0 and self.count > 0:
                self.is_full = True
                return self.last_offset + 1
            self._add(cursor)
        self.is_full = self.count >= count_max
        if previous < 0:
            return from_offset
        return (self.last_offset if self.is_full else previous) + 1

    def take(self, tail: bytes) -> bytearray:
        """The whole text; nothing can be added any more."""
        if self.count:
            # The comma behind the last.
            self._text.shorten(self._text.size - 1)
        self._text.put(tail)
        return self._text.take()

    def _add(self, cursor: Cursor) -> None:
        """Write the record under the cursor, and a comma."""
        text = self._text
        has_headers = cursor.headers_length > 0
        if has_headers:
            reason = cursor.check_headers()
            if reason != OK:
                raise cursor.corrupt(reason)
        values = cursor
        value_end = cursor.end - cursor.headers_length
        value_start = value_end - cursor.value_length
        size = cursor.given_bytes()
        is_unpacked = False
        if cursor.flags & IS_COMPRESSED and self.room > 0:
            unpacked = _decompressed(cursor)
            is_unpacked = unpacked is not None
            if unpacked is not None:
                values = Cursor(unpacked)
                value_start = 0
                value_end = values.size
                size += values.size - cursor.value_length
        key_start = cursor.position + HEADER_SIZE
        key_end = key_start + cursor.key_length
        value_size = text.measure(values, value_start, value_end)
        key_size = text.measure(cursor, key_start, key_end)
        if value_size < 0 or key_size < 0:
            value_size = key_size = -1
        text.put_number(self._start, cursor.offset, b',"timestamp":"')
        text.put_time(cursor.timestamp, b'Z","value":')
        if cursor.flags & IS_TOMBSTONE:
            text.put(b"null")
        else:
            self._put(values, value_start, value_end, value_size)
        priority = self._priorities[cursor.priority]
        if self._has_lease:
            text.put_number(priority, cursor.offset, self._lease)
        else:
            text.put(priority)
        if key_end > key_start:
            text.put(b',"key":')
            self._put(cursor, key_start, key_end, key_size)
        unreadable = self._put_headers(cursor, is_unpacked) if has_headers else None
        if key_size < 0:
            text.put(b',"encoding":"base64"')
        if unreadable:
            text.put(b',"base64_headers":' + _ENCODER.encode(unreadable))
        if self._has_seed or has_headers:
            self._put_trace(cursor, has_headers)
        text.put(b"},")
        self.last_offset = cursor.offset
        self.room -= size
        self.count += 1

    def _put(self, source: Cursor, start: int, end: int, size: int) -> None:
        """Write bytes as a string that is so long, or in base64 if that is negative."""
        if size >= 0:
            self._text.put_string(source, start, end, size)
        else:
            self._text.put_base64(source, start, end)

    def _put_headers(self, cursor: Cursor, is_unpacked: bool) -> list[str] | None:
        """Write the headers that are shown; the names of those in base64."""
        position = cursor.end - cursor.headers_length
        left = cursor.length_at(position)
        if left > _QUICK_HEADERS_MAX or (left > 1 and _has_name_twice(cursor)):
            return self._put_many_headers(cursor, is_unpacked)
        text = self._text
        unreadable: list[str] | None = None
        before = b',"headers":{'
        position += 2
        while left > 0:
            start = position + 2
            end = start + cursor.length_at(position)
            value = end + 2
            position = value + cursor.length_at(end)
            left -= 1
            if cursor.has_prefix(start, end, CONTROL_PREFIX) and _is_hidden(
                cursor.between(start, end), is_unpacked
            ):
                continue
            text.put(before)
            before = b","
            text.put_string(cursor, start, end, text.measure(cursor, start, end))
            text.put(b":")
            size = text.measure(cursor, value, position)
            self._put(cursor, value, position, size)
            if size < 0:
                unreadable = unreadable or []
                unreadable.append(cursor.between(start, end).decode())
        if len(before) == 1:
            text.put(b"}")
        return unreadable

    def _put_many_headers(self, cursor: Cursor, is_unpacked: bool) -> list[str] | None:
        """As above, for headers that take the general way: a name has the last of its values."""
        unreadable: list[str] = []
        shown: dict[str, Cursor] = {}
        for name, value in decode_headers(cursor.headers()):
            if not _is_hidden(name.encode(), is_unpacked):
                values = shown[name] = Cursor(value)
                if self._text.measure(values, 0, values.size) < 0:
                    unreadable.append(name)
        before = b',"headers":{'
        for name, values in shown.items():
            self._text.put(before + _ENCODER.encode(name) + b":")
            before = b","
            self._put(values, 0, values.size, self._text.measure(values, 0, values.size))
        if shown:
            self._text.put(b"}")
        return unreadable

    def _put_trace(self, cursor: Cursor, has_headers: bool) -> None:
        """Write the trace that a header gives, or that the offset has."""
        context = header_context(cursor) if has_headers else b""
        if len(context) == _CONTEXT_BYTES:
            self._text.put(b',"trace_id":"%b"' % context[:_TRACE_BYTES].hex().encode())
        elif len(context) != _ORIGIN_BYTES or not self._put_derived(int.from_bytes(context, "big")):
            self._put_derived(cursor.offset)

    def _put_derived(self, offset: int) -> bool:
        """Write the trace that an offset has; False if it is not sampled."""
        if not self._has_seed:
            return False
        low = trace_low(self._seed_high, self._seed_low, offset)
        if low > self._seed_max:
            return False
        self._text.put_trace(b',"trace_id":"', trace_high(self._seed_high, offset), low, b'"')
        return True


def _decompressed(cursor: Cursor) -> bytes | None:
    """The value of a compressed record as it was before; None if it cannot be decompressed."""
    if cursor.flags & IS_TOMBSTONE:
        return b""
    headers: tuple[Header, ...] = decode_headers(cursor.headers())
    try:
        return decompress_value(cursor.value(), headers)
    except Corrupt:
        return None


def _is_hidden(name: bytes, is_unpacked: bool) -> bool:
    """Whether a header is a note of the log, or of a compression that was undone."""
    return name == _BATCH or (is_unpacked and name == _CODEC)


def _has_name_twice(cursor: Cursor) -> bool:
    """Whether two headers have names that look alike; the block was checked."""
    block = cursor.end - cursor.headers_length + 2
    position = block
    while position < cursor.end:
        start = position + 2
        length = cursor.length_at(position)
        earlier = block
        while earlier < position:
            other = cursor.length_at(earlier)
            if other == length and cursor.fingerprint(start, start + length) == cursor.fingerprint(
                earlier + 2, earlier + 2 + other
            ):
                return True
            earlier += 2 + other
            earlier += 2 + cursor.length_at(earlier)
        position = start + length
        position += 2 + cursor.length_at(position)
    return False
