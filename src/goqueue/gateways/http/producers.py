"""Idempotent and transactional producers over HTTP: create one, keep it alive, publish with it.

A request publishes one message here, so an error in it is the error of the request.
"""

import msgspec

from goqueue.gateways.http.bodies import INT64_MAX
from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.messages import (
    ProducerBeatBody,
    ProducerBeatOut,
    ProducerBody,
    ProducerFields,
    ProducerOut,
    ProducerPublishBody,
    ProducerPublishOut,
)
from goqueue.gateways.http.publish import ACKS
from goqueue.gateways.http.publish_decoder import decode_publish_one
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import ParameterLocation, integer
from goqueue.gateways.http.routing.router import Route
from goqueue.gateways.message_rules import count_refused
from goqueue.gateways.trace_headers import request_trace
from goqueue.model import (
    DELIVER_HEADER,
    MILLISECOND,
    Code,
    Offset,
    Refused,
    Timestamp,
    check_name,
    format_time,
)
from goqueue.model.requests import (
    Done,
    HeartbeatProducer,
    InitProducer,
    Isolation,
    Placed,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Read,
    Records,
)
from goqueue.records import Flag, decode, walk

__all__ = ["OF_PRODUCERS", "OF_TRANSACTIONS", "PRODUCER_ROUTES"]

OF_PRODUCERS = (Code.PRODUCER_NOT_FOUND, Code.PRODUCER_FENCED)
# One that ended by its timeout is told so, whatever is tried with it.
OF_TRANSACTIONS = (*OF_PRODUCERS, Code.TRANSACTION_STATE_INVALID, Code.TRANSACTION_TIMEOUT)

_SECTION = "Producers and transactions"
_TIMEOUT_MS = 60_000
_PRODUCER = msgspec.structs.replace(
    integer("producer_id", "id of the producer", default=0, minimum=1, maximum=INT64_MAX),
    location=ParameterLocation.PATH,
    is_required=True,
)


async def _init(call: Call) -> ProducerOut:
    body = call.body(ProducerBody)
    if body.transactional_id is not None:
        check_name(body.transactional_id, "transactional_id")
    timeout_ms = body.transaction_timeout_ms
    granted = await call.ask(
        InitProducer(
            transactional_id=body.transactional_id,
            timeout_ns=(_TIMEOUT_MS if timeout_ms is None else timeout_ms) * MILLISECOND,
        ),
        ProducerGranted,
    )
    return ProducerOut(producer_id=granted.producer_id, epoch=granted.epoch)


async def _heartbeat(call: Call) -> ProducerBeatOut:
    epoch = call.body(ProducerBeatBody).epoch
    await call.ask(HeartbeatProducer(producer_id=call[_PRODUCER], epoch=epoch), Done)
    return ProducerBeatOut(success=True)


async def _publish(call: Call) -> ProducerPublishOut:
    body = call.body(ProducerFields)
    check_name(body.topic, "topic")
    delays = DelayLimits(call.context.clock(), call.context.limits.delay_ns_max)
    try:
        intake = await call.run(decode_publish_one(call.request.body, delays))
    except Refused as refused:
        await count_refused(call.ask, body.topic, {refused.code: 1})
        raise
    command = Publish(
        topic=body.topic,
        batch=intake.batch,
        targets=intake.targets,
        acks=call[ACKS],
        is_whole=True,
        dues=intake.dues,
        producer=ProducerStamp(
            producer_id=body.producer_id, epoch=body.epoch, sequence=body.sequence
        ),
        trace=request_trace(call.request.headers),
    )
    published = await call.ask(command, Published)
    [placed] = published.placed
    if placed.refused is not None:
        raise Refused(placed.refused)
    due = 0 if intake.dues is None else intake.dues[0]
    if placed.is_duplicate:
        return await _first_result(call, body.topic, placed, published.timestamp, due)
    return _result(placed, published.timestamp, due)


async def _first_result(
    call: Call, topic: str, placed: Placed, timestamp: Timestamp, due: int
) -> ProducerPublishOut:
    """What the first publish of a duplicate was told: the stored record knows when it is due.

    One that was deleted or damaged since is told by what the retry says.
    """
    command = Read(
        topic=topic,
        partition=placed.partition,
        offset=placed.first,
        bytes_max=1,
        isolation=Isolation.READ_UNCOMMITTED,
    )
    try:
        data = (await call.ask(command, Records)).data
    except Refused:
        data = ()
    for piece in data:
        columns = walk(piece)
        for index, offset in enumerate(columns.offsets):
            if offset == placed.first:
                record = decode(piece, columns.positions[index])
                is_delayed = record.flags & Flag.DELAYED
                due = int(dict(record.headers)[DELIVER_HEADER]) if is_delayed else 0
                return _result(placed, Timestamp(record.timestamp), due)
    return _result(placed, timestamp, due)


def _result(placed: Placed, timestamp: Timestamp, due: int) -> ProducerPublishOut:
    return ProducerPublishOut(
        partition=placed.partition,
        offset=Offset(placed.first),
        timestamp=format_time(timestamp),
        duplicate=placed.is_duplicate,
        delayed=True if due else msgspec.UNSET,
        deliverAt=format_time(due) if due else msgspec.UNSET,
    )


PRODUCER_ROUTES = (
    Route(
        method="POST",
        path="/producers/init",
        section=_SECTION,
        summary="Create a producer; with a transactional id, fence the previous one",
        run=_init,
        body=ProducerBody,
        answer=ProducerOut,
        errors=(Code.QUOTA_EXCEEDED,),
        writes=True,
        example={"transactional_id": "billing-1"},
    ),
    Route(
        method="POST",
        path="/producers/{producer_id}/heartbeat",
        section=_SECTION,
        summary="Keep a producer and its transaction alive",
        run=_heartbeat,
        parameters=(_PRODUCER,),
        body=ProducerBeatBody,
        answer=ProducerBeatOut,
        errors=OF_PRODUCERS,
    ),
    Route(
        method="POST",
        path="/transactions/publish",
        section=_SECTION,
        summary="Publish one message as a producer, in its open transaction if it has one",
        run=_publish,
        parameters=(ACKS,),
        body=ProducerPublishBody,
        answer=ProducerPublishOut,
        errors=(
            *OF_TRANSACTIONS,
            Code.SEQUENCE_OUT_OF_ORDER,
            Code.QUOTA_EXCEEDED,
            Code.TOPIC_NOT_FOUND,
            Code.TOPIC_INTERNAL,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.MESSAGE_TOO_LARGE,
            Code.MESSAGE_INVALID,
            Code.DELAY_TOO_LONG,
        ),
        writes=True,
        is_publish=True,
        example={
            "producer_id": 1,
            "epoch": 0,
            "topic": "orders",
            "key": "user-100",
            "value": "hello",
            "partition": 0,
            "sequence": 0,
        },
    ),
)
