"""Trace contexts of records: parsed from `traceparent` headers, derived from offsets, or attached.

A `traceparent` that breaks the rules of the W3C gives no context. A delayed message that became due
names in `gq.delayed-from` the record whose context it has. Batches were verified when they arrived;
every length is checked against the record all the same.

A record without a header has a context that follows from a seed and its offset, and is stored
nowhere. A seed belongs to one log in one life of its topic. For one seed no two offsets have the
same trace, because every step of the mixing can be undone.
"""

import contextlib
from array import array
from collections.abc import Sequence

import msgspec

from goqueue.model import DELAYED_FROM_HEADER, TRACEPARENT_HEADER, Header, Refused
from goqueue.records.columns import walk
from goqueue.records.cursor import Cursor
from goqueue.records.layout import Buffer
from goqueue.records.record import decode, encode

try:
    import cython  # type: ignore[import-untyped]  # Cython ships no types for its pure mode
except ImportError:
    from goqueue import _cython as cython

if not cython.compiled:
    from goqueue.records.layout import HEADER_SIZE, IS_CONTROL, OK

__all__ = [
    "CONTEXT_BYTES",
    "GIVEN_CONTEXT_BYTES",
    "TraceScan",
    "attach_traceparent",
    "derive_contexts",
    "find_trace_contexts",
    "header_context",
    "key_fingerprint",
    "mix_seed",
    "parse_traceparent",
    "sampled_indexes",
    "scan_sampled",
    "scan_traces",
    "trace_high",
    "trace_low",
]

# A trace id and a span id.
CONTEXT_BYTES = 24
_U64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

# Trace id, span id, flags.
GIVEN_CONTEXT_BYTES = 25
_PARENT = TRACEPARENT_HEADER.encode()
_DELAYED_FROM = DELAYED_FROM_HEADER.encode()
_OFFSET_DIGITS_MAX = 19


class TraceScan(msgspec.Struct, frozen=True):
    """Trace contexts and keys of the records of a batch, by their index in it.

    `contexts` has those that headers give. `keys` has a hash of each key, 0 where there is none,
    and is None if no record has a key. `indexes` are the records scanned; None means all of them.
    """

    contexts: dict[int, bytes]
    keys: "array[int] | None"
    indexes: list[int] | None = None


def scan_traces(batch: Buffer) -> TraceScan:
    """Scan a batch that is about to be appended."""
    cursor = Cursor(batch)
    reason = cursor.hop_all()
    if reason != OK:
        raise cursor.corrupt(reason)
    keys = array("Q", bytes(8 * cursor.count))
    contexts: dict[int, bytes] = {}
    has_keys = _scan_traces(cursor, keys, contexts)
    return TraceScan(contexts, keys if has_keys else None)


def _scan_traces(cursor: Cursor, keys: "array[int]", contexts: dict[int, bytes]) -> bool:
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
            context = header_context(cursor)
            if context:
                contexts[index] = context
        position = cursor.end
        index += 1
    return has_keys


def scan_sampled(
    batch: Buffer, seed: tuple[int, int], first: int, threshold: int
) -> TraceScan | None:
    """Scan only the records whose traces are sampled; None if there are none.

    They have offsets from `first` on in the log of the seed. A trace is sampled if the second half
    of its id is below the threshold, unless its `traceparent` says that it is not.
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
        context = header_context(cursor) if cursor.headers_length > 0 else b""
        if len(context) == GIVEN_CONTEXT_BYTES:
            is_sampled = context[24] & 1 and int.from_bytes(context[8:16], "big") < threshold
        else:
            is_sampled = trace_low(high, low, first + index) < threshold
        if is_sampled:
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
    return TraceScan(contexts, array("Q", keys) if any(keys) else None, indexes)


def key_fingerprint(key: bytes) -> int:
    """The hash of a key, as `TraceScan.keys` has it."""
    cursor = Cursor(key)
    return cursor.fingerprint(0, cursor.size)


def find_trace_contexts(data: Buffer) -> dict[int, bytes]:
    """The contexts that stored records give, by their offsets."""
    cursor = Cursor(data)
    found: dict[int, bytes] = {}
    position = 0
    while position < cursor.size:
        reason = cursor.skim(position)
        if reason != OK:
            raise cursor.corrupt(reason)
        if cursor.headers_length > 0 and not cursor.flags & IS_CONTROL:
            context = header_context(cursor)
            if context:
                found[cursor.offset] = context
        position = cursor.end
    return found


def header_context(cursor: Cursor) -> bytes:
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
            context = cursor.context_between(value, following)
            if context:
                return context
        elif position - start == 15 and cursor.has_prefix(start, position, _DELAYED_FROM):
            origin = _read_offset(cursor.between(value, following))
        position = following
        left -= 1
    return origin


def parse_traceparent(text: bytes) -> bytes:
    """The context of a `traceparent`; nothing if it is not one."""
    cursor = Cursor(text)
    return cursor.context_between(0, cursor.size)


def _read_offset(digits: bytes) -> bytes:
    if not digits.isdigit() or len(digits) > _OFFSET_DIGITS_MAX:
        return b""
    return int(digits).to_bytes(8, "big")


def mix_seed(one: int, other: int) -> int:
    """A number of 64 bits, never 0, that follows from two of them."""
    number = _mixed(one ^ _mixed(other))
    return number or 1


def _mixed(number: int) -> int:
    number = (number + _GOLDEN) & _U64
    number = ((number ^ (number >> 30)) * _FIRST) & _U64
    number = ((number ^ (number >> 27)) * _SECOND) & _U64
    return number ^ (number >> 31)


def derive_contexts(high: int, low: int, offsets: Sequence[int]) -> bytes:
    """The contexts of these offsets, one after the other; the seed is given in two halves."""
    derived = bytearray(CONTEXT_BYTES * len(offsets))
    _derive(high, low, offsets, derived)
    return bytes(derived)


def _derive(high: int, low: int, offsets: Sequence[int], derived: bytearray) -> None:
    size = CONTEXT_BYTES
    place = 0
    for offset in offsets:
        first = _mixed(high ^ offset)
        second = _mixed(low ^ first)
        third = _mixed(second ^ high)
        _put(derived, place, first or 1)
        _put(derived, place + 8, second)
        _put(derived, place + 16, third or 1)
        place += size


def _put(derived: bytearray, place: int, number: int) -> None:
    for index in range(8):
        derived[place + index] = (number >> (56 - 8 * index)) & 255


def trace_high(high: int, offset: int) -> int:
    """The first half of the trace id that an offset has."""
    return _mixed(high ^ offset) or 1


def trace_low(high: int, low: int, offset: int) -> int:
    """The second half of the trace id, which decides whether the trace is sampled."""
    return _mixed(low ^ _mixed(high ^ offset))


def sampled_indexes(contexts: bytes, threshold: int) -> list[int]:
    """Which of these contexts are of sampled traces: the second half of the id is below."""
    chosen: list[int] = []
    size = CONTEXT_BYTES
    for index in range(len(contexts) // size):
        start = index * size + 8
        number = 0
        for place in range(start, start + 8):
            number = number << 8 | contexts[place]
        if number < threshold:
            chosen.append(index)
    return chosen


def attach_traceparent(batch: bytearray, headers: tuple[Header, ...]) -> bytearray:
    """The same batch, with these headers on records that have no context, if there is room."""
    contexts = scan_traces(batch).contexts
    named = {name for name, _ in headers}
    positions = [*walk(batch).positions, len(batch)]
    adopted = bytearray()
    for index, position in enumerate(positions[:-1]):
        piece: bytes | bytearray = batch[position : positions[index + 1]]
        if len(contexts.get(index, b"")) != GIVEN_CONTEXT_BYTES:
            record = decode(piece)
            own = tuple(header for header in record.headers if header[0] not in named)
            # A trace is not worth a message.
            with contextlib.suppress(Refused):
                piece = encode(msgspec.structs.replace(record, headers=(*own, *headers)))
        adopted += piece
    return adopted
