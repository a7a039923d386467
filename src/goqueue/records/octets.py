"""The interpreted twin of `octets.h` and `castagnoli.h`: numbers, text, sums and hashes.

Never compiled: `octets.pxd` gives the same names to the compiled modules as C functions.
Callers have checked the bounds.
"""

import struct

import crc32c

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")
_LITTLE_U32 = struct.Struct("<I")
_U32_MAX = 0xFFFFFFFF
_I64_MAX = (1 << 63) - 1
_DIGITS_MAX = 19


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


def _mix(word: int) -> int:
    return _turn(word * 0xCC9E2D51 & _U32_MAX, 15) * 0x1B873593 & _U32_MAX


def _turn(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _U32_MAX


def take(base: memoryview, start: int, end: int) -> bytes:
    return bytes(base[start:end])


def put(base: memoryview, position: int, source: bytes) -> int:
    """Copy `source` to `position`; returns the position after it."""
    end = position + len(source)
    base[position:end] = source
    return end


def carry(base: memoryview, start: int, end: int, into: memoryview, position: int) -> None:
    """Copy base[start:end] to `position` of another buffer."""
    into[position : position + end - start] = base[start:end]
