"""OffsetService: committed offsets of a group, each partition with a result of its own."""

import asyncio
from collections.abc import Iterable

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.gateways.grpc.statuses import error_of
from goqueue.gateways.grpc.stored_messages import moment_ns
from goqueue.model import (
    Code,
    LogId,
    Offset,
    Refused,
    Timestamp,
    check_name,
)
from goqueue.model.requests import (
    CommitOffsets,
    DescribeGroup,
    DescribeOffsets,
    GroupDescription,
    Offsets,
    PositionsReset,
    ResetOffsets,
    Strategy,
)

__all__ = ["OFFSET_METHODS"]

_POSITIONS_MAX = 1000
# What a client may say about an offset that it commits.
_METADATA_BYTES_MAX = 4 * 1024
_NOT_COMMITTED = -1
_STRATEGIES = {
    protocol.OFFSET_RESET_STRATEGY_EARLIEST: Strategy.EARLIEST,
    protocol.OFFSET_RESET_STRATEGY_LATEST: Strategy.LATEST,
    protocol.OFFSET_RESET_STRATEGY_TIMESTAMP: Strategy.TIMESTAMP,
    protocol.OFFSET_RESET_STRATEGY_OFFSET: Strategy.OFFSET,
}


def _log(topic: str, partition: int) -> LogId:
    check_name(topic, "topic")
    if partition < 0:
        raise Refused(Code.PARTITION_INVALID, field="partition", found=partition)
    return LogId(topic, partition)


def _offset(given: int) -> Offset:
    if given < 0:
        raise Refused(Code.OFFSET_OUT_OF_RANGE)
    return Offset(given)


def _metadata(given: str) -> str:
    if len(given.encode()) > _METADATA_BYTES_MAX:
        maximum = _METADATA_BYTES_MAX
        raise Refused(Code.REQUEST_INVALID, field="metadata", minimum=0, maximum=maximum)
    return given


def _check_group(group: str) -> str:
    if not group:
        raise Refused(Code.REQUEST_INVALID, field="group_id", reason="is missing")
    return group


def _check_count(count: int, minimum: int, field: str) -> None:
    if not minimum <= count <= _POSITIONS_MAX:
        raise Refused(Code.REQUEST_INVALID, field=field, minimum=minimum, maximum=_POSITIONS_MAX)


async def _commit(call: ServiceCall) -> None:
    request = call.request(protocol.CommitOffsetsRequest)
    group = _check_group(request.group_id)
    _check_count(len(request.offsets), 1, "offsets")

    async def commit(each: protocol.OffsetCommit) -> protocol.OffsetCommitResult:
        result = protocol.OffsetCommitResult(topic=each.topic, partition=each.partition)
        try:
            log = _log(each.topic, each.partition)
            command = CommitOffsets(
                group=group,
                offsets={log: _offset(each.offset)},
                member_id=request.member_id or None,
                generation=request.generation or None,
                metadata={log: _metadata(each.metadata)} if each.metadata else None,
            )
            await call.ask(command, Offsets)
            result.success = True
        except Refused as refused:
            result.error.CopyFrom(error_of(refused))
        return result

    results = await asyncio.gather(*(commit(each) for each in request.offsets))
    await call.send(protocol.CommitOffsetsResponse(results=results).SerializeToString())


async def _fetch(call: ServiceCall) -> None:
    request = call.request(protocol.FetchOffsetsRequest)
    _check_count(len(request.partitions), 0, "partitions")
    found = await call.ask(DescribeOffsets(group=_check_group(request.group_id)), Offsets)
    response = protocol.FetchOffsetsResponse()
    if request.partitions:
        for each in request.partitions:
            response.offsets.append(_fetched(found, LogId(each.topic, each.partition)))
    else:
        for log in sorted(found.offsets):
            response.offsets.append(_fetched(found, log))
    await call.send(response.SerializeToString())


def _fetched(found: Offsets, log: LogId) -> protocol.OffsetFetchResult:
    return protocol.OffsetFetchResult(
        topic=log.topic,
        partition=log.partition,
        offset=found.offsets.get(log, _NOT_COMMITTED),
        metadata=(found.metadata or {}).get(log, ""),
    )


async def _reset(call: ServiceCall) -> None:
    request = call.request(protocol.ResetOffsetsRequest)
    group = _check_group(request.group_id)
    strategy = _STRATEGIES.get(request.strategy)
    if strategy is None:
        raise Refused(Code.REQUEST_INVALID, field="strategy", reason="is not one")
    _check_count(max(len(request.partitions), len(request.offsets)), 0, "partitions")
    if strategy is Strategy.TIMESTAMP and not request.HasField("timestamp"):
        reason = "is missing: the strategy is TIMESTAMP"
        raise Refused(Code.REQUEST_INVALID, field="timestamp", reason=reason)
    if strategy is Strategy.OFFSET and not request.offsets:
        reason = "is missing: the strategy is OFFSET"
        raise Refused(Code.REQUEST_INVALID, field="offsets", reason=reason)
    before = (await call.ask(DescribeOffsets(group=group), Offsets)).offsets
    response = protocol.ResetOffsetsResponse()
    for wanted in await _wanted(call, request, strategy, before):
        response.results.extend(await _reset_one(call, wanted, before))
    await call.send(response.SerializeToString())


async def _wanted(
    call: ServiceCall,
    request: protocol.ResetOffsetsRequest,
    strategy: Strategy,
    before: Iterable[LogId],
) -> list[ResetOffsets]:
    """One command for each partition that is named, or for each topic of the group."""
    group = request.group_id
    if strategy is Strategy.OFFSET:
        return [
            ResetOffsets(
                group=group,
                topic=each.topic,
                strategy=strategy,
                partition=each.partition,
                offset=Offset(each.offset),
            )
            for each in request.offsets
        ]
    at = Timestamp(moment_ns(request.timestamp)) if strategy is Strategy.TIMESTAMP else None
    places: list[tuple[str, int | None]] = [
        (each.topic, each.partition) for each in request.partitions
    ]
    if not places:
        described = await call.ask(DescribeGroup(group=group), GroupDescription)
        topics = dict.fromkeys((*described.topics, *(log.topic for log in sorted(before))))
        places = [(topic, None) for topic in topics]
    return [
        ResetOffsets(group=group, topic=topic, strategy=strategy, partition=partition, timestamp=at)
        for topic, partition in places
    ]


async def _reset_one(
    call: ServiceCall, wanted: ResetOffsets, before: dict[LogId, Offset]
) -> list[protocol.OffsetResetResult]:
    try:
        _log(wanted.topic, wanted.partition or 0)
        reset = await call.ask(wanted, PositionsReset)
    except Refused as refused:
        failed = protocol.OffsetResetResult(
            topic=wanted.topic, partition=wanted.partition or 0, error=error_of(refused)
        )
        return [failed]
    return [
        protocol.OffsetResetResult(
            topic=each.log.topic,
            partition=each.log.partition,
            old_offset=before.get(each.log, _NOT_COMMITTED),
            new_offset=each.offset,
        )
        for each in reset.positions
    ]


OFFSET_METHODS = {
    b"/goqueue.v1.OffsetService/CommitOffsets": Method(run=_commit),
    b"/goqueue.v1.OffsetService/FetchOffsets": Method(run=_fetch),
    b"/goqueue.v1.OffsetService/ResetOffsets": Method(run=_reset),
}
