"""ConsumeService.Consume: partitions read in offset order, as a stream until it is cancelled.

Partitions take turns, one batch each; when none has news the stream waits for news in any of them
with one command. A client that does not take a batch holds up its own stream only, and at most one
batch is held for it.
"""

import time

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import ServiceCall
from goqueue.gateways.grpc.statuses import error_of
from goqueue.gateways.grpc.stored_messages import (
    duration_ns,
    message_of,
    moment_ns,
    timestamp_of,
    trace_ids,
)
from goqueue.gateways.visibility import (
    AbortedRanges,
    end_for_reader,
    offset_after,
    visible_records,
)
from goqueue.model import MILLISECOND, SECOND, Code, Offset, Record, Refused, Timestamp, check_name
from goqueue.model.requests import (
    DescribePartitions,
    Isolation,
    PartitionList,
    Read,
    Records,
    Watch,
    Watched,
)

__all__ = [
    "BATCH_BYTES",
    "check_wait",
    "consume",
    "failure_payload",
    "heartbeat",
    "isolation_of",
    "limit_of",
]

BATCH_BYTES = 4 * 1024 * 1024
_MESSAGES = 100
_MESSAGES_MAX = 1000
_HEARTBEAT_NS = 5 * SECOND
# A first guess at what so many messages weigh.
_MESSAGE_BYTES = 512
_READ_BYTES_MIN = 64 * 1024
# How often a stream of all partitions looks whether there are more.
_PARTITIONS_NS = 30 * SECOND

_ISOLATIONS = {
    protocol.ISOLATION_READ_COMMITTED: Isolation.READ_COMMITTED,
    protocol.ISOLATION_READ_UNCOMMITTED: Isolation.READ_UNCOMMITTED,
}


def limit_of(given: int, default: int, maximum: int, field: str) -> int:
    """A number of a request: its default if it is 0, cut to its maximum; refuses a negative one."""
    if given < 0:
        raise Refused(Code.REQUEST_INVALID, field=field, minimum=1, maximum=maximum)
    return min(given, maximum) or default


def isolation_of(given: int) -> Isolation:
    """The isolation that a request names."""
    found = _ISOLATIONS.get(given)
    if found is None:
        raise Refused(Code.REQUEST_INVALID, field="isolation", reason=f"{given} is none")
    return found


def check_wait(request: protocol.ConsumeRequest | protocol.SubscribeRequest) -> None:
    """Refuse a wait below nothing; one above the maximum is as good as the maximum.

    It bounds how long messages may be gathered, and they are sent as soon as there are some.
    """
    if request.HasField("max_wait") and duration_ns(request.max_wait) < 0:
        raise Refused(Code.REQUEST_INVALID, field="max_wait", minimum="0s", maximum="30s")


def failure_payload(refused: Refused) -> bytes:
    """The last payload of a stream that fails."""
    return protocol.ConsumeResponse(error=error_of(refused)).SerializeToString()


def heartbeat(call: ServiceCall) -> bytes:
    """A sign of life for a stream without messages."""
    beat = protocol.Heartbeat(timestamp=timestamp_of(call.context.clock()))
    return protocol.ConsumeResponse(heartbeat=beat).SerializeToString()


class _Reader:
    """Where a stream is in each of its partitions."""

    def __init__(self, call: ServiceCall, request: protocol.ConsumeRequest) -> None:
        self._call = call
        self._topic = request.topic
        self._isolation = isolation_of(request.isolation)
        self._count_max = limit_of(request.max_messages, _MESSAGES, _MESSAGES_MAX, "max_messages")
        self._bytes_max = limit_of(request.max_bytes, BATCH_BYTES, BATCH_BYTES, "max_bytes")
        if request.start_offset < -1:
            raise Refused(Code.REQUEST_INVALID, field="start_offset", minimum=-1, maximum=2**63 - 1)
        self._wanted = frozenset(request.partitions)
        self.offsets: dict[int, Offset] = {}
        # Partitions that are to start at a time, until their first read.
        self._starts: dict[int, Timestamp] = {}

    async def add_partitions(self, start: int, request: protocol.ConsumeRequest | None) -> None:
        """Start the partitions that are new: all at first, and later those that were added."""
        listed = await self._call.ask(DescribePartitions(topic=self._topic), PartitionList)
        known = {each.partition: each for each in listed.partitions}
        for number in sorted(self._wanted or known):
            if number in self.offsets:
                continue
            if number < 0:
                raise Refused(Code.PARTITION_INVALID, field="partitions", found=number)
            if number not in known:
                raise Refused(Code.PARTITION_NOT_FOUND, partitions=len(known))
            described = known[number]
            self.offsets[number] = described.earliest_offset
            if start == protocol.CONSUME_START_POSITION_LATEST:
                self.offsets[number] = described.high_watermark
            elif request is not None and start == protocol.CONSUME_START_POSITION_OFFSET:
                self.offsets[number] = Offset(request.start_offset)
            elif request is not None and start == protocol.CONSUME_START_POSITION_TIMESTAMP:
                self._starts[number] = Timestamp(moment_ns(request.start_timestamp))

    async def read(self, partition: int) -> tuple[protocol.MessageBatch | None, bool]:
        """The next batch of a partition, and whether there may be more at once."""
        room = min(self._bytes_max, max(_READ_BYTES_MIN, self._count_max * _MESSAGE_BYTES))
        read = Read(
            topic=self._topic,
            partition=partition,
            offset=self.offsets[partition],
            timestamp=self._starts.get(partition),
            bytes_max=room,
            isolation=self._isolation,
            messages_max=self._count_max,
        )
        records = await self._call.ask(read, Records)
        self._starts.pop(partition, None)
        shown, following = self._visible(records)
        self.offsets[partition] = Offset(following)
        has_more = bool(records.data) and following < end_for_reader(records, self._isolation)
        if not shown:
            return None, has_more
        traces = trace_ids(shown, records.seed)
        messages = [
            message_of(records.log, record, trace)
            for record, trace in zip(shown, traces, strict=True)
        ]
        batch = protocol.MessageBatch(messages=messages, high_watermark=records.high_watermark)
        return batch, has_more

    def _visible(self, records: Records) -> tuple[list[Record], int]:
        """The messages to show, and where the next read starts."""
        shown: list[Record] = []
        size, aborted = 0, AbortedRanges(records.aborted)
        for piece in records.data:
            for record in visible_records(
                piece, records.offset, self._count_max - len(shown), aborted
            ):
                shown.append(record)
                size += len(record.value or b"") + len(record.key)
                if len(shown) >= self._count_max or size >= self._bytes_max:
                    return shown, record.offset + 1
        return shown, offset_after(records)

    async def wait_for_news(self, wait_ns: int) -> tuple[int, ...]:
        """The partitions with news; none if none came in time."""
        watch = Watch(
            topic=self._topic, offsets=self.offsets, wait_ns=wait_ns, isolation=self._isolation
        )
        return (await self._call.ask(watch, Watched)).partitions


async def consume(call: ServiceCall) -> None:
    """Read until the client has had enough."""
    request = call.request(protocol.ConsumeRequest)
    start = request.start_position
    if start not in range(protocol.CONSUME_START_POSITION_TIMESTAMP + 1):
        raise Refused(Code.REQUEST_INVALID, field="start_position", reason=f"{start} is none")
    check_wait(request)
    if request.consumer_id:
        check_name(request.consumer_id, "consumer_id")
    reader = _Reader(call, request)
    await reader.add_partitions(start, request)
    ready = list(reader.offsets)
    told = looked = time.monotonic_ns()
    while True:
        following: list[int] = []
        for partition in ready:
            batch, has_more = await reader.read(partition)
            if batch is not None:
                await call.send(protocol.ConsumeResponse(messages=batch).SerializeToString())
                told = time.monotonic_ns()
            if has_more:
                following.append(partition)
        ready = following
        if not ready:
            # Before the first heartbeat is due, so that it is not late.
            left_ns = max(_HEARTBEAT_NS - (time.monotonic_ns() - told), MILLISECOND)
            ready = list(await reader.wait_for_news(left_ns))
        now = time.monotonic_ns()
        if not ready and now - told >= _HEARTBEAT_NS:
            await call.send(heartbeat(call))
            told = now
        if not request.partitions and now - looked >= _PARTITIONS_NS:
            looked = now
            known = set(reader.offsets)
            await reader.add_partitions(protocol.CONSUME_START_POSITION_EARLIEST, None)
            ready += [number for number in reader.offsets if number not in known]
