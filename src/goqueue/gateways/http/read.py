"""Reading a partition by offset over HTTP: as JSON messages, and as records in stored bytes.

JSON messages are filtered here. Stored records are sent as they are, with the aborted ranges in a
header, and the client leaves out what it must not show.
"""

from bisect import bisect_left

import msgspec

from goqueue.gateways.http.bodies import INT64_MAX
from goqueue.gateways.http.message_encoder import ReadAnswer
from goqueue.gateways.http.messages import ReadOut
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import (
    PARTITION,
    TOPIC,
    choice,
    duration,
    integer,
    moment,
)
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.gateways.visibility import AbortedRanges, end_for_reader, offset_after
from goqueue.model import (
    ABORTED_HEADER,
    HIGH_WATERMARK_HEADER,
    LAST_STABLE_OFFSET_HEADER,
    LOG_START_HEADER,
    NEXT_OFFSET_HEADER,
    READ_HEADERS,
    RECORDS_MEDIA,
    SECOND,
    TRACE_SEED_HEADER,
    Code,
    Offset,
    Refused,
)
from goqueue.model.requests import Isolation, Read, Records
from goqueue.records import last_offset, walk

__all__ = ["ISOLATION", "POLL_ISOLATION", "READ_ROUTES", "Portion", "portion_of", "shortened"]

ISOLATION = choice(
    "isolation",
    "`read_uncommitted` also returns messages of open and aborted transactions",
    default=Isolation.READ_COMMITTED,
)
# A lease on a message that may vanish would be no lease.
POLL_ISOLATION = choice(
    "isolation",
    "accepted for symmetry; a poll returns only committed messages",
    default=Isolation.READ_COMMITTED,
)


def shortened(wait_ns: int) -> int:
    """How long to wait so that a client whose own timeout is the same still gets the answer."""
    return wait_ns - min(wait_ns // 10, SECOND)


_SECTION = "Read by offset"
_OFFSET = integer(
    "offset",
    "first offset wanted; -1 is the earliest that is kept",
    default=0,
    minimum=-1,
    maximum=INT64_MAX,
)
_TIMESTAMP = moment("timestamp", "start at the first message at or after this time instead")
_LIMIT = integer(
    "limit", "how many messages at most", default=100, minimum=1, maximum=1000, is_cut=True
)
_MAX_BYTES = integer(
    "max_bytes",
    "how many bytes at most; one record is served whatever its size",
    default=1024 * 1024,
    minimum=1,
    maximum=16 * 1024 * 1024,
    is_cut=True,
)
_WAIT = duration(
    "wait", "how long to wait for a message", default=0, maximum_ns=60 * SECOND, is_cut=True
)

# A first guess at what so many messages weigh; the next read asks for the rest.
_MESSAGE_BYTES = 512
_READ_BYTES_MIN = 64 * 1024
# Reads without a visible message before an answer is given all the same.
_HIDDEN_READS_MAX = 64


async def _messages(call: Call) -> HttpResponse:
    if call.has(_TIMESTAMP) and call.has(_OFFSET):
        reason = "give `offset` or `timestamp`, not both"
        raise Refused(Code.REQUEST_INVALID, field="timestamp", reason=reason)
    limit = call[_LIMIT]
    answer = ReadAnswer(limit)
    wait_ns = shortened(call[_WAIT])
    deadline = call.context.ticks() + wait_ns
    offset, timestamp, isolation = call[_OFFSET], call[_TIMESTAMP], call[ISOLATION]
    bytes_max = min(answer.room, max(_READ_BYTES_MIN, limit * _MESSAGE_BYTES))
    has_read = False
    for _ in range(_HIDDEN_READS_MAX):
        read = Read(
            topic=call[TOPIC],
            partition=call[PARTITION],
            offset=Offset(offset),
            timestamp=timestamp,
            bytes_max=bytes_max,
            wait_ns=0 if answer.count else wait_ns,
            isolation=isolation,
            messages_max=limit - answer.count,
        )
        try:
            records = await call.ask(read, Records)
        except Refused as refused:
            if answer.count and refused.code is Code.RECORDS_DAMAGED:
                # What lies before the damage is good; the next read is told where to go on.
                break
            if has_read and refused.code is Code.RATE_LIMITED:
                # Charged for is what was read before: to refuse that would starve the reader.
                break
            raise
        has_read = True
        offset, timestamp = await call.run(answer.add(records)), None
        bytes_max = max(answer.room, 1)
        wait_ns = max(0, deadline - call.context.ticks())
        # Without data the wait is over, for whatever reason: the time, or the node stops.
        is_over = not records.data or answer.count >= limit or answer.room <= 0
        is_end = offset >= end_for_reader(records, isolation)
        if is_over or (is_end and (answer.count or not wait_ns)):
            break
    return answer.response(offset)


# The ranges are sent in one header, whose length many clients limit: with offsets of ten digits
# this many stay below six kilobytes.
_RANGES_MAX = 250


class Portion(msgspec.Struct, frozen=True):
    """Stored records for one response, where the next starts, and which ranges were aborted."""

    pieces: tuple[memoryview, ...]
    next_offset: int
    aborted: list[tuple[int, int]]


def portion_of(records: Records) -> Portion:
    """The records that were read; fewer, if their aborted ranges do not fit into the header."""
    pieces = tuple(piece for piece in records.data if len(piece))
    following = offset_after(records)
    if not records.aborted or not pieces:
        return Portion(pieces, following, [])
    aborted = AbortedRanges(records.aborted).within(records.offset, following)
    if len(aborted) <= _RANGES_MAX:
        return Portion(pieces, following, aborted)
    # Other ranges lie before the first that does not fit, so some records are left.
    cut_at = aborted[_RANGES_MAX][0]
    return Portion(_before(pieces, cut_at), cut_at, aborted[:_RANGES_MAX])


def _before(pieces: tuple[memoryview, ...], offset: int) -> tuple[memoryview, ...]:
    """The records of these pieces below an offset."""
    kept = []
    for piece in pieces:
        if last_offset(piece) < offset:
            kept.append(piece)
            continue
        columns = walk(piece)
        index = bisect_left(columns.offsets, offset)
        if index:
            kept.append(piece[: columns.positions[index]])
        break
    return tuple(kept)


async def _records(call: Call) -> HttpResponse:
    records = await call.ask(
        Read(
            topic=call[TOPIC],
            partition=call[PARTITION],
            offset=Offset(call[_OFFSET]),
            bytes_max=call[_MAX_BYTES],
            wait_ns=shortened(call[_WAIT]),
            is_exact=True,
            isolation=call[ISOLATION],
        ),
        Records,
    )
    portion = portion_of(records)
    aborted = ",".join(f"{first}-{following - 1}" for first, following in portion.aborted)
    headers: tuple[tuple[bytes, bytes], ...] = (
        (NEXT_OFFSET_HEADER.encode(), b"%d" % portion.next_offset),
        (HIGH_WATERMARK_HEADER.encode(), b"%d" % records.high_watermark),
        (LAST_STABLE_OFFSET_HEADER.encode(), b"%d" % records.stable),
        (LOG_START_HEADER.encode(), b"%d" % records.start),
        (ABORTED_HEADER.encode(), aborted.encode()),
    )
    seed = records.seed
    if seed is not None:
        # From what the traces of records that carry no context follow; see records.traceparent.
        headers = (*headers, (TRACE_SEED_HEADER.encode(), str(seed).encode()))
    return HttpResponse(200, portion.pieces, RECORDS_MEDIA.encode(), headers)


READ_ROUTES = (
    Route(
        method="GET",
        path="/topics/{topic}/partitions/{partition}/messages",
        section=_SECTION,
        summary="Read messages in offset order",
        run=_messages,
        parameters=(TOPIC, PARTITION, _OFFSET, _TIMESTAMP, _LIMIT, ISOLATION, _WAIT),
        answer=ReadOut,
        errors=(Code.PARTITION_NOT_FOUND, Code.PARTITION_INVALID, Code.RECORDS_DAMAGED),
        waits=True,
    ),
    Route(
        method="GET",
        path="/topics/{topic}/partitions/{partition}/records",
        section=_SECTION,
        summary="Read records in the stored format",
        run=_records,
        parameters=(TOPIC, PARTITION, _OFFSET, _MAX_BYTES, _WAIT, ISOLATION),
        answer_media=RECORDS_MEDIA,
        answer_headers=(*READ_HEADERS, TRACE_SEED_HEADER),
        errors=(
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.OFFSET_OUT_OF_RANGE,
            Code.RECORDS_DAMAGED,
        ),
        waits=True,
    ),
)
