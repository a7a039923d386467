"""A large publish body, cut into chunks of whole messages that are read one after the other.

Owns where one message ends and the next begins, told without decoding: from the strings, and from
what stands between them. Never judges a message, only how many values one may hold.

Invariant: the chunks put together are the list, and each is found in steps of bounded work.
"""

import re
from collections.abc import Generator
from typing import TypeVar

from goqueue.gateways.http.bodies import unknown_name
from goqueue.model import Code, Refused

__all__ = ["CHUNK_BYTES", "MessageChunks", "Steps", "check_values", "finished"]

Outcome = TypeVar("Outcome")
# Work that pauses after every step, so that others get their turn.
Steps = Generator[None, None, Outcome]

# Even the most tedious messages of this size are read in milliseconds.
CHUNK_BYTES = 64 * 1024
# A message has a dozen fields and at most 64 headers.
_VALUES_MAX = 1000
_TAIL_BYTES_MAX = 4096
_GUESSES_MAX = 16

_HEAD = re.compile(rb'\s*+\{\s*+"messages"\s*+:\s*+\[\s*+')
_FIRST_NAME = re.compile(rb'\s*+\{\s*+"([^"\\]{0,200})"')
_BETWEEN = re.compile(rb"\}\s*+,\s*+(?=\{)")
# What stands between nearly all strings.
_PLAIN = frozenset((b"", b":", b",", b": ", b", "))
_ESCAPES = re.compile(rb"\\*+")


def finished(steps: Steps[Outcome]) -> Outcome:
    """What the steps come to, taken without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome


def check_values(body: bytes | bytearray) -> Steps[None]:
    """Refuse a body of one message that holds more values than any message may."""
    position, is_inside, values = 0, False, 0
    while position < len(body):
        end = _piece_end(body, position, len(body))
        parts = _parts(body, position, end)
        values += _values(parts, is_inside)
        _check(values)
        is_inside ^= len(parts) % 2 == 0
        position = end
        yield


class MessageChunks:
    """The messages of a body, a chunk at a time. Refuses what is not one list of messages."""

    def __init__(self, body: bytes | bytearray) -> None:
        self._body = body
        self._start, self._end = _bounds(body)

    @property
    def is_done(self) -> bool:
        """Whether every chunk was taken."""
        return self._start >= self._end

    def guess(self) -> int | None:
        """Where the next chunk probably ends, told at a glance; None if nothing looks like it.

        Texts may look like messages. A chunk that ends in one is no JSON: a string is left open.
        """
        body, end = self._body, self._start + CHUNK_BYTES
        if end >= self._end:
            return self._end
        for _ in range(_GUESSES_MAX):
            end = body.rfind(b"}", self._start, end)
            if end < 0:
                return None
            if _BETWEEN.match(body, end):
                return end + 1
        return None

    def find(self) -> Steps[int]:
        """Where the next chunk ends: with the last message that ends within a piece of the body,
        or with the end of the first if it is longer than that.
        """
        position, is_inside, depth, values = self._start, False, 0, 0
        while position < self._end:
            end = _piece_end(self._body, position, self._end)
            if end >= self._end:
                break
            parts = _parts(self._body, position, end)
            found, depth = _last_boundary(parts, is_inside, depth)
            if found is not None:
                return position + found
            values += _values(parts, is_inside)
            _check(values)
            is_inside ^= len(parts) % 2 == 0
            position = end
            yield
        return self._end

    def text(self, end: int) -> bytes:
        """The messages up to there as a list of their own."""
        return b"".join((b"[", memoryview(self._body)[self._start : end], b"]"))

    def take(self, end: int) -> None:
        """Go on behind a chunk that was read."""
        between = _BETWEEN.match(self._body, end - 1) if end < self._end else None
        self._start = self._end if between is None else between.end()


def _bounds(body: bytes | bytearray) -> tuple[int, int]:
    """Where the list begins and ends."""
    head = _HEAD.match(body)
    if head is None:
        first = _FIRST_NAME.match(body)
        if first is not None and first[1] != b"messages":
            raise unknown_name(first[1].decode(errors="replace"), ("messages",))
        raise Refused(Code.REQUEST_INVALID, field="messages", reason="expected a list of messages")
    start = max(head.end(), len(body) - _TAIL_BYTES_MAX)
    tail = bytes(body[start:]).rstrip()
    inner = tail.removesuffix(b"}").rstrip()
    if len(inner) == len(tail) or not inner.endswith(b"]"):
        reason = "the body is not JSON, or has more fields than `messages`"
        raise Refused(Code.REQUEST_INVALID, reason=reason)
    return head.end(), start + len(inner) - 1


def _piece_end(body: bytes | bytearray, position: int, end: int) -> int:
    """Where a piece ends that begins there, and that does not take an escape apart."""
    piece = min(position + CHUNK_BYTES, end)
    if piece < end and body[piece - 1] == 0x5C:
        escapes = _ESCAPES.match(body, piece)
        assert escapes is not None, "the pattern matches nothing, too"
        piece = min(escapes.end() + 1, end)
    return piece


def _parts(body: bytes | bytearray, position: int, end: int) -> list[bytes]:
    """A piece, taken apart at the quotes that begin or end a string."""
    piece = bytes(body[position:end])
    if b"\\" in piece:
        # Replaced by as many bytes, so that every place stays where it is.
        piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return piece.split(b'"')


def _values(parts: list[bytes], is_inside: bool) -> int:
    """How many values stand here at least: commas separate them, and none has three strings."""
    commas = sum(part.count(b",") for part in parts[is_inside::2])
    return max(commas, len(parts) // 4)


def _check(values: int) -> None:
    if values > _VALUES_MAX:
        reason = f"a message holds more than {_VALUES_MAX} values"
        raise Refused(Code.REQUEST_INVALID, reason=reason)


def _last_boundary(parts: list[bytes], is_inside: bool, depth: int) -> tuple[int | None, int]:
    """Where the last message ends that ends in these parts, and how deep they leave off."""
    found = None
    position = 0
    for index, part in enumerate(parts):
        if index % 2 == is_inside and part not in _PLAIN:
            counted = 0
            for between in _BETWEEN.finditer(part) if b"}" in part else ():
                depth += _depth(part[counted : between.start() + 1])
                counted = between.start() + 1
                if depth == 0:
                    found = position + counted
            depth += _depth(part[counted:])
        position += len(part) + 1
    return found, depth


def _depth(plain: bytes) -> int:
    opened = plain.count(b"{") + plain.count(b"[")
    return opened - plain.count(b"}") - plain.count(b"]")
