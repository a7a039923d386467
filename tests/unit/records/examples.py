"""Messages to try, a way to forge records, and an obvious, slow reader to compare with."""

import struct

import msgspec
from hypothesis import strategies as st

from goqueue.model import Message

FIRST_VECTOR = bytes.fromhex(
    "475101001781134a00000000000000000000000000000001020000010000000100006b76"
)
SECOND_VECTOR = bytes.fromhex(
    "4751010216d2a016000000000000000717979cfe362a00000000000000000005001668656c6c6f"
    "0001000b7472616365706172656e74000530302d6162"
)

# Text that has an UTF-8 form; names longer than the limit are tried on their own, and those
# that prove a flag are added where the flag is.
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: not name.startswith("gq.")
)
headers = st.lists(st.tuples(names, st.binary(max_size=12)), max_size=3).map(tuple)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages whose flags are those that their key and headers stand for."""
    is_control = draw(st.booleans())
    is_compressed = draw(st.booleans())
    has_delivery_time = draw(st.booleans())
    given_headers = list(draw(headers))
    if is_compressed:
        given_headers.insert(draw(st.integers(0, len(given_headers))), ("gq.codec", b"zstd"))
    if has_delivery_time:
        given_headers.insert(draw(st.integers(0, len(given_headers))), ("gq.deliver-at", b"9"))
    keys = st.binary(max_size=12).filter(lambda key: not key.startswith(b"gq."))
    return Message(
        value=draw(st.none() | st.binary(max_size=64)),
        key=b"gq." * is_control + draw(keys),
        headers=tuple(given_headers),
        priority=draw(st.integers(0, 4)),
        timestamp=draw(st.integers(0, (1 << 63) - 1)),
        is_control=is_control,
        is_commit=is_control and draw(st.booleans()),
        is_delayed=has_delivery_time and draw(st.booleans()),
        is_compressed=is_compressed,
    )


batches = st.lists(messages(), max_size=5)


class Forged(msgspec.Struct, frozen=True, kw_only=True):
    """A record field by field, lies included: lengths are true only if left out."""

    body: bytes = b""
    magic: int = 0x4751
    version: int = 1
    flags: int = 0
    offset: int = 0
    timestamp: int = 0
    priority: int = 2
    reserved: int = 0
    key_length: int = 0
    value_length: int | None = None
    headers_length: int = 0

    def encode(self) -> bytes:
        """The bytes, with a right sum over whatever they are."""
        value_length = self.value_length
        if value_length is None:
            value_length = len(self.body) - self.key_length - self.headers_length
        start = struct.pack(">HBB", self.magic, self.version, self.flags)
        summed = struct.pack(
            ">QQBBHIH",
            self.offset,
            self.timestamp,
            self.priority,
            self.reserved,
            self.key_length,
            value_length,
            self.headers_length,
        )
        summed += self.body
        return start + castagnoli(summed).to_bytes(4, "big") + summed


def with_headers(block: bytes, **fields: int) -> bytes:
    """A record whose body is nothing but this header block."""
    return Forged(body=block, flags=2, headers_length=len(block), **fields).encode()


def castagnoli(data: bytes) -> int:
    """CRC-32C bit by bit, as the definition has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Judgement(msgspec.Struct, frozen=True):
    """What is wrong at a position, if anything, and how long the record there says it is."""

    problem: str | None
    size: int


def judge(data: bytes, position: int) -> Judgement:
    """The record at `position` by the letter of the specification."""
    rest = data[position:]
    for start, problem in ((b"GQ", "magic"), (b"GQ\x01", "version")):
        if rest[: len(start)] != start[: len(rest)]:
            return Judgement(problem, 0)
    if len(rest) < 34:
        return Judgement("truncated", 34)
    flags, priority, reserved = rest[3], rest[24], rest[25]
    key_length, value_length, headers_length = struct.unpack(">HIH", rest[26:34])
    size = 34 + key_length + value_length + headers_length
    in_order = {
        "reserved": reserved != 0,
        "flags": flags >= 64
        or bool(flags & 2) != (headers_length > 0)
        or bool(flags & 4 and value_length)
        or flags & 24 == 16,
        "priority": priority > 4,
        "length": value_length > 16 * 1024 * 1024,
        "offset": int.from_bytes(rest[8:16], "big") >= (1 << 63) - 1,
        "timestamp": rest[16] > 127,
        "truncated": size > len(rest),
    }
    for problem, is_wrong in in_order.items():
        if is_wrong:
            return Judgement(problem, size)
    if int.from_bytes(rest[4:8], "big") != castagnoli(rest[8:size]):
        return Judgement("crc", size)
    key, block = rest[34 : 34 + key_length], rest[size - headers_length : size]
    if block and judge_headers(block):
        return Judgement(judge_headers(block), size)
    return Judgement(None if is_proven(flags, key, block) else "flags", size)


def judge_headers(block: bytes) -> str | None:
    """What is wrong with a header block, read piece by piece."""
    count, rest = int.from_bytes(block[:2], "big"), block[2:]
    if len(block) < 2 or count == 0:
        return "header_count"
    for _ in range(count):
        name_length = int.from_bytes(rest[:2], "big")
        if len(rest) < 2 + name_length + 2:
            return "header_count"
        name, rest = rest[2 : 2 + name_length], rest[2 + name_length :]
        try:
            name.decode()
        except UnicodeDecodeError:
            return "header_name"
        value_length = int.from_bytes(rest[:2], "big")
        if len(rest) < 2 + value_length:
            return "header_count"
        rest = rest[2 + value_length :]
    return "header_count" if rest else None


def is_proven(flags: int, key: bytes, block: bytes) -> bool:
    """Whether the flags are as the key and the names of a valid header block say."""
    names = []
    position = 2
    while position < len(block):
        name_end = position + 2 + int.from_bytes(block[position : position + 2], "big")
        names.append(block[position + 2 : name_end])
        position = name_end + 2 + int.from_bytes(block[name_end : name_end + 2], "big")
    return (
        bool(flags & 8) == (key[:3] == b"gq.")
        and bool(flags & 1) == (b"gq.codec" in names)
        and (not flags & 32 or b"gq.deliver-at" in names)
    )


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a scan should find: where each good record begins, and why it stopped."""

    positions: list[int]
    end: int
    reason: str | None
    needs: int


def read(data: bytes, expected_offset: int) -> Reading:
    """scan(), one obvious record after the other."""
    positions: list[int] = []
    position = 0
    previous = -1
    reason = None
    needs = 0
    while position < len(data):
        found = judge(data, position)
        reason = found.problem
        offset = int.from_bytes(data[position + 8 : position + 16], "big")
        if reason is None:
            is_next = expected_offset < 0 or offset == expected_offset + len(positions)
            reason = None if is_next and offset > previous else "offset"
        if reason is not None:
            needs = found.size if reason == "truncated" else 0
            break
        positions.append(position)
        previous = offset
        position += found.size
    return Reading(positions=positions, end=position, reason=reason, needs=needs)
