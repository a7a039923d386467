"""The interpreted twin of `octets.h`, `castagnoli.h` and `json_text.h`.

Never compiled: `octets.pxd` gives the same names to the compiled modules as C functions.
Callers have checked the bounds.
"""

import base64
import struct

import crc32c
import msgspec

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")
_LITTLE_U32 = struct.Struct("<I")
_U32_MAX = 0xFFFFFFFF
_I64_MAX = (1 << 63) - 1
_DIGITS_MAX = 19
_PARENT_CHARACTERS = 55
_HEXADECIMAL = b"0123456789abcdef"
# What the compiled pass that writes a string may use beyond it.
SLACK_BYTES = 8
_ESCAPER = msgspec.json.Encoder()


def address(view: memoryview) -> memoryview:
    """The bytes behind a view; a pointer where compiled."""
    return view


def load_u16(base: memoryview, position: int) -> int:
    number: int = _U16.unpack_from(base, position)[0]
    return number


def load_u32(base: memoryview, position: int) -> int:
    number: int = _U32.unpack_from(base, position)[0]
    return number


def load_i64(base: memoryview, position: int) -> int:
    number: int = _I64.unpack_from(base, position)[0]
    return number


def store_u16(base: memoryview, position: int, number: int) -> None:
    _U16.pack_into(base, position, number)


def store_u32(base: memoryview, position: int, number: int) -> None:
    _U32.pack_into(base, position, number)


def store_i64(base: memoryview, position: int, number: int) -> None:
    _I64.pack_into(base, position, number)


def fetch_ahead(*_: object) -> None:
    """Nothing: only compiled passes are fast enough to wait for memory."""


def begins(base: memoryview, start: int, end: int, text: bytes) -> bool:
    """Whether base[start:end] begins with `text`."""
    return end - start >= len(text) and base[start : start + len(text)] == text


def is_text(base: memoryview, start: int, end: int, text: str) -> bool:
    return base[start:end] == text.encode()


def is_utf8(base: memoryview, start: int, end: int) -> bool:
    try:
        str(base[start:end], "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def number_of(base: memoryview, start: int, end: int) -> int:
    """The number that base[start:end] writes in decimal digits; -1 if not that, or too large."""
    digits = bytes(base[start:end])
    number = int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else -1
    return number if number <= _I64_MAX else -1


def digits_of(number: int) -> bytes:
    """The decimal digits of a number that is not negative."""
    return b"%d" % number


def context_of(base: memoryview, start: int, end: int) -> bytes:
    """Trace id, span id and flags of a `traceparent` in base[start:end]; nothing if it is none."""
    text = bytes(base[start:end])
    if len(text) < _PARENT_CHARACTERS or text[:2] == b"ff":
        return b""
    if len(text) > _PARENT_CHARACTERS and (text[:2] == b"00" or text[55:56] != b"-"):
        return b""
    if text[2:3] + text[35:36] + text[52:53] != b"---":
        return b""
    digits = text[3:35] + text[36:52] + text[53:55]
    if (text[:2] + digits).translate(None, _HEXADECIMAL):
        return b""
    context = bytes.fromhex(digits.decode())
    is_empty = not any(context[:16]) or not any(context[16:24])
    return b"" if is_empty else context


def sum_of(base: memoryview, start: int, end: int) -> int:
    """CRC-32C of base[start:end]."""
    return crc32c.crc32c(base[start:end])


def hash_of(base: memoryview, start: int, end: int) -> int:
    """MurmurHash3 x86 32-bit with seed 0 of base[start:end]."""
    whole = start + (end - start) // 4 * 4
    number = 0
    for (word,) in _LITTLE_U32.iter_unpack(base[start:whole]):
        number = (_turn(number ^ _mix(word), 13) * 5 + 0xE6546B64) & _U32_MAX
    number ^= _mix(int.from_bytes(base[whole:end], "little")) ^ (end - start)
    number = (number ^ number >> 16) * 0x85EBCA6B & _U32_MAX
    number = (number ^ number >> 13) * 0xC2B2AE35 & _U32_MAX
    return number ^ number >> 16


def hash_bytes(data: bytes) -> int:
    """hash_of() all of it."""
    return hash_of(memoryview(data), 0, len(data))


def _mix(word: int) -> int:
    return _turn(word * 0xCC9E2D51 & _U32_MAX, 15) * 0x1B873593 & _U32_MAX


def _turn(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _U32_MAX


def take(base: memoryview, start: int, end: int) -> bytes:
    return bytes(base[start:end])


def put(base: memoryview | bytearray, position: int, source: bytes) -> int:
    """Copy `source` to `position`; returns the position after it."""
    end = position + len(source)
    base[position:end] = source
    return end


def carry(base: memoryview, start: int, end: int, into: memoryview, position: int) -> None:
    """Copy base[start:end] to `position` of another buffer."""
    into[position : position + end - start] = base[start:end]


def room_of(buffer: bytearray) -> bytearray:
    """The bytes of a buffer; a pointer where compiled."""
    return buffer


def resize(buffer: bytearray, size: int) -> None:
    """Make a buffer longer; what it has more is not said."""
    buffer.extend(bytes(size - len(buffer)))


def json_size(base: memoryview, start: int, end: int) -> int:
    """How long base[start:end] is in a JSON string, without the quotes; -1 if it is not UTF-8."""
    try:
        return len(_ESCAPER.encode(str(base[start:end], "utf-8"))) - 2
    except UnicodeDecodeError:
        return -1


def put_string(  # noqa: PLR0917 - the C function has as many
    base: memoryview, start: int, end: int, size: int, into: bytearray, position: int
) -> int:
    """Write base[start:end], which is so long in a JSON string, with quotes; where it ends."""
    text = b'"%b"' % bytes(base[start:end])
    if size != end - start:
        text = _ESCAPER.encode(str(base[start:end], "utf-8"))
    return put(into, position, text)


def base64_size(size: int) -> int:
    """How long so many bytes are in base64."""
    return (size + 2) // 3 * 4


def put_base64(base: memoryview, start: int, end: int, into: bytearray, position: int) -> int:
    """Write base[start:end] in base64, with quotes; where it ends."""
    return put(into, position, b'"%b"' % base64.b64encode(base[start:end]))


def put_number(into: bytearray, position: int, before: bytes, number: int, after: bytes) -> int:
    """Write a number that is not negative in decimal digits, between two pieces."""
    return put(into, position, b"%b%d%b" % (before, number, after))


def put_trace(  # noqa: PLR0917 - the C function has as many
    into: bytearray, position: int, before: bytes, high: int, low: int, after: bytes
) -> int:
    """Write two numbers of 64 bits in 32 hexadecimal digits, between two pieces."""
    return put(into, position, b"%b%016x%016x%b" % (before, high, low, after))


def put_moment(into: bytearray, position: int, second: bytes, fraction: int, after: bytes) -> int:
    """Write a second, its nanoseconds as decimals without zeros at the end, and a piece."""
    decimals = (b".%09d" % fraction).rstrip(b"0") if fraction else b""
    return put(into, position, b"%b%b%b" % (second, decimals, after))
