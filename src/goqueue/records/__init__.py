"""A record, a batch of records, and their bytes."""

from goqueue.records.batch import Stamped, build, stamp, sums, verify
from goqueue.records.columns import Columns, Scan, scan, walk
from goqueue.records.compression import Codec, compress, decompress
from goqueue.records.cursor import COMPILED, crc32c
from goqueue.records.hops import Marks, Span, mark, span
from goqueue.records.layout import HEADER_SIZE, Buffer, Corrupt, Flag
from goqueue.records.record import decode, decode_headers, encode, encode_headers

__all__ = [
    "COMPILED",
    "HEADER_SIZE",
    "Buffer",
    "Codec",
    "Columns",
    "Corrupt",
    "Flag",
    "Marks",
    "Scan",
    "Span",
    "Stamped",
    "build",
    "compress",
    "crc32c",
    "decode",
    "decode_headers",
    "decompress",
    "encode",
    "encode_headers",
    "mark",
    "scan",
    "span",
    "stamp",
    "sums",
    "verify",
    "walk",
]
