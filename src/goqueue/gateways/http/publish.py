"""The publish routes: messages as JSON, and records in the stored format.

A JSON publish has one result per message, in request order; if no message was stored, the response
is the failure of the first one. A publish of records stores all of them or none.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

import msgspec

from goqueue.gateways.errors import ERRORS, ItemError, describe
from goqueue.gateways.http.bodies import EPOCH_MAX, INT32_MAX, INT64_MAX
from goqueue.gateways.http.delay_limits import DelayLimits
from goqueue.gateways.http.messages import (
    PRIORITY_NAMES,
    AcceptedResult,
    DelayedResult,
    MessageBody,
    PublishBody,
    PublishOut,
    PublishResult,
    RawPlaced,
    RawPublishOut,
)
from goqueue.gateways.http.publish_decoder import (
    PublishBatch,
    decode_plain,
    intake_steps,
    item_error,
)
from goqueue.gateways.http.routing.call import Call
from goqueue.gateways.http.routing.parameter import TOPIC, choice, integer, partition
from goqueue.gateways.http.routing.router import SCHEMA_REF, Route
from goqueue.gateways.http.server.application import HttpResponse
from goqueue.gateways.message_rules import UNROUTABLE, count_refused
from goqueue.gateways.trace_headers import request_trace
from goqueue.model import (
    CODEC_HEADER,
    DELIVER_HEADER,
    NONCONFORMING,
    RECORDS_MEDIA,
    RESERVED_PREFIX,
    Code,
    Refused,
    Violation,
    format_time,
)
from goqueue.model.requests import Acks, Placed, ProducerStamp, Publish, Published
from goqueue.records import Corrupt, Examined, Flag, Unroutable, decode, examine, mark_delayed, walk

__all__ = ["ACKS", "PUBLISH_ROUTES", "answer_results"]

_ENCODER = msgspec.json.Encoder()

_UNROUTABLE = {
    reason: item_error(refused.code, **refused.facts) for reason, refused in UNROUTABLE.items()
}

Result = PublishResult | DelayedResult | AcceptedResult | ItemError


def answer_results(intake: PublishBatch, published: Published | None) -> HttpResponse:
    """The answer; nothing was published where no message could be taken."""
    results = [] if published is None else _results(intake, published)
    if intake.refused:
        refused, taken = intake.refused, iter(results)
        results = [
            refused[index] if index in refused else next(taken) for index in range(intake.count)
        ]
    first = results[0] if results else None
    if not isinstance(first, ItemError) or not all(isinstance(each, ItemError) for each in results):
        return HttpResponse(200, _ENCODER.encode({"results": results}))
    status = ERRORS[Code(first.code)].status
    failure = {"error": first.error, "code": first.code, "status": status, "results": results}
    body = _ENCODER.encode(failure)
    return HttpResponse(status, body, code=first.code, reason=first.error)


def _results(intake: PublishBatch, published: Published) -> list[Result]:
    timestamp = format_time(published.timestamp)
    following = {placed.partition: int(placed.first) for placed in published.placed}
    failed = {
        placed.partition: item_error(placed.refused)
        for placed in published.placed
        if placed.refused is not None
    }
    results: list[Result] = []
    add = results.append
    dues = intake.dues or [0] * len(intake.priorities)
    for target, priority, due in zip(published.targets, intake.priorities, dues, strict=True):
        if target < 0:
            if target == NONCONFORMING:
                results.append(_nonconforming(published.violations[len(results)]))
            else:
                results.append(_UNROUTABLE[Unroutable(target)])
            continue
        if failed and target in failed:
            results.append(failed[target])
            continue
        name = PRIORITY_NAMES[priority]
        if published.is_unconfirmed:
            due_text = format_time(due) if due else ""
            add(AcceptedResult(target, timestamp, name, bool(due), due_text))
            continue
        offset = following[target]
        following[target] = offset + 1
        if due:
            add(DelayedResult(target, offset, timestamp, name, True, format_time(due)))
        else:
            add(PublishResult(target, offset, timestamp, name))
    return results


def _nonconforming(violation: Violation) -> ItemError:
    at = f"at {violation.path}: " if violation.path else ""
    error = item_error(violation.code, reason=f"{at}{violation.reason}")
    if violation.code is not Code.SCHEMA_VIOLATION:
        return error
    return msgspec.structs.replace(error, path=violation.path, reason=violation.reason)


_SECTION = "Publish"
ACKS = choice(
    "acks",
    "what the answer waits for: `all`: every in-sync replica has synced the messages; `leader`: "
    "the leader has, and a failover may lose them; `none`: nothing, they may be lost and have no "
    "offsets in the answer",
    default=Acks.ALL,
)
_TARGET = partition("partition", "where all records go; absent, each goes by its key", default=None)
_PRODUCER = integer(
    "producer_id",
    "who publishes; together with `epoch`",
    default=None,
    minimum=1,
    maximum=INT64_MAX,
)
_EPOCH = integer("epoch", "the epoch of the producer", default=None, minimum=0, maximum=EPOCH_MAX)
_SEQUENCE = integer(
    "sequence",
    "number of the first record among all that the producer sent to the partition in this epoch; "
    "needs `producer_id`, `epoch` and `partition`, and makes a retry known",
    default=None,
    minimum=0,
    maximum=INT32_MAX,
)
_IDEMPOTENCE = (_PRODUCER, _EPOCH, _SEQUENCE)

# A message that is wrong does not make the request wrong: any item is taken and has its result.
_PUBLISH_SCHEMA = {
    "type": "object",
    "required": ["messages"],
    "additionalProperties": False,
    "properties": {
        "messages": {
            "type": "array",
            "minItems": 1,
            "maxItems": 10_000,
            "items": {
                "anyOf": [
                    {"$ref": SCHEMA_REF.format(name=MessageBody.__name__)},
                    {"description": "anything else: its result is `message_invalid`"},
                ]
            },
        }
    },
}

_FORBIDDEN = int(Flag.CONTROL | Flag.COMMIT | Flag.DELAYED)
_TURN_RECORDS = 10_000


async def _publish(call: Call) -> HttpResponse:
    body = call.request.body
    intake = decode_plain(body)
    if intake is None:
        intake = await call.run(intake_steps(body, _delays(call)))
    # Also without a message that could be taken: the broker knows whether the topic is there.
    command = Publish(
        topic=call[TOPIC],
        batch=intake.batch,
        targets=intake.targets,
        acks=call[ACKS],
        dues=intake.dues,
        trace=request_trace(call.request.headers),
        refused=_counted(intake.refused.values()) if intake.refused else None,
    )
    published = await call.ask(command, Published)
    return answer_results(intake, published)


def _counted(errors: Iterable[ItemError]) -> dict[Code, int]:
    """How many messages were refused, by code."""
    return {Code(code): count for code, count in Counter(each.code for each in errors).items()}


async def _publish_raw(call: Call) -> RawPublishOut:
    stamp = _stamp(call)
    # As many as can be told: what is not a record is counted once.
    count = 1
    try:
        examined = _check(call.request.body)
        count = examined.count
        if count > _TURN_RECORDS:
            # The broker looks at every record again: others get their turn in between.
            await asyncio.sleep(0)
        dues = _mark_delayed(call.request.body, _delays(call)) if examined.has_reserved else None
    except Refused as refused:
        await count_refused(call.ask, call[TOPIC], {refused.code: count})
        raise
    target = call[_TARGET]
    command = Publish(
        topic=call[TOPIC],
        batch=call.request.body,
        targets=None if target is None else [target] * examined.count,
        acks=call[ACKS],
        is_whole=True,
        dues=dues,
        producer=stamp,
        trace=request_trace(call.request.headers),
    )
    published = await call.ask(command, Published)
    if published.is_unconfirmed:
        return _accepted(published)
    placed = published.placed
    if placed and all(each.refused is not None for each in placed):
        raise Refused(placed[0].refused or Code.INTERNAL_ERROR)
    results = [_placed(each) for each in placed]
    return RawPublishOut(results=results, timestamp=format_time(published.timestamp))


def _stamp(call: Call) -> ProducerStamp | None:
    """Who publishes, if the caller says so; refuses half of what it takes to be known."""
    producer_id, epoch, sequence = call[_PRODUCER], call[_EPOCH], call[_SEQUENCE]
    if producer_id is None and epoch is None and sequence is None:
        return None
    if producer_id is None or epoch is None:
        field = "producer_id" if producer_id is None else "epoch"
        reason = "is missing: `producer_id` and `epoch` go together"
        raise Refused(Code.REQUEST_INVALID, field=field, reason=reason)
    if sequence is not None and call[_TARGET] is None:
        reason = "is missing: a `sequence` counts the records of one partition"
        raise Refused(Code.REQUEST_INVALID, field="partition", reason=reason)
    return ProducerStamp(producer_id=producer_id, epoch=epoch, sequence=sequence)


def _delays(call: Call) -> DelayLimits:
    return DelayLimits(call.context.clock(), call.context.limits.delay_ns_max)


def _check(body: bytearray) -> Examined:
    """Refuse a body that is not whole new records."""
    try:
        examined = examine(body)
    except Corrupt as corrupt:
        raise _refused(corrupt.position, corrupt.reason) from None
    if not examined.count:
        raise _refused(0, "there are no records")
    if examined.flags & _FORBIDDEN or examined.has_offset:
        raise _refused_as_stored(body)
    return examined


def _refused_as_stored(body: bytearray) -> Refused:
    """The refusal of the first record that has what only the broker gives."""
    columns = walk(body)
    for index, flags in enumerate(columns.flags):
        if flags & _FORBIDDEN:
            reason = "only the broker sets control, commit and delayed flags"
            return _refused(columns.positions[index], reason)
    index = next(index for index, offset in enumerate(columns.offsets) if offset)
    return _refused(columns.positions[index], "the offset of a new record must be 0")


def _mark_delayed(body: bytearray, delays: DelayLimits) -> list[int] | None:
    """Flag the records whose header says so, and tell when each is due; None if none is delayed.

    Headers that are the broker's are refused.
    """
    dues = mark_delayed(body, delays.now, delays.latest).tolist()
    if min(dues) < 0:
        positions = walk(body).positions
        for index, due in enumerate(dues):
            if due < 0:
                _check_reserved(body, positions[index], delays)
                dues[index] = 0
    return dues if any(dues) else None


def _check_reserved(body: bytearray, position: int, delays: DelayLimits) -> None:
    """Refuse a record for its reserved headers, unless they say no more than to deliver it now."""
    given = None
    for name, value in decode(body, position).headers:
        if name == DELIVER_HEADER:
            if given is not None:
                raise _refused(position, f"`{DELIVER_HEADER}` is given twice")
            given = value
        elif name.startswith(RESERVED_PREFIX) and name != CODEC_HEADER:
            raise _refused(position, "header names that begin with `gq.` are reserved")
    try:
        due = 0 if given is None else delays.of_header(given)
    except Refused as refused:
        raise _refused(position, refused.facts["reason"]) from None
    assert due == 0, "what is to be delivered later was marked"


def _refused(position: int, reason: str) -> Refused:
    return Refused(Code.REQUEST_INVALID, position=position, reason=reason)


def _accepted(published: Published) -> RawPublishOut:
    """What is known before anything is stored: how many records go where, and refusals."""
    refused = {each.partition: each for each in published.placed}
    results = [
        _placed(refused[number]) if number in refused else RawPlaced(partition=number, count=count)
        for number, count in Counter(published.targets).items()
    ]
    return RawPublishOut(results=results, timestamp=format_time(published.timestamp))


def _placed(placed: Placed) -> RawPlaced:
    code = placed.refused
    if code is None:
        return RawPlaced(
            partition=placed.partition,
            count=placed.count,
            base_offset=int(placed.first),
            duplicate=placed.is_duplicate,
        )
    return RawPlaced(
        partition=placed.partition, count=placed.count, error=describe(code, {}), code=code.value
    )


PUBLISH_ROUTES = (
    Route(
        method="POST",
        path="/topics/{topic}/messages",
        section=_SECTION,
        summary="Publish messages; each has a result of its own, even if none was stored",
        run=_publish,
        parameters=(TOPIC, ACKS),
        body=PublishBody,
        body_schema=_PUBLISH_SCHEMA,
        answer=PublishOut,
        errors=(
            Code.TOPIC_INTERNAL,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.MESSAGE_TOO_LARGE,
            Code.MESSAGE_INVALID,
            Code.SCHEMA_VIOLATION,
            Code.SUBJECT_NOT_FOUND,
            Code.LOG_BUSY,
            Code.QUOTA_EXCEEDED,
        ),
        writes=True,
        is_publish=True,
        example={
            "messages": [
                {"key": "user-100", "value": "hello", "headers": {"a": "b"}},
                {"value": "remember me", "delay": "30s"},
            ]
        },
    ),
    Route(
        method="POST",
        path="/topics/{topic}/records",
        section=_SECTION,
        summary="Publish records in the stored format, all of them or none",
        run=_publish_raw,
        parameters=(TOPIC, ACKS, _TARGET, *_IDEMPOTENCE),
        body_media=RECORDS_MEDIA,
        answer=RawPublishOut,
        errors=(
            Code.TOPIC_INTERNAL,
            Code.PARTITION_NOT_FOUND,
            Code.PARTITION_INVALID,
            Code.MESSAGE_TOO_LARGE,
            Code.MESSAGE_INVALID,
            Code.SCHEMA_VIOLATION,
            Code.SUBJECT_NOT_FOUND,
            Code.PRODUCER_NOT_FOUND,
            Code.PRODUCER_FENCED,
            Code.TRANSACTION_STATE_INVALID,
            Code.TRANSACTION_TIMEOUT,
            Code.SEQUENCE_OUT_OF_ORDER,
            Code.QUOTA_EXCEEDED,
        ),
        writes=True,
        is_publish=True,
    ),
)
