"""Trace contexts that records carry in their headers, and the keys by which people look for them.

`traceparent` as the W3C writes it gives a context; one that breaks its rules gives none. A delayed
message that became due says by `gq.delayed-from` whose context it has. For batches that were
verified; every length is checked against the record all the same.
"""

from array import array

import msgspec

from goqueue.model import DELAYED_FROM_HEADER, TRACEPARENT_HEADER
from goqueue.records.cursor import Cursor
from goqueue.records.layout import Buffer

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import HEADER_SIZE, IS_CONTROL, OK
    from goqueue.records.tracing.made import second_half

__all__ = [
    "GIVEN_BYTES",
    "Told",
    "context_of",
    "find_contexts",
    "fingerprint",
    "follow",
    "look",
    "read_context",
]

# Trace id, span id, flags.
GIVEN_BYTES = 25
_PARENT = TRACEPARENT_HEADER.encode()
_DELAYED_FROM = DELAYED_FROM_HEADER.encode()
_PARENT_CHARACTERS = 55
_OFFSET_DIGITS_MAX = 19
_HEXADECIMAL = b"0123456789abcdef"
_DASH = 45
_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)


class Told(msgspec.Struct, frozen=True):
    """What the records of a batch say of themselves, by their place in it.

    `contexts` has those that give one, `keys` a hash of each key, 0 where there is none; it is
    None if there is none at all. `indexes` names the records that this is about, None all of them.
    """

    contexts: dict[int, bytes]
    keys: "array[int] | None"
    indexes: list[int] | None = None


def look(batch: Buffer) -> Told:
    """Look through a batch that is to be appended."""
    cursor = Cursor(batch)
    reason = cursor.hop_all()
    if reason != OK:
        raise cursor.corrupt(reason)
    keys = array("Q", bytes(8 * cursor.count))
    contexts: dict[int, bytes] = {}
    has_keys = _look(cursor, keys, contexts)
    return Told(contexts, keys if has_keys else None)


def _look(cursor: Cursor, keys: "array[int]", contexts: dict[int, bytes]) -> bool:
    room = len(keys)
    position = 0
    index = 0
    has_keys = False
    while position < cursor.size and index < room:
        reason = cursor.skim(position)
        if reason != OK:
            raise cursor.corrupt(reason)
        if cursor.key_length > 0:
            has_keys = True
            start = position + HEADER_SIZE
            keys[index] = cursor.fingerprint(start, start + cursor.key_length)
        if cursor.headers_length > 0:
            context = context_of(cursor)
            if context:
                contexts[index] = context
        position = cursor.end
        index += 1
    return has_keys


def follow(batch: Buffer, seed: tuple[int, int], first: int, threshold: int) -> Told | None:
    """Look only at the records whose traces are followed; None if there is none of them.

    They have offsets from `first` on in the log of the seed; a trace is followed if the second half
    of its id is below the threshold, unless who gave it decided otherwise.
    """
    cursor = Cursor(batch)
    high, low = seed
    keys: list[int] = []
    contexts: dict[int, bytes] = {}
    indexes: list[int] = []
    position = 0
    index = 0
    while position < cursor.size:
        reason = cursor.skim(position)
        if reason != OK:
            raise cursor.corrupt(reason)
        context = context_of(cursor) if cursor.headers_length > 0 else b""
        if len(context) == GIVEN_BYTES:
            is_followed = context[24] & 1 and int.from_bytes(context[8:16], "big") < threshold
        else:
            is_followed = second_half(high, low, first + index) < threshold
        if is_followed:
            if context:
                contexts[len(indexes)] = context
            start = position + HEADER_SIZE
            length = cursor.key_length
            keys.append(cursor.fingerprint(start, start + length) if length > 0 else 0)
            indexes.append(index)
        position = cursor.end
        index += 1
    if not indexes:
        return None
    return Told(contexts, array("Q", keys) if any(keys) else None, indexes)


def fingerprint(key: bytes) -> int:
    """The hash of a key, as `look` tells it."""
    cursor = Cursor(key)
    return cursor.fingerprint(0, cursor.size)


def find_contexts(data: Buffer) -> dict[int, bytes]:
    """The contexts that stored records give, by their offsets."""
    cursor = Cursor(data)
    found: dict[int, bytes] = {}
    position = 0
    while position < cursor.size:
        reason = cursor.skim(position)
        if reason != OK:
            raise cursor.corrupt(reason)
        if cursor.headers_length > 0 and not cursor.flags & IS_CONTROL:
            context = context_of(cursor)
            if context:
                found[cursor.offset] = context
        position = cursor.end
    return found


def context_of(cursor: Cursor) -> bytes:
    """What the headers of a record give: a context, the 8 bytes of an offset, or nothing."""
    end = cursor.end
    position = end - cursor.headers_length
    if end - position < 2:
        return b""
    left = cursor.length_at(position)
    position += 2
    origin = b""
    while left > 0 and end - position >= 2:
        start = position + 2
        position = start + cursor.length_at(position)
        if end - position < 2:
            break
        value = position + 2
        following = value + cursor.length_at(position)
        if following > end:
            break
        if position - start == 11 and cursor.has_prefix(start, position, _PARENT):
            context = read_context(cursor.between(value, following))
            if context:
                return context
        elif position - start == 15 and cursor.has_prefix(start, position, _DELAYED_FROM):
            origin = _read_offset(cursor.between(value, following))
        position = following
        left -= 1
    return origin


def read_context(text: bytes) -> bytes:
    """The context of a `traceparent`; nothing if it is not one."""
    if len(text) < _PARENT_CHARACTERS or text[:2] == b"ff":
        return b""
    if len(text) > _PARENT_CHARACTERS and (text[:2] == b"00" or text[55:56] != b"-"):
        return b""
    if text[2] != _DASH or text[35] != _DASH or text[52] != _DASH:
        return b""
    digits = text[3:35] + text[36:52] + text[53:55]
    if (text[:2] + digits).translate(None, _HEXADECIMAL):
        return b""
    context = bytes.fromhex(digits.decode())
    is_empty = context[:16] == _NO_TRACE or context[16:24] == _NO_SPAN
    return b"" if is_empty else context


def _read_offset(digits: bytes) -> bytes:
    if not digits.isdigit() or len(digits) > _OFFSET_DIGITS_MAX:
        return b""
    return int(digits).to_bytes(8, "big")
