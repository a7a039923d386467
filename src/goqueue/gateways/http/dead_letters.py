"""The dead letters of a topic over HTTP, wherever its settings send them."""

import msgspec

from goqueue.gateways.http.bodies import INT64_MAX, OffsetNumber
from goqueue.gateways.http.message_encoder import ReadAnswer
from goqueue.gateways.http.messages import ReadMessage
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import TOPIC, integer, partition
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.model import Code, Offset, Refused
from goqueue.model.requests import (
    DescribePartitions,
    DescribeTopic,
    PartitionList,
    Read,
    Records,
    TopicDescription,
)

__all__ = ["DEAD_LETTER_ROUTES", "DeadLettersOut"]

_SECTION = "Acknowledgement and dead letters"
_READS_MAX = 100
_READ_BYTES = 256 * 1024
_ENCODER = msgspec.json.Encoder()

_PARTITION = partition("partition", "only this partition of the dead letters", default=None)
_OFFSET = integer(
    "offset", "first offset wanted; needs `partition`", default=0, minimum=0, maximum=INT64_MAX
)
_LIMIT = integer(
    "limit", "how many dead letters at most", default=100, minimum=1, maximum=1000, is_cut=True
)


class DeadLettersOut(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters by partition and offset; their headers say where each came from and why."""

    messages: list[ReadMessage]
    dead_letter_topic: str
    # Where to read on, by partition.
    next_offsets: dict[str, OffsetNumber]


async def _list(call: Call) -> HttpResponse:
    if call.has(_OFFSET) and not call.has(_PARTITION):
        raise Refused(Code.REQUEST_INVALID, field="offset", reason="needs `partition`")
    described = await call.ask(DescribeTopic(name=call[TOPIC]), TopicDescription)
    name = described.config.dead_letter_topic
    answer = ReadAnswer(call[_LIMIT])
    following: dict[str, int] = {}
    for number in await _partitions(call, name):
        following[str(number)] = await _read(call, answer, name, number)
    tail = {"dead_letter_topic": name, "next_offsets": following}
    return answer.close(b"]," + _ENCODER.encode(tail).removeprefix(b"{"))


async def _partitions(call: Call, name: str) -> list[int]:
    """The partitions to read; none while nothing has died."""
    try:
        found = await call.ask(DescribePartitions(topic=name), PartitionList)
    except Refused as refused:
        if refused.code is not Code.TOPIC_NOT_FOUND:
            raise
        return []
    wanted = call[_PARTITION]
    if wanted is None:
        return list(range(len(found.partitions)))
    if wanted >= len(found.partitions):
        raise Refused(Code.PARTITION_NOT_FOUND, partitions=len(found.partitions))
    return [wanted]


async def _read(call: Call, answer: ReadAnswer, topic: str, number: int) -> int:
    """Add the letters of a partition as far as there is room; where to read on."""
    offset = call[_OFFSET]
    for _ in range(_READS_MAX):
        if answer.count >= call[_LIMIT] or answer.room <= 0:
            break
        read = Read(
            topic=topic,
            partition=number,
            offset=Offset(offset),
            bytes_max=min(_READ_BYTES, answer.room),
            messages_max=call[_LIMIT] - answer.count,
        )
        try:
            records = await call.ask(read, Records)
        except Refused as refused:
            if answer.count and refused.code is Code.RATE_LIMITED:
                # Charged for is what was read before: to refuse that would starve the reader.
                break
            raise
        offset = await call.run(answer.add(records))
        if not records.data:
            break
    return offset


DEAD_LETTER_ROUTES = (
    Route(
        method="GET",
        path="/topics/{topic}/dlq",
        section=_SECTION,
        summary="List the dead letters of a topic",
        run=_list,
        parameters=(TOPIC, _PARTITION, _OFFSET, _LIMIT),
        answer=DeadLettersOut,
        errors=(Code.PARTITION_NOT_FOUND, Code.PARTITION_INVALID, Code.RECORDS_DAMAGED),
    ),
)
