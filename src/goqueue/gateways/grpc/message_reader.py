"""Messages of a call, cut out of the bytes of its body: a flag, a length, and so many bytes.

A message that is longer than allowed is refused when its length is known, before its bytes are
kept. A compressed one is kept as it came until it is taken, and decompressed to at most the same
length: what waits is never more than what was sent.

Cost per message: one copy of its bytes; one more where it is spread over several frames.
"""

import struct
import zlib

from goqueue.model import Code, Refused

__all__ = ["MessageReader", "framed"]

_HEAD = struct.Struct(">BL")
_HEAD_BYTES = 5
# What is taken of compressed messages at once, but for the last of them.
_EXPANDED_BYTES_MAX = 1024 * 1024
# zlib's sign for a gzip header and trailer.
_GZIP_BITS = 31


class MessageReader:
    """Cuts messages out of a body. `messages` are whole and not yet taken."""

    __slots__ = ("_compressed", "_encoding", "_limit", "_partial", "messages", "queued_bytes")

    def __init__(self, limit: int, encoding: bytes) -> None:
        self._limit = limit
        self._encoding = encoding
        self._partial = bytearray()
        # The places of those among `messages` that are compressed.
        self._compressed: list[int] = []
        self.messages: list[bytes] = []
        self.queued_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What is kept: messages that are not taken, and the part of the next one."""
        return self.queued_bytes + len(self._partial)

    @property
    def is_whole(self) -> bool:
        """Whether nothing of a message is missing."""
        return not self._partial

    def feed(self, data: memoryview) -> None:
        """Take bytes; raises Refused for a message that is too large or cannot be read."""
        position, end = 0, len(data)
        if self._partial:
            position = self._complete(data)
        while end - position >= _HEAD_BYTES:
            flag, size = _HEAD.unpack_from(data, position)
            following = position + _HEAD_BYTES + size
            if size > self._limit:
                raise Refused(Code.BODY_TOO_LARGE, limit=self._limit)
            if following > end:
                break
            self._add(flag, bytes(data[position + _HEAD_BYTES : following]))
            position = following
        if position < end:
            self._partial += data[position:]

    def _complete(self, data: memoryview) -> int:
        """Take what the message lacks that has begun; how many bytes that were."""
        partial = self._partial
        taken = min(max(0, _HEAD_BYTES - len(partial)), len(data))
        partial += data[:taken]
        if len(partial) < _HEAD_BYTES:
            return taken
        flag = partial[0]
        size = int.from_bytes(partial[1:_HEAD_BYTES], "big")
        if size > self._limit:
            raise Refused(Code.BODY_TOO_LARGE, limit=self._limit)
        more = min(_HEAD_BYTES + size - len(partial), len(data) - taken)
        partial += data[taken : taken + more]
        if len(partial) == _HEAD_BYTES + size:
            self._partial = bytearray()
            self._add(flag, bytes(memoryview(partial)[_HEAD_BYTES:]))
        return taken + more

    def _add(self, flag: int, message: bytes) -> None:
        if flag:
            if flag != 1 or self._encoding != b"gzip":
                reason = "messages may be compressed with gzip only"
                raise Refused(Code.METHOD_NOT_ALLOWED, reason=reason)
            self._compressed.append(len(self.messages))
        self.messages.append(message)
        self.queued_bytes += len(message)

    def _decompress(self, message: bytes) -> bytes:
        decompressor = zlib.decompressobj(_GZIP_BITS)
        try:
            text = decompressor.decompress(message, self._limit + 1)
        except zlib.error:
            raise Refused(Code.REQUEST_INVALID, reason="a message is not gzip") from None
        if len(text) > self._limit or not decompressor.eof:
            raise Refused(Code.BODY_TOO_LARGE, limit=self._limit)
        return text

    def take(self, count_max: int) -> list[bytes]:
        """The oldest messages; raises Refused for one that cannot be decompressed."""
        if len(self.messages) <= count_max:
            taken, self.messages = self.messages, []
        else:
            taken, self.messages = self.messages[:count_max], self.messages[count_max:]
        if self._compressed:
            taken = self._expand(taken)
        else:
            self.queued_bytes -= sum(map(len, taken))
        return taken

    def _expand(self, taken: list[bytes]) -> list[bytes]:
        """Decompress what is compressed, as far as it fits; the rest is put back."""
        compressed, size = set(self._compressed), 0
        expanded: list[bytes] = []
        for place, message in enumerate(taken):
            if size > _EXPANDED_BYTES_MAX:
                break
            self.queued_bytes -= len(message)
            found = self._decompress(message) if place in compressed else message
            size += len(found)
            expanded.append(found)
        count = len(expanded)
        self.messages = taken[count:] + self.messages
        self._compressed = [each - count for each in self._compressed if each >= count]
        return expanded


def framed(messages: list[bytes]) -> bytes:
    """Messages as they are sent, one after the other."""
    pieces = []
    for message in messages:
        pieces.append(_HEAD.pack(0, len(message)))
        pieces.append(message)
    return b"".join(pieces)
