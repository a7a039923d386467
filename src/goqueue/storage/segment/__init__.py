"""One segment on disk: its records, its index, reading from it, and how many are open."""

from goqueue.storage.segment.chunks import Chunk, chunks
from goqueue.storage.segment.index_files import IndexFiles
from goqueue.storage.segment.open_segments import OpenSegments
from goqueue.storage.segment.segment_file import SegmentFile

__all__ = ["Chunk", "IndexFiles", "OpenSegments", "SegmentFile", "chunks"]
