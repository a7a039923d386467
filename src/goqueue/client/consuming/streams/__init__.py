"""Partitions read in offset order from stored records: by a group, or by anyone."""

from goqueue.client.consuming.streams.chunk import Chunk, decode_chunk
from goqueue.client.consuming.streams.consumer import StreamConsumer
from goqueue.client.consuming.streams.feed import Feed
from goqueue.client.consuming.streams.places import Start
from goqueue.client.consuming.streams.positions import Positions
from goqueue.client.consuming.streams.progress import Progress, OffsetSource
from goqueue.client.consuming.streams.reader import Reader
from goqueue.client.consuming.streams.replay import Replay

__all__ = [
    "Chunk",
    "Feed",
    "Positions",
    "Progress",
    "Reader",
    "OffsetSource",
    "Replay",
    "Start",
    "StreamConsumer",
    "decode_chunk",
]
