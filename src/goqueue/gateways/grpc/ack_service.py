"""AckService: settle messages by receipt handle, or commit by position."""

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.gateways.grpc.statuses import error_of
from goqueue.gateways.grpc.stored_messages import duration_ns, timestamp_of
from goqueue.gateways.receipts import NamedReceipts
from goqueue.model import HOUR, Code, LogId, Offset, Refused, check_name
from goqueue.model.requests import (
    Ack,
    Acked,
    CommitOffsets,
    Extend,
    Extended,
    Nack,
    Offsets,
    Reject,
    Returned,
    lease_of,
)

__all__ = ["ACK_METHODS"]

_HANDLES_MAX = 1000
_HANDLE_CHARACTERS_MAX = 1024
_REASON_CHARACTERS_MAX = 1024
_EXTENSION_NS_MAX = 12 * HOUR
_DELAY_NS_MAX = 12 * HOUR
# The place of a message that retention took before it could be copied.
_UNKNOWN = -1


def _check_handle(handle: str) -> str:
    if not handle:
        raise Refused(Code.REQUEST_INVALID, field="receipt_handle", reason="is missing")
    if len(handle) > _HANDLE_CHARACTERS_MAX:
        raise Refused(Code.RECEIPT_INVALID)
    return handle


def _reason(given: str) -> str:
    if len(given) > _REASON_CHARACTERS_MAX:
        maximum = _REASON_CHARACTERS_MAX
        raise Refused(Code.REQUEST_INVALID, field="reason", minimum=0, maximum=maximum)
    return given


async def _commit(call: ServiceCall, group: str, log: LogId, offset: int) -> None:
    """Acknowledge by position: everything up to this message is settled."""
    if not group:
        raise Refused(Code.REQUEST_INVALID, field="group_id", reason="is missing")
    check_name(log.topic, "topic")
    if log.partition < 0:
        raise Refused(Code.PARTITION_INVALID, field="partition", found=log.partition)
    if not 0 <= offset < 2**63 - 1:
        raise Refused(Code.REQUEST_INVALID, field="offset", minimum=0, maximum=2**63 - 2)
    command = CommitOffsets(group=group, offsets={log: Offset(offset + 1)})
    await call.ask(command, Offsets)


async def _ack(call: ServiceCall) -> None:
    request = call.request(protocol.AckRequest)
    if request.receipt_handle or not request.topic:
        named = lease_of(_check_handle(request.receipt_handle))
        command = Ack(leases=(named,), group=request.group_id or None)
        code = (await call.ask(command, Acked)).settlements[0].code
        if code is not None:
            raise Refused(code)
    else:
        log = LogId(request.topic, request.partition)
        await _commit(call, request.group_id, log, request.offset)
    await call.send(protocol.AckResponse(success=True).SerializeToString())


async def _batch_ack(call: ServiceCall) -> None:
    request = call.request(protocol.BatchAckRequest)
    handles = list(request.receipt_handles)
    if not 1 <= len(handles) + len(request.offsets) <= _HANDLES_MAX:
        field, maximum = "receipt_handles", _HANDLES_MAX
        raise Refused(Code.REQUEST_INVALID, field=field, minimum=1, maximum=maximum)
    response = protocol.BatchAckResponse()
    if handles:
        named = NamedReceipts(handles)
        command = Ack(leases=named.leases, group=request.group_id or None)
        acked = await call.ask(command, Acked)
        response.success_count += len(handles)
        if any(settlement.refused for settlement in acked.settlements):
            for handle, code in zip(handles, named.codes(acked.settlements), strict=True):
                if code is not None:
                    response.success_count -= 1
                    error = error_of(Refused(code))
                    response.failures.append(protocol.AckError(receipt_handle=handle, error=error))
    for each in request.offsets:
        try:
            log = LogId(each.topic, each.partition)
            await _commit(call, request.group_id, log, each.offset)
            response.success_count += 1
        except Refused as refused:
            failure = protocol.AckError(
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
                error=error_of(refused),
            )
            response.failures.append(failure)
    await call.send(response.SerializeToString())


async def _nack(call: ServiceCall) -> None:
    request = call.request(protocol.NackRequest)
    delay_ns = None
    if request.HasField("visibility_timeout"):
        delay_ns = duration_ns(request.visibility_timeout)
        if not 0 <= delay_ns <= _DELAY_NS_MAX:
            field = "visibility_timeout"
            raise Refused(Code.REQUEST_INVALID, field=field, minimum="0s", maximum="12h")
    command = Nack(
        receipt=_check_handle(request.receipt_handle),
        delay_ns=delay_ns,
        reason=_reason(request.reason),
        group=request.group_id or None,
    )
    returned = await call.ask(command, Returned)
    response = protocol.NackResponse(success=True, dlq_topic=returned.dead_letter_topic or "")
    if returned.visible_at is not None:
        response.next_visible_at.CopyFrom(timestamp_of(returned.visible_at))
    await call.send(response.SerializeToString())


def _known(number: int | None) -> int:
    return _UNKNOWN if number is None else number


async def _reject(call: ServiceCall) -> None:
    request = call.request(protocol.RejectRequest)
    command = Reject(
        receipt=_check_handle(request.receipt_handle),
        reason=_reason(request.reason),
        group=request.group_id or None,
    )
    returned = await call.ask(command, Returned)
    response = protocol.RejectResponse(
        success=True,
        dlq_topic=returned.dead_letter_topic or "",
        dlq_partition=_known(returned.dead_letter_partition),
        dlq_offset=_known(returned.dead_letter_offset),
    )
    await call.send(response.SerializeToString())


async def _extend(call: ServiceCall) -> None:
    request = call.request(protocol.ExtendVisibilityRequest)
    timeout_ns = duration_ns(request.visibility_timeout)
    if not 0 < timeout_ns <= _EXTENSION_NS_MAX:
        field = "visibility_timeout"
        raise Refused(Code.REQUEST_INVALID, field=field, minimum="1ns", maximum="12h")
    lease = lease_of(_check_handle(request.receipt_handle))
    command = Extend(leases=(lease,), timeout_ns=timeout_ns, group=request.group_id or None)
    extended = await call.ask(command, Extended)
    code = extended.settlements[0].code
    if code is not None:
        raise Refused(code)
    response = protocol.ExtendVisibilityResponse(
        success=True, new_deadline=timestamp_of(extended.deadline)
    )
    await call.send(response.SerializeToString())


ACK_METHODS = {
    b"/goqueue.v1.AckService/Ack": Method(run=_ack),
    b"/goqueue.v1.AckService/Nack": Method(run=_nack),
    b"/goqueue.v1.AckService/Reject": Method(run=_reject),
    b"/goqueue.v1.AckService/ExtendVisibility": Method(run=_extend),
    b"/goqueue.v1.AckService/BatchAck": Method(run=_batch_ack),
}
