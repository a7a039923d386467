"""What the broker is told and answers, as values; and how its answers are read."""

import msgspec

from goqueue.spark.offsets import Edge

__all__ = [
    "AUTHORS",
    "MESSAGES",
    "PARTITIONS",
    "PUBLISHED",
    "Author",
    "Batch",
    "Portion",
    "TopicView",
    "Truncated",
]


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic for a reader or writer. `born` tells it from one of the same name made later."""

    name: str
    born: str
    edges: dict[int, Edge]
    message_bytes_max: int


class Portion(msgspec.Struct, frozen=True):
    """Stored records, where to go on, and the ranges to leave out."""

    data: bytes
    next_offset: int
    aborted: list[tuple[int, int]]


class Author(msgspec.Struct, frozen=True):
    """Who publishes: an idempotent producer, or the owner of a transaction."""

    producer_id: int
    epoch: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records for one partition; `sequence` is the number of the first one there."""

    topic: str
    partition: int
    data: bytearray
    count: int
    sequence: int


class Truncated(Exception):
    """The records asked for are gone; there are some from `earliest` on."""

    def __init__(self, earliest: int) -> None:
        super().__init__(earliest)
        self.earliest = earliest


class _Partition(msgspec.Struct, frozen=True):
    partition: int
    earliest_offset: int
    end_offset: int
    size_bytes: int


class _Partitions(msgspec.Struct, frozen=True):
    partitions: list[_Partition]


class _Message(msgspec.Struct, frozen=True):
    offset: int


class _Messages(msgspec.Struct, frozen=True):
    messages: list[_Message]
    next_offset: int


class _Placed(msgspec.Struct, frozen=True):
    count: int


class _Published(msgspec.Struct, frozen=True):
    results: list[_Placed]


PARTITIONS = msgspec.json.Decoder(_Partitions)
MESSAGES = msgspec.json.Decoder(_Messages)
PUBLISHED = msgspec.json.Decoder(_Published)
AUTHORS = msgspec.json.Decoder(Author)
