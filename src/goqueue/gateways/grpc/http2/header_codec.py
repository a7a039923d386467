"""HPACK (RFC 7541): header blocks of clients are decoded, those of this side are written plainly.

Owns the dynamic table that the client's encoder fills. Everything is bounded: the table by the size
that was announced, a block by the connection, the decoded headers by `HEADERS_BYTES_MAX`; of a
block above that only its effect on the table is kept, because later blocks refer to it. A block
that unfolds to `_UNFOLDED_BYTES_MAX` is an attack, and ends its connection.

What this side sends is a few short headers per call: written as literals without a table, so that
there is no state to keep.
"""

from collections import deque

from goqueue.gateways.grpc.http2.frames import ConnectionFault, ErrorCode
from goqueue.gateways.grpc.http2.huffman import HuffmanInvalid, decode_huffman

__all__ = ["HEADERS_BYTES_MAX", "TABLE_BYTES", "HeaderDecoder", "encode_headers", "joined_headers"]

HEADERS_BYTES_MAX = 16 * 1024
TABLE_BYTES = 4096
# One byte of a block may stand for a whole entry of the table.
_UNFOLDED_BYTES_MAX = 16 * HEADERS_BYTES_MAX
# A client may shrink its table and enlarge it again between two blocks, and has no more to say.
_RESIZES_MAX = 2
# What an entry counts beside its name and value.
_ENTRY_BYTES = 32
# No number in a block is larger: sizes of strings and tables, indexes.
_NUMBER_MAX = 2**24
_NUMBER_BITS_MAX = 28

HeaderPair = tuple[bytes, bytes]

_STATIC: tuple[HeaderPair, ...] = (
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    *((b":status", status) for status in b"200 204 206 304 400 404 500".split()),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *(
        (name, b"")
        for name in (
            b"accept-language accept-ranges accept access-control-allow-origin age allow "
            b"authorization cache-control content-disposition content-encoding content-language "
            b"content-length content-location content-range content-type cookie date etag expect "
            b"expires from host if-match if-modified-since if-none-match if-range "
            b"if-unmodified-since last-modified link location max-forwards proxy-authenticate "
            b"proxy-authorization range referer refresh retry-after server set-cookie "
            b"strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    ),
)
assert len(_STATIC) == 61


def _fault(reason: str) -> ConnectionFault:
    return ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason)


class HeaderDecoder:
    """Decodes the header blocks of one connection, in the order in which they come."""

    def __init__(self) -> None:
        self._entries: deque[HeaderPair] = deque()
        self._size = 0
        self._size_max = TABLE_BYTES

    @property
    def table_bytes(self) -> int:
        """What the table holds, as it is counted."""
        return self._size

    def decode(self, block: bytes) -> list[HeaderPair] | None:
        """The headers of a block; None if they are too large. Raises ConnectionFault."""
        headers: list[HeaderPair] = []
        size = position = resizes = 0
        while position < len(block):
            first = block[position]
            if first & 0x80:
                index, position = _number(block, position, 7)
                pair = self._at(index)
            elif first & 0xE0 == 0x20:
                resizes += 1
                if headers or size or resizes > _RESIZES_MAX:
                    raise _fault("the size of the table changes in the middle of a block")
                position = self._resize(block, position)
                continue
            else:
                is_kept = bool(first & 0x40)
                index, position = _number(block, position, 6 if is_kept else 4)
                if index:
                    name = self._at(index)[0]
                else:
                    name, position = _string(block, position)
                value, position = _string(block, position)
                pair = (name, value)
                if is_kept:
                    self._add(pair)
            size += len(pair[0]) + len(pair[1]) + _ENTRY_BYTES
            if size <= HEADERS_BYTES_MAX:
                headers.append(pair)
            elif size > _UNFOLDED_BYTES_MAX:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the headers are too large")
        return headers if size <= HEADERS_BYTES_MAX else None

    def _at(self, index: int) -> HeaderPair:
        if 1 <= index <= len(_STATIC):
            return _STATIC[index - 1]
        place = index - len(_STATIC) - 1
        if 0 <= place < len(self._entries):
            return self._entries[place]
        raise _fault(f"there is no entry {index}")

    def _add(self, pair: HeaderPair) -> None:
        size = len(pair[0]) + len(pair[1]) + _ENTRY_BYTES
        self._shrink(self._size_max - size)
        if size <= self._size_max:
            self._entries.appendleft(pair)
            self._size += size

    def _resize(self, block: bytes, position: int) -> int:
        size, position = _number(block, position, 5)
        if size > TABLE_BYTES:
            raise _fault(f"a table of {size} bytes is larger than was allowed")
        self._size_max = size
        self._shrink(size)
        return position

    def _shrink(self, size_max: int) -> None:
        while self._entries and self._size > size_max:
            name, value = self._entries.pop()
            self._size -= len(name) + len(value) + _ENTRY_BYTES


def _number(block: bytes, position: int, prefix_bits: int) -> tuple[int, int]:
    """A number whose first bits are in the byte at `position`, and where it ends."""
    most = (1 << prefix_bits) - 1
    number = block[position] & most
    position += 1
    if number < most:
        return number, position
    shift = 0
    while position < len(block):
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if number > _NUMBER_MAX or shift >= _NUMBER_BITS_MAX:
            raise _fault("a number is too large")
        if not byte & 0x80:
            return number, position
        shift += 7
    raise _fault("a block ends within a number")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    if position >= len(block):
        raise _fault("a block ends before a string")
    is_huffman = block[position] & 0x80
    size, position = _number(block, position, 7)
    text = block[position : position + size]
    if len(text) < size:
        raise _fault("a block ends within a string")
    if is_huffman:
        try:
            text = decode_huffman(text)
        except HuffmanInvalid:
            raise _fault("a string is not in the Huffman code") from None
    return text, position + size


_NAMES = {pair[0]: number for number, pair in reversed(list(enumerate(_STATIC, 1)))}
_WHOLE = {pair: number for number, pair in enumerate(_STATIC, 1)}


def encode_headers(headers: list[HeaderPair]) -> bytes:
    """A block with these headers, which changes no table."""
    block = bytearray()
    for name, value in headers:
        whole = _WHOLE.get((name, value))
        if whole is not None:
            block.append(0x80 | whole)
            continue
        index = _NAMES.get(name, 0)
        _put_number(block, index, 4)
        if not index:
            _put_number(block, len(name), 7)
            block += name
        _put_number(block, len(value), 7)
        block += value
    return bytes(block)


def _put_number(block: bytearray, number: int, prefix_bits: int) -> None:
    most = (1 << prefix_bits) - 1
    if number < most:
        block.append(number)
        return
    block.append(most)
    number -= most
    while number >= 0x80:
        block.append(number & 0x7F | 0x80)
        number >>= 7
    block.append(number)


def joined_headers(headers: list[HeaderPair]) -> dict[bytes, bytes] | None:
    """Headers by name, repeated ones joined; None if they break the rules."""
    joined: dict[bytes, bytes] = {}
    has_ordinary = False
    for name, value in headers:
        is_pseudo = name.startswith(b":")
        if not name or name != name.lower() or (is_pseudo and (has_ordinary or name in joined)):
            return None
        has_ordinary = has_ordinary or not is_pseudo
        joined[name] = joined[name] + b", " + value if name in joined else value
    return joined
