"""The numbers of the record format: sizes, limits, flags, and the words for what is wrong.

Owns every constant that the bytes depend on. `layout.pxd` repeats the integers for the
compiled modules, which must not look up a Python object per record.

The sum begins at byte 8, so the flags byte lies outside of it. What a flag says is therefore
said a second time in bytes that the sum covers, and the full check compares the two:

- CONTROL is set exactly if the key begins with `gq.`, which is reserved for control records;
- COMPRESSED is set exactly if there is a header `gq.codec`;
- DELAYED is set only if there is a header `gq.deliver-at`. The header alone is fine: a producer
  hands it in, and the broker sets the flag;
- HEADERS, TOMBSTONE and COMMIT are compared with the lengths and with CONTROL.

A flipped bit stays unseen in three cases: DELAYED beside its header (so a delayed record may
lose the flag), TOMBSTONE on an empty value, COMMIT on a control record. Whoever writes the
markers of transactions must repeat the decision in the value, and whoever reads them compare.

Invariant: the text of a reason never changes once released; operators and tests match on it.
"""

import enum
import struct

from goqueue import model

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">HBBIqqBBHIH")
HEADER_SIZE = HEADER.size
MAGIC = 0x4751
VERSION = 1
PRIORITY_MAX = 4
# Also the highest timestamp. No record has this offset: the one after it would not fit.
OFFSET_MAX = (1 << 63) - 1
VALUE_MAX = model.VALUE_BYTES_MAX

# A value in registry framing begins with byte 0 and the four bytes of a schema id.
SCHEMA_FRAME_BYTES = 5

# What stands in the summed bytes of a record for a flag; see above.
CONTROL_PREFIX = model.RESERVED_PREFIX.encode()
CODEC_HEADER = model.CODEC_HEADER
DELIVER_HEADER = model.DELIVER_HEADER
BATCH_HEADER = model.BATCH_HEADER.encode()
# Its name after its length, as in a block of headers.
BATCH_HEADER_START = len(BATCH_HEADER).to_bytes(2, "big") + BATCH_HEADER

# What hop() and check() answer, as integers: the compiled loops run without Python objects.
OK = 0
BAD_MAGIC = 1
BAD_VERSION = 2
BAD_FLAGS = 3
BAD_RESERVED = 4
BAD_PRIORITY = 5
BAD_LENGTH = 6
BAD_OFFSET = 7
BAD_TIMESTAMP = 8
TRUNCATED = 9
BAD_CRC = 10
BAD_HEADER_COUNT = 11
BAD_HEADER_NAME = 12

REASONS = (
    "ok",
    "magic",
    "version",
    "flags",
    "reserved",
    "priority",
    "length",
    "offset",
    "timestamp",
    "truncated",
    "crc",
    "header_count",
    "header_name",
)


class Flag(enum.IntFlag):
    """Bits of the flags byte. Bits 6 and 7 are reserved and zero."""

    COMPRESSED = 1
    HEADERS = 2
    TOMBSTONE = 4
    CONTROL = 8
    COMMIT = 16
    DELAYED = 32


# The same as plain integers: arithmetic on an enum costs more than decoding a record.
IS_COMPRESSED = int(Flag.COMPRESSED)
HAS_HEADERS = int(Flag.HEADERS)
IS_TOMBSTONE = int(Flag.TOMBSTONE)
IS_CONTROL = int(Flag.CONTROL)
IS_COMMIT = int(Flag.COMMIT)
IS_DELAYED = int(Flag.DELAYED)
RESERVED_BITS = 0xC0
PROVEN_BITS = IS_COMPRESSED | IS_CONTROL | IS_DELAYED


class Corrupt(Exception):
    """Bytes that are not what a writer of this format writes.

    `position` counts from the start of the data, or is -1 where only a value was at hand.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        place = f"the record at byte {self.position}" if self.position >= 0 else "a value"
        return f"{place} is corrupt: {self.reason}"
