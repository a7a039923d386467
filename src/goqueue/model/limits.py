"""Bounds on everything that a caller or a file could otherwise make as large as it likes."""

__all__ = [
    "GIVEN_HEADERS_BYTES_MAX",
    "HEADERS_BYTES_MAX",
    "INDEX_INTERVAL_BYTES",
    "KEY_BYTES_MAX",
    "RECORD_BYTES_MAX",
    "SEGMENT_BYTES",
    "VALUE_BYTES_MAX",
]

KIB = 1024
MIB = 1024 * KIB

KEY_BYTES_MAX = 65_535
HEADERS_BYTES_MAX = 65_535
# What a caller may give of that, as stored: the rest is for what the broker adds, above all to a
# message that dies and is put back.
GIVEN_HEADERS_BYTES_MAX = 60 * KIB
VALUE_BYTES_MAX = 16 * MIB
RECORD_BYTES_MAX = 34 + KEY_BYTES_MAX + VALUE_BYTES_MAX + HEADERS_BYTES_MAX
SEGMENT_BYTES = 64 * MIB
INDEX_INTERVAL_BYTES = 4 * KIB
