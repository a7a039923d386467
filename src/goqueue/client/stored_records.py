"""Stored records of a partition as bytes, fetched and published without decoding them.

Owns the raw-record routes: their media type, their query and the headers of their replies. The
stream consumers and the producer stand on it, and so does a program that decodes by itself, such as
the Spark source. Never looks into a record: a page costs one request, whatever it holds.
"""

import re

import msgspec

from goqueue.client.batch import Identity
from goqueue.client.errors import GoQueueError
from goqueue.client.http import Request, Transport, target
from goqueue.client.values import duration, nanoseconds
from goqueue.model import (
    ABORTED_HEADER,
    LAST_STABLE_OFFSET_HEADER,
    LOG_START_HEADER,
    NEXT_OFFSET_HEADER,
    RECORDS_MEDIA,
    TRACE_SEED_HEADER,
    LogId,
)
from goqueue.model.requests import Isolation, TraceSeed

__all__ = [
    "PublishedBatch",
    "RecordBatch",
    "RecordPage",
    "StoredRecords",
    "fetch_records",
    "post_records",
    "read_ranges",
    "read_seed",
]

# Names of headers as they come from the transport.
_NEXT_OFFSET, _LOG_START, _LAST_STABLE_OFFSET, _ABORTED, _TRACE_SEED = (
    name.lower().encode()
    for name in (
        NEXT_OFFSET_HEADER,
        LOG_START_HEADER,
        LAST_STABLE_OFFSET_HEADER,
        ABORTED_HEADER,
        TRACE_SEED_HEADER,
    )
)
_SEED = re.compile(rb"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{1,17})")

Ranges = tuple[tuple[int, int], ...]


class RecordPage(msgspec.Struct, frozen=True, eq=False):
    """Stored records, and where to continue after them.

    `data` may begin with records below the requested offset, and contains control records, delayed
    ones and those of the `aborted` ranges: its reader leaves them out.
    """

    data: bytes
    next_offset: int
    headers: dict[bytes, bytes]

    @property
    def log_start(self) -> int:
        """The first offset that retention has kept."""
        return _number(self.headers, _LOG_START)

    @property
    def last_stable_offset(self) -> int:
        """The offset of the first record of an open transaction, or the end."""
        return _number(self.headers, _LAST_STABLE_OFFSET)

    @property
    def aborted(self) -> Ranges:
        """Offsets of aborted transactions, as ranges with both ends included."""
        return read_ranges(self.headers.get(_ABORTED, b""))

    @property
    def trace_seed(self) -> TraceSeed | None:
        """What the traces of records without a context follow from."""
        return read_seed(self.headers.get(_TRACE_SEED, b""))


class RecordBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Encoded records for one partition; `sequence` is the number of the first one there."""

    topic: str
    partition: int
    data: bytearray
    count: int
    sequence: int


class PublishedBatch(msgspec.Struct, frozen=True):
    """The offset of the first record of a batch, and the time of all, in nanoseconds since 1970.

    Without acks there is no offset.
    """

    first: int | None
    timestamp: int


class _Placed(msgspec.Struct, frozen=True):
    partition: int
    count: int
    base_offset: int | None = None
    error: str = ""
    code: str = ""


class _Published(msgspec.Struct, frozen=True):
    results: list[_Placed]
    timestamp: str


_PUBLISHED = msgspec.json.Decoder(_Published)


class StoredRecords:
    """`q.records`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int,
        wait_s: float = 0.0,
        isolation: str = Isolation.READ_COMMITTED,
    ) -> RecordPage:
        """Fetch records from an offset on, about `max_bytes` of them, waiting for the first."""
        log = LogId(topic, partition)
        return await fetch_records(
            self._transport,
            log,
            offset,
            max_bytes=max_bytes,
            wait_s=wait_s,
            isolation=Isolation(isolation),
        )

    async def publish(self, batch: RecordBatch, producer: Identity) -> PublishedBatch:
        """Append a batch of a known producer; a batch that is sent again is stored once."""
        where = target(
            "topics",
            batch.topic,
            "records",
            partition=batch.partition,
            producer_id=producer.producer_id,
            epoch=producer.epoch,
            sequence=batch.sequence,
        )
        log = LogId(batch.topic, batch.partition)
        return await post_records(
            self._transport, where, batch.data, batch.count, log=log, is_repeatable=True
        )


async def fetch_records(
    transport: Transport,
    log: LogId,
    offset: int,
    *,
    max_bytes: int,
    wait_s: float = 0.0,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> RecordPage:
    """Fetch a page of one partition; see `StoredRecords.fetch`."""
    request = Request(
        method="GET",
        target=target(
            "topics",
            log.topic,
            "partitions",
            log.partition,
            "records",
            offset=offset,
            max_bytes=max_bytes,
            wait=duration(wait_s) if wait_s else None,
            isolation=isolation.value,
        ),
        is_repeatable=True,
        wait_s=wait_s,
        log=log,
    )
    response = await transport.ask(request)
    following = _number(response.headers, _NEXT_OFFSET)
    return RecordPage(response.body, following, response.headers)


async def post_records(
    transport: Transport,
    where: str,
    data: bytearray,
    count: int,
    *,
    log: LogId,
    is_repeatable: bool,
    is_unconfirmed: bool = False,
) -> PublishedBatch:
    """Append `count` encoded records at a target of the raw-record route, all of them or none.

    `log` is the partition that the target names. With `is_unconfirmed` (`acks=none`) the answer has
    no offset.
    """
    request = Request(
        method="POST",
        target=where,
        body=data,
        content_type=RECORDS_MEDIA,
        is_repeatable=is_repeatable,
        log=log,
    )
    published = await transport.read(request, _PUBLISHED)
    placed = published.results
    if len(placed) != 1 or placed[0].count != count:
        words = "the broker took another number of messages"
        raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
    if placed[0].base_offset is None and not is_unconfirmed:
        words = "the broker says no offset"
        raise GoQueueError("response_invalid", words, is_outcome_unknown=True)
    return PublishedBatch(placed[0].base_offset, nanoseconds(published.timestamp))


def read_ranges(text: bytes) -> Ranges:
    """The header that lists aborted offsets: `a-b,c-d`, both ends included."""
    try:
        pairs = [part.split(b"-") for part in text.split(b",") if part.strip()]
        return tuple((int(first), int(last)) for first, last in pairs)
    except ValueError:
        raise GoQueueError("response_invalid", f"{text!r} lists no offsets") from None


def read_seed(text: bytes) -> TraceSeed | None:
    """The header from which traces follow: three hexadecimal numbers, or nothing."""
    if not text:
        return None
    found = _SEED.fullmatch(text)
    if found is None:
        raise GoQueueError("response_invalid", f"{text!r} is no seed")
    high, low, threshold = (int(part, 16) for part in found.groups())
    return TraceSeed(high, low, threshold)


def _number(headers: dict[bytes, bytes], name: bytes) -> int:
    text = headers.get(name, b"")
    if not text.isdigit():
        raise GoQueueError("response_invalid", f"the header {name.decode()} is {text!r}")
    return int(text)
