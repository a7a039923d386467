"""Messages read from lines and flags, before they are sent.

A line is a value, or with `--format json` a message as the API accepts it. A line that is invalid
raises `DraftInvalid` and does not affect the next. Lines are read from a file, a pipe or a terminal
without blocking the event loop.

Invariant: at most one line and one piece of input are held; a line that is too long is reported and
never held whole.
"""

import asyncio
import base64
import binascii
import enum
import os
import re
from collections.abc import AsyncIterator

import msgspec

from goqueue.cli.signals import Stop
from goqueue.client.message_drafts import MessageDraft
from goqueue.model import DELAYED_FROM_HEADER, Priority, nearest_name

__all__ = [
    "DraftInvalid",
    "Line",
    "LineFormat",
    "Lines",
    "Pattern",
    "decode_base64",
    "read_draft",
    "read_pieces",
    "read_priority",
]


class LineFormat(enum.StrEnum):
    """What a line is: the value of a message, or a message as a JSON object."""

    TEXT = "text"
    JSON = "json"


class DraftInvalid(ValueError):
    """Why a line is no message; one sentence without a full stop."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are read, and what every message gets that does not say otherwise.

    With `is_base64` lines that are values, and keys that stand by themselves, are base64.
    """

    common: MessageDraft = MessageDraft(value=None)
    format: LineFormat = LineFormat.TEXT
    is_base64: bool = False


_NOTHING = msgspec.Raw()


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message as the API takes it."""

    value: str | msgspec.UnsetType | None = msgspec.UNSET
    key: str | None = None
    encoding: str | None = None
    headers: dict[str, str] | None = None
    partition: int | None = None
    priority: str | int | None = None
    delay: str | float | None = None
    due: str | None = msgspec.field(default=None, name="deliverAt")
    deliver_at: str | None = None
    # What the API says of a stored message besides: a message that was consumed can be sent again.
    topic: msgspec.Raw = _NOTHING
    offset: msgspec.Raw = _NOTHING
    timestamp: msgspec.Raw = _NOTHING
    trace_id: msgspec.Raw = _NOTHING
    receipt_handle: msgspec.Raw = _NOTHING
    delivery_count: msgspec.Raw = _NOTHING
    deadline: msgspec.Raw = _NOTHING


_LINES = msgspec.json.Decoder(_Line)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def read_draft(line: bytes, pattern: Pattern) -> MessageDraft | None:
    """The message of a line without its line feed; None for a line that is skipped."""
    if pattern.format is LineFormat.TEXT:
        return _plain(line, pattern)
    text = line.strip()
    if not text or text.startswith(b"#"):
        return None
    try:
        given = _LINES.decode(text)
    except msgspec.ValidationError as error:
        raise DraftInvalid(_reason(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DraftInvalid("the line is not a JSON object") from error
    return _spelled_out(given, pattern.common)


def _reason(words: str) -> str:
    unknown = _UNKNOWN.fullmatch(words)
    if unknown is None:
        return words
    near = nearest_name(unknown[1], _Line.__struct_encode_fields__)
    hint = "" if near is None else f"; did you mean `{near}`?"
    return f"`{unknown[1][:100]}` is not a field of a message{hint}"


def read_priority(given: str | int) -> int:
    """By name in any case, or by number."""
    try:
        text = str(given)
        return int(Priority(int(text)) if text.isdecimal() else Priority[text.upper()])
    except (KeyError, ValueError):
        names = ", ".join(priority.name.lower() for priority in Priority)
        raise DraftInvalid(
            f"priority {str(given)!a} is neither 0 to 4 nor one of {names}"
        ) from None


def _plain(line: bytes, pattern: Pattern) -> MessageDraft:
    value = decode_base64(line.strip()) if pattern.is_base64 else line
    return msgspec.structs.replace(pattern.common, value=value)


def _spelled_out(given: _Line, common: MessageDraft) -> MessageDraft:
    if given.value is msgspec.UNSET:
        raise DraftInvalid("`value` is missing; a tombstone is an explicit null")
    if given.due is not None and given.deliver_at is not None:
        raise DraftInvalid("give `deliverAt` or `deliver_at`, not both: they are the same field")
    if given.encoding not in {None, "base64"}:
        raise DraftInvalid(f"encoding {given.encoding!a} is not base64")
    is_base64 = given.encoding == "base64"
    deliver_at = given.due or given.deliver_at
    own_time = given.delay is not None or deliver_at is not None
    return MessageDraft(
        value=_octets(given.value, is_base64) if isinstance(given.value, str) else None,
        key=_octets(given.key, is_base64) if given.key is not None else common.key,
        headers={**common.headers, **_headers(given.headers or {})},
        partition=common.partition if given.partition is None else given.partition,
        priority=common.priority if given.priority is None else read_priority(given.priority),
        delay=given.delay if own_time else common.delay,
        deliver_at=deliver_at if own_time else common.deliver_at,
    )


def _headers(given: dict[str, str]) -> dict[str, str]:
    # Where a broker delivered a message is not true of one that is sent again.
    return {name: value for name, value in given.items() if name != DELAYED_FROM_HEADER}


def _octets(text: str, is_base64: bool) -> bytes:
    return decode_base64(text.encode()) if is_base64 else text.encode()


def decode_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise DraftInvalid(f"not base64: {error}") from error


_PIECE_BYTES = 256 * 1024
# The largest body that a server may be set up to take is far below.
_LINE_BYTES_MAX = 64 * 1024 * 1024


class Line(msgspec.Struct, frozen=True):
    """A line without its line feed, and its number from 1; `text` None was too long."""

    number: int
    text: bytes | None


class Lines:
    """Cuts pieces into lines; pure."""

    def __init__(self, bytes_max: int = _LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 0

    def feed(self, piece: bytes) -> list[Line]:
        """The lines that this piece ends."""
        first, *rest = piece.split(b"\n")
        self._keep(first)
        lines: list[Line] = []
        for part in rest:
            lines.append(self._take())
            self._keep(part)
        return lines

    def end(self) -> list[Line]:
        """The last line, if it has no line feed."""
        return [self._take()] if self._size else []

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._bytes_max:
            self._parts = []
        elif part:
            self._parts.append(part)

    def _take(self) -> Line:
        self._number += 1
        text = None if self._size > self._bytes_max else b"".join(self._parts)
        self._parts, self._size = [], 0
        return Line(self._number, text)


async def read_pieces(descriptor: int, stop: Stop) -> AsyncIterator[bytes]:
    """What can be read, until its end or until told to stop."""
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, is_readable.set)
    except OSError:
        # A plain file, which is always readable and cannot be waited for.
        while not stop.is_asked and (piece := os.read(descriptor, _PIECE_BYTES)):
            yield piece
        return
    stop.tell(is_readable.set)
    try:
        while True:
            await is_readable.wait()
            is_readable.clear()
            if stop.is_asked or not (piece := os.read(descriptor, _PIECE_BYTES)):
                return
            yield piece
    finally:
        loop.remove_reader(descriptor)
