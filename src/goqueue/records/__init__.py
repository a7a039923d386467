"""A record, a batch of records, and their bytes.

Everything outside of this package treats a batch as opaque bytes. By what you have and want:

- *Messages to a batch to publish*: `build` for a list, `Draft` for one after the other. Records
  have offset 0 until the log assigns offsets (`stamp`).
- *Bytes from a client to a batch to publish*: `examine` checks structure and checksums (raises
  `Corrupt`), `mark_delayed` flags messages that carry a delivery time.
- *A batch to its partitions*: `route`, the same rule for every gateway and client. A record that
  goes nowhere has an `Unroutable` code in place of a partition.
- *Stored bytes to messages*: `visible` (stream reads), `pick` (leased messages), `decode` (one
  record). Gateways use `goqueue.gateways.visible_records`, which also decompresses.
- *Stored bytes to another form without an object per message*: `JsonMessages`, `arrow`,
  `gather_records` and `write_share` for leases.
- *Facts about stored bytes*: `scan_messages` (read-ahead), `index_records`, `find_delayed`,
  `last_offset`, `scan_traces`; of a batch that is published, `scan_values`.

Most of it is compiled (`COMPILED` says whether); the same sources also run interpreted.
"""

from goqueue.records.batch import (
    Draft,
    Examined,
    Stamped,
    build,
    crc32c,
    examine,
    mark_delayed,
    stamp,
    sums,
    verify,
)
from goqueue.records.columns import Columns, Scan, scan, walk
from goqueue.records.compression import Codec, compress, decompress
from goqueue.records.cursor import COMPILED
from goqueue.records.header_scan import (
    OPAQUE,
    UNFRAMED,
    DelayedRecords,
    IndexEntries,
    MessageScan,
    MessageSummary,
    RecordSlice,
    ValueRun,
    ValueScan,
    find_delayed,
    gather_records,
    has_compressed,
    index_records,
    last_offset,
    scan_messages,
    scan_values,
    slice_records,
)
from goqueue.records.json_messages import JsonMessages
from goqueue.records.layout import (
    BATCH_HEADER_START,
    HEADER_SIZE,
    SCHEMA_FRAME_BYTES,
    Buffer,
    Corrupt,
    Flag,
)
from goqueue.records.leased_shares import (
    LeasedShare,
    LeaseEntry,
    ShareHeader,
    read_shares,
    write_share,
)
from goqueue.records.octets import address, is_utf8
from goqueue.records.record import (
    decode,
    decode_headers,
    encode,
    encode_headers,
    pick,
    rehead,
    visible,
)
from goqueue.records.record_finder import IndexedRecords, RecordFinder
from goqueue.records.routing import Routed, Unroutable, murmur3, route
from goqueue.records.traceparent import (
    CONTEXT_BYTES,
    GIVEN_CONTEXT_BYTES,
    TraceScan,
    attach_traceparent,
    derive_contexts,
    find_trace_contexts,
    key_fingerprint,
    mix_seed,
    parse_traceparent,
    sampled_indexes,
    scan_sampled,
    scan_traces,
)

__all__ = [
    "BATCH_HEADER_START",
    "COMPILED",
    "CONTEXT_BYTES",
    "GIVEN_CONTEXT_BYTES",
    "HEADER_SIZE",
    "OPAQUE",
    "SCHEMA_FRAME_BYTES",
    "UNFRAMED",
    "Buffer",
    "Codec",
    "Columns",
    "Corrupt",
    "DelayedRecords",
    "Draft",
    "Examined",
    "Flag",
    "IndexEntries",
    "IndexedRecords",
    "JsonMessages",
    "LeaseEntry",
    "LeasedShare",
    "MessageScan",
    "MessageSummary",
    "RecordFinder",
    "RecordSlice",
    "Routed",
    "Scan",
    "ShareHeader",
    "Stamped",
    "TraceScan",
    "Unroutable",
    "ValueRun",
    "ValueScan",
    "address",
    "attach_traceparent",
    "build",
    "compress",
    "crc32c",
    "decode",
    "decode_headers",
    "decompress",
    "derive_contexts",
    "encode",
    "encode_headers",
    "examine",
    "find_delayed",
    "find_trace_contexts",
    "gather_records",
    "has_compressed",
    "index_records",
    "is_utf8",
    "key_fingerprint",
    "last_offset",
    "mark_delayed",
    "mix_seed",
    "murmur3",
    "parse_traceparent",
    "pick",
    "read_shares",
    "rehead",
    "route",
    "sampled_indexes",
    "scan",
    "scan_messages",
    "scan_sampled",
    "scan_traces",
    "scan_values",
    "slice_records",
    "stamp",
    "sums",
    "verify",
    "visible",
    "walk",
    "write_share",
]
