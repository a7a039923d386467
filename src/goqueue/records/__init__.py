"""A record, a batch of records, and their bytes."""

from goqueue.records.batch import Draft, Stamped, build, crc32c, mark_delayed, stamp, sums, verify
from goqueue.records.columns import Columns, Scan, scan, walk
from goqueue.records.compression import Codec, compress, decompress
from goqueue.records.cursor import COMPILED
from goqueue.records.hops import (
    Marks,
    MessageSummary,
    Span,
    Survey,
    Waiting,
    find_delayed,
    has_compressed,
    last_offset,
    mark,
    span,
    survey,
)
from goqueue.records.layout import BATCH_HEADER_START, HEADER_SIZE, Buffer, Corrupt, Flag
from goqueue.records.record import (
    decode,
    decode_headers,
    encode,
    encode_headers,
    pick,
    rehead,
    visible,
)
from goqueue.records.routing import Routed, Unroutable, murmur3, route

__all__ = [
    "BATCH_HEADER_START",
    "COMPILED",
    "HEADER_SIZE",
    "Buffer",
    "Codec",
    "Columns",
    "Corrupt",
    "Draft",
    "Flag",
    "Marks",
    "MessageSummary",
    "Routed",
    "Scan",
    "Span",
    "Stamped",
    "Survey",
    "Unroutable",
    "Waiting",
    "build",
    "compress",
    "crc32c",
    "decode",
    "decode_headers",
    "decompress",
    "encode",
    "encode_headers",
    "find_delayed",
    "has_compressed",
    "last_offset",
    "mark",
    "mark_delayed",
    "murmur3",
    "pick",
    "rehead",
    "route",
    "scan",
    "span",
    "stamp",
    "sums",
    "survey",
    "verify",
    "visible",
    "walk",
]
