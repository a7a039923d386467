"""ConsumeService.Subscribe: a member of a group whose polls are a stream.

The stream joins, polls again and again, and leaves when it ends, however it ends: then what it
leased is available to others at once. While the client takes nothing the session is kept by
heartbeats.

    join ─▶ Assignment ─▶ poll ─▶ batches ─▶ poll ─▶ … ─▶ leave
                            └─▶ rebalanced: REVOKE, ASSIGN, Assignment

Members are cooperative, as those of the SDK: only partitions that move are interrupted. Where a
group has eager members already, this one is eager, too. A partition is given up as soon as the
client was told so: what it holds of it stays leased to it, and nobody else gets that before the
lease ends.

Flow control: a poll leases no more than `max_messages` less what the member holds unsettled, which
the node counts; what is acknowledged by any way and any protocol makes room.

Invariant: a client knows of a partition before it gets a message of it.
"""

import asyncio
import secrets
import time

import msgspec

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.consume_service import (
    BATCH_BYTES,
    check_wait,
    heartbeat,
    isolation_of,
    limit_of,
)
from goqueue.gateways.grpc.service_call import ServiceCall
from goqueue.gateways.grpc.stored_messages import duration_ns, message_of, timestamp_of, trace_ids
from goqueue.gateways.visibility import leased_records
from goqueue.model import SECOND, Code, LogId, Refused, check_name
from goqueue.model.requests import (
    Beat,
    CooperativeBeat,
    CooperativeHeartbeat,
    GroupProtocol,
    Heartbeat,
    Join,
    Joined,
    Leased,
    Leave,
    Mode,
    PartitionLeases,
    Poll,
    RebalanceState,
    RevocationConfirmed,
    RevokePartitions,
    Start,
)

__all__ = ["subscribe"]

_MESSAGES = 100
_MESSAGES_MAX = 1000
_TOPICS_MAX = 1000
_SESSION_NS = 30 * SECOND
_SESSION_NS_MIN, _SESSION_NS_MAX = SECOND, 600 * SECOND
_HEARTBEAT_NS = 10 * SECOND
_UNPACKED_BYTES_MAX = 64 * 1024 * 1024
_MODES = {
    protocol.GROUP_MODE_PARTITIONED: Mode.PARTITIONED,
    protocol.GROUP_MODE_SHARED: Mode.SHARED,
    protocol.GROUP_MODE_KEY_ORDERED: Mode.KEY_ORDERED,
}
_STARTS = {
    protocol.CONSUME_START_POSITION_EARLIEST: Start.EARLIEST,
    protocol.CONSUME_START_POSITION_LATEST: Start.LATEST,
}
# How long a new member waits until others have given up something for it.
_FIRST_WAIT_NS = SECOND
# Told to send a heartbeat that says nothing new: others have to act first.
_PAUSE_S = 0.05
# A revocation that is over, one way or the other.
_OUTDATED = (Code.GENERATION_STALE, Code.PARTITION_NOT_ASSIGNED)
# The member is no member any more.
_EVICTED = (Code.MEMBER_NOT_FOUND, Code.GROUP_NOT_FOUND)


def _join_of(request: protocol.SubscribeRequest) -> Join:
    """What a request asks for; refuses what cannot be."""
    if not 1 <= len(request.topics) <= _TOPICS_MAX:
        raise Refused(Code.REQUEST_INVALID, field="topics", minimum=1, maximum=_TOPICS_MAX)
    if not request.group_id:
        raise Refused(Code.REQUEST_INVALID, field="group_id", reason="is missing")
    mode, start = _MODES.get(request.mode), _STARTS.get(request.start_position)
    if mode is None or start is None:
        field = "mode" if mode is None else "start_position"
        raise Refused(Code.REQUEST_INVALID, field=field, reason="is not one of a group")
    isolation_of(request.isolation)
    check_wait(request)
    session_ns = _span(request, "session_timeout", _SESSION_NS)
    if not _SESSION_NS_MIN <= session_ns <= _SESSION_NS_MAX:
        raise Refused(Code.REQUEST_INVALID, field="session_timeout", minimum="1s", maximum="10m")
    return Join(
        group=request.group_id,
        client_id=check_name(request.consumer_id or "grpc", "consumer_id"),
        topics=tuple(check_name(topic, "topics") for topic in request.topics),
        token=secrets.token_hex(8),
        mode=mode,
        session_ns=session_ns,
        start=start,
        protocol=GroupProtocol.COOPERATIVE,
    )


async def _join(call: ServiceCall, join: Join) -> Joined:
    """Join cooperatively, or as the members of the group are."""
    try:
        return await call.ask(join, Joined)
    except Refused as refused:
        is_eager = refused.facts.get("protocol") == GroupProtocol.EAGER
        if refused.code is not Code.GROUP_MISMATCH or not is_eager:
            raise
    return await call.ask(msgspec.structs.replace(join, protocol=GroupProtocol.EAGER), Joined)


def _span(request: protocol.SubscribeRequest, field: str, default_ns: int) -> int:
    return duration_ns(getattr(request, field)) if request.HasField(field) else default_ns


class _Member:
    """The stream as a member of its group."""

    def __init__(
        self, call: ServiceCall, request: protocol.SubscribeRequest, join: Join, joined: Joined
    ) -> None:
        self._call = call
        self.group = request.group_id
        self.member_id = joined.member_id
        self._is_cooperative = joined.protocol is GroupProtocol.COOPERATIVE
        self._generation = joined.generation
        self._assigned = joined.assigned
        self._count_max = limit_of(request.max_messages, _MESSAGES, _MESSAGES_MAX, "max_messages")
        self._bytes_max = limit_of(request.max_bytes, BATCH_BYTES, BATCH_BYTES, "max_bytes")
        beat_ns = _span(request, "heartbeat_interval", _HEARTBEAT_NS)
        # A third of the session at most, so that two may be late.
        self._beat_ns = max(min(beat_ns, join.session_ns // 3), SECOND // 10)
        self._beaten = time.monotonic_ns()

    async def run(self) -> None:
        """Deliver until the stream ends."""
        if self._is_cooperative:
            await self._begin()
        await self._send(protocol.ConsumeResponse(assignment=self._assignment()))
        while True:
            leased = await self._call.ask(self._poll(), Leased)
            is_due = time.monotonic_ns() - self._beaten >= self._beat_ns
            is_news = any(share.log not in self._assigned for share in leased.partitions)
            if is_due or is_news or leased.is_rebalance_required:
                has_changed = await self._beat()
                if leased.is_rebalance_required and not has_changed:
                    await asyncio.sleep(_PAUSE_S)
            for share in leased.partitions:
                await self._send(protocol.ConsumeResponse(messages=_batch(share)))
            if not leased.partitions and is_due:
                await self._send_bytes(heartbeat(self._call))

    async def _begin(self) -> None:
        """Take the first partitions; those that others have to give up come in a moment."""
        beat = await self._hear(0)
        if not beat.assigned and beat.rebalance_state is RebalanceState.PENDING_REVOKE:
            beat = await self._hear(_FIRST_WAIT_NS)
        self._generation, self._assigned = beat.generation, beat.assigned

    def _poll(self) -> Poll:
        return Poll(
            group=self.group,
            member_id=self.member_id,
            wait_ns=self._beat_ns,
            messages_max=self._count_max,
            in_flight_max=self._count_max,
            bytes_max=self._bytes_max,
        )

    async def _beat(self) -> bool:
        """Keep the session, and tell the client if its partitions are others; whether they are."""
        if not self._is_cooperative:
            command = Heartbeat(
                group=self.group, member_id=self.member_id, generation=self._generation
            )
            eager = await self._call.ask(command, Beat)
            self._beaten = time.monotonic_ns()
            return await self._adopt(eager.generation, eager.assigned)
        beat = await self._hear(0)
        if beat.to_revoke:
            await self._give_up(beat)
            beat = await self._hear(0)
        return await self._adopt(beat.generation, beat.assigned)

    async def _hear(self, wait_ns: int) -> CooperativeBeat:
        command = CooperativeHeartbeat(
            group=self.group,
            member_id=self.member_id,
            generation=self._generation,
            wait_ns=wait_ns,
        )
        beat = await self._call.ask(command, CooperativeBeat)
        self._beaten = time.monotonic_ns()
        return beat

    async def _give_up(self, beat: CooperativeBeat) -> None:
        """Tell the client what it loses, and then the group that it has."""
        await self._notify(protocol.REBALANCE_TYPE_REVOKE, beat.to_revoke, beat.generation)
        self._assigned = tuple(log for log in self._assigned if log not in beat.to_revoke)
        command = RevokePartitions(
            group=self.group,
            member_id=self.member_id,
            generation=beat.generation,
            logs=beat.to_revoke,
        )
        try:
            await self._call.ask(command, RevocationConfirmed)
        except Refused as refused:
            if refused.code not in _OUTDATED:
                raise

    async def _adopt(self, generation: int, assigned: tuple[LogId, ...]) -> bool:
        """Become what the group decided; whether that is something new."""
        if generation == self._generation:
            return False
        before, self._assigned, self._generation = self._assigned, assigned, generation
        lost = [log for log in before if log not in assigned]
        gained = [log for log in assigned if log not in before]
        await self._notify(protocol.REBALANCE_TYPE_REVOKE, lost, generation)
        await self._notify(protocol.REBALANCE_TYPE_ASSIGN, gained, generation)
        await self._send(protocol.ConsumeResponse(assignment=self._assignment()))
        return True

    async def _notify(
        self, kind: int, logs: "tuple[LogId, ...] | list[LogId]", generation: int
    ) -> None:
        if logs:
            notification = protocol.RebalanceNotification(
                type=kind, partitions=_places(logs), generation=generation
            )
            await self._send(protocol.ConsumeResponse(rebalance=notification))

    def _assignment(self) -> protocol.Assignment:
        return protocol.Assignment(
            generation=self._generation,
            partitions=_places(self._assigned),
            member_id=self.member_id,
        )

    async def _keep_session(self) -> None:
        """Say that the member lives; what the group decided is heard when the client is told."""
        if self._is_cooperative:
            await self._hear(0)
        else:
            command = Heartbeat(
                group=self.group, member_id=self.member_id, generation=self._generation
            )
            await self._call.ask(command, Beat)

    async def _send(self, response: protocol.ConsumeResponse) -> None:
        await self._send_bytes(response.SerializeToString())

    async def _send_bytes(self, message: bytes) -> None:
        """Send, and keep the session for as long as the client takes nothing."""
        sending = asyncio.ensure_future(self._call.send(message))
        try:
            while True:
                done, _ = await asyncio.wait((sending,), timeout=self._beat_ns / SECOND)
                if done:
                    break
                await self._keep_session()
            sending.result()
        finally:
            sending.cancel()


def _places(logs: "tuple[LogId, ...] | list[LogId]") -> list[protocol.TopicPartition]:
    return [protocol.TopicPartition(topic=log.topic, partition=log.partition) for log in logs]


def _batch(share: PartitionLeases) -> protocol.MessageBatch:
    """The messages of one partition, in the order of delivery."""
    records = {record.offset: record for record in leased_records(share, _UNPACKED_BYTES_MAX)}
    leased = [each for each in share if each[0] in records]
    found = [records[offset] for offset, _, _ in leased]
    deadline = timestamp_of(share.deadline)
    batch = protocol.MessageBatch()
    highest = -1
    for record, trace, (_, attempt, receipt) in zip(
        found, trace_ids(found, share.seed), leased, strict=True
    ):
        message = message_of(share.log, record, trace)
        message.retry_count = attempt - 1
        message.receipt_handle = receipt
        message.deadline.CopyFrom(deadline)
        batch.messages.append(message)
        highest = max(highest, record.offset)
    # The node tells no high watermark with leases: this is the least that it is.
    batch.high_watermark = highest + 1
    return batch


async def subscribe(call: ServiceCall) -> None:
    """Join a group, deliver, and leave."""
    request = call.request(protocol.SubscribeRequest)
    join = _join_of(request)
    joined = await _join(call, join)
    try:
        # Checks the rest of the request: a refusal leaves the group again.
        await _Member(call, request, join, joined).run()
    except Refused as refused:
        if refused.code in _EVICTED:
            raise Refused(Code.SESSION_EXPIRED, group=request.group_id) from None
        raise
    finally:
        # Not part of this task, which may be cancelled: the leases must be free whatever happens.
        call.context.leave(Leave(group=request.group_id, member_id=joined.member_id), call.caller)
