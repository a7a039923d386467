"""One segment on disk: its records, its index, reads, and the bound on open files."""

from goqueue.storage.segment.chunks import CHUNK_BYTES, Chunk, RecordSearch, chunks, read_sectors
from goqueue.storage.segment.holes import (
    DamageFound,
    Hole,
    RebuildNeeded,
    remove_set_aside,
    set_aside,
)
from goqueue.storage.segment.index_files import IndexFiles, remove_index
from goqueue.storage.segment.open_segments import OpenActives, OpenSegments, Pools
from goqueue.storage.segment.segment_file import ReadPlace, ScanNeeded, SegmentFile

__all__ = [
    "CHUNK_BYTES",
    "Chunk",
    "DamageFound",
    "Hole",
    "IndexFiles",
    "OpenActives",
    "OpenSegments",
    "Pools",
    "ReadPlace",
    "RebuildNeeded",
    "RecordSearch",
    "ScanNeeded",
    "SegmentFile",
    "chunks",
    "read_sectors",
    "remove_index",
    "remove_set_aside",
    "set_aside",
]
