"""JSON text written piece by piece into one buffer: strings, base64, numbers and times.

Owns the buffer and its growth. Strings and base64 are written straight from the bytes under a
cursor, so a message needs no object of its own. Knows nothing of messages.

Invariant: every method reserves what it writes before it writes it. A string is measured first,
and the pass that writes it stops at the end of the room all the same, so nothing that another
thread does to the source in between can lead out of bounds.
"""

from goqueue.model import SECOND, Timestamp, format_time
from goqueue.records.cursor import Cursor

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.octets import (
        SLACK_BYTES,
        base64_size,
        json_size,
        put,
        put_base64,
        put_moment,
        put_number,
        put_string,
        put_trace,
        resize,
        room_of,
    )

__all__ = ["JsonText"]

_ROOM_MIN = 256
# The longest number, the digits of a trace id, a point and nanoseconds.
_NUMBER_BYTES = 19
_TRACE_BYTES = 32
_DECIMALS_BYTES = 10


class JsonText:
    """A text that grows at its end until it is taken."""

    __slots__ = ("_base", "_buffer", "_moment", "_room", "_second", "size")

    def __init__(self) -> None:
        self._buffer = bytearray(_ROOM_MIN)
        self._base = room_of(self._buffer)
        self._room = _ROOM_MIN
        self.size = 0
        # The last second that was written, and its text without the end.
        self._second = -1
        self._moment = b""

    def reserve(self, more: int) -> None:
        """Make room for so many bytes."""
        if self._room - self.size < more:
            resize(self._buffer, self.size + more)
            self._base = room_of(self._buffer)
            self._room = self.size + more

    def _grow(self, more: int) -> None:
        """Make room for so many bytes, and for as many again as there are."""
        self.reserve(max(more, 2 * self._room - self.size))

    def put(self, piece: bytes) -> None:
        """Write bytes that are JSON already."""
        if self._room - self.size < len(piece):
            self._grow(len(piece))
        self.size = put(self._base, self.size, piece)

    def put_number(self, before: bytes, number: int, after: bytes) -> None:
        """Write a number that is not negative in decimal digits, between two pieces."""
        more = len(before) + _NUMBER_BYTES + len(after)
        if self._room - self.size < more:
            self._grow(more)
        self.size = put_number(self._base, self.size, before, number, after)

    def put_trace(self, before: bytes, high: int, low: int, after: bytes) -> None:
        """Write a trace id, given in two halves, in hexadecimal digits, between two pieces."""
        more = len(before) + _TRACE_BYTES + len(after)
        if self._room - self.size < more:
            self._grow(more)
        self.size = put_trace(self._base, self.size, before, high, low, after)

    def put_time(self, ns: int, after: bytes) -> None:
        """Write a time that is not before 1970 as `format_time` does, but for the `Z`."""
        second = ns // SECOND
        if second != self._second:
            self._moment = format_time(Timestamp(second * SECOND))[:-1].encode()
            self._second = second
        more = len(self._moment) + _DECIMALS_BYTES + len(after)
        if self._room - self.size < more:
            self._grow(more)
        fraction = ns - second * SECOND
        self.size = put_moment(self._base, self.size, self._moment, fraction, after)

    def measure(self, source: Cursor, start: int, end: int) -> int:
        """How long these bytes of the source are as a string, without quotes; -1 if not UTF-8."""
        if start < 0 or end < start or end > source.size:
            raise BufferError("no bytes there to measure")
        return json_size(source._base, start, end)  # noqa: SLF001 - as `Cursor.lend` does

    def put_string(self, source: Cursor, start: int, end: int, size: int) -> None:
        """Write these bytes of the source, which are so long as a string, with quotes."""
        if start < 0 or end < start or end > source.size or size < end - start:
            raise BufferError("no bytes there to write")
        more = size + SLACK_BYTES + 2
        if self._room - self.size < more:
            self._grow(more)
        base = source._base  # noqa: SLF001 - as `Cursor.lend` does
        self.size = put_string(base, start, end, size, self._base, self.size)

    def put_base64(self, source: Cursor, start: int, end: int) -> None:
        """Write these bytes of the source in base64, with quotes."""
        if start < 0 or end < start or end > source.size:
            raise BufferError("no bytes there to write")
        more = base64_size(end - start) + 2
        if self._room - self.size < more:
            self._grow(more)
        base = source._base  # noqa: SLF001 - as `Cursor.lend` does
        self.size = put_base64(base, start, end, self._base, self.size)

    def shorten(self, size: int) -> None:
        """Take back what was written last, so that so many bytes are left."""
        if size < 0 or size > self.size:
            raise BufferError("no such text")
        self.size = size

    def take(self) -> bytearray:
        """The text; a new one begins."""
        buffer = self._buffer
        del buffer[self.size :]
        self._buffer = bytearray(_ROOM_MIN)
        self._base = room_of(self._buffer)
        self._room = _ROOM_MIN
        self.size = 0
        return buffer
