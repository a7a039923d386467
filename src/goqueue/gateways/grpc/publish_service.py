"""PublishService: one message, or a stream of them.

What has come of a stream is published together: one batch for each topic, with one wait for the
disk, while the next messages come in. So a stream costs by batches, and its answers keep the order
of the requests. A message of a producer is a batch of its own, as its sequence numbers are.

Bound on work per turn: at most 1,000 messages, and 256 KiB beyond the first.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from goqueue.gateways.grpc import protocol
from goqueue.gateways.grpc.service_call import Method, ServiceCall
from goqueue.gateways.grpc.statuses import error_of
from goqueue.gateways.grpc.stored_messages import duration_ns, moment_ns, timestamp_of
from goqueue.gateways.message_rules import checked_headers, count_refused, refusal_at, reworded
from goqueue.gateways.trace_headers import request_trace
from goqueue.model import SECOND, Code, Priority, Refused, Timestamp, format_duration
from goqueue.model.requests import Acks, ProducerStamp, Publish, Published
from goqueue.records import Draft

__all__ = ["PUBLISH_METHODS"]

_ACKS = {
    protocol.ACK_MODE_LEADER: Acks.LEADER,
    protocol.ACK_MODE_NONE: Acks.NONE,
    protocol.ACK_MODE_ALL: Acks.ALL,
}
_NORMAL = int(Priority.NORMAL)
# How far the clock of a client that computes a time may be ahead, as on HTTP.
_AHEAD_NS = 60 * SECOND
_SEQUENCE_MAX = 2**31 - 1
_EPOCH_MAX = 32_767

_Message = protocol.PublishRequest | protocol.PublishStreamRequest


class _Outcome:
    """What became of one message."""

    __slots__ = ("is_duplicate", "offset", "partition", "refused", "timestamp")

    def __init__(self, refused: Refused | None = None) -> None:
        self.refused = refused
        self.partition = 0
        self.offset = 0
        self.timestamp = 0
        self.is_duplicate = False


class _TopicBatch:
    """Messages of one topic that are published together."""

    def __init__(self, topic: str, acks: Acks, stamp: ProducerStamp | None = None) -> None:
        self.topic = topic
        self._acks = acks
        self._stamp = stamp
        self._draft = Draft()
        self._targets: list[int] = []
        self._dues: list[int] = []
        self.outcomes: list[_Outcome] = []

    def takes(self, acks: Acks, stamp: ProducerStamp | None) -> bool:
        """Whether a message may join: one of a producer has a batch of its own."""
        return stamp is None and self._stamp is None and acks is self._acks

    def add(self, message: _Message, now: Timestamp, delay_ns_max: int) -> _Outcome:
        """Draft a message; raises Refused, and the batch is as it was."""
        due = _due(message, now, delay_ns_max)
        priority = message.priority if message.HasField("priority") else _NORMAL
        headers = checked_headers(message.headers) if message.headers else ()
        value = message.value if message.HasField("value") else None
        partition = message.partition if message.HasField("partition") else -1
        if partition < 0 and message.HasField("partition"):
            raise Refused(Code.PARTITION_INVALID, found=partition)
        if not 0 <= priority <= Priority.BACKGROUND:
            raise Refused(Code.MESSAGE_INVALID, reason="`priority` must be 0 to 4")
        try:
            if due:
                self._draft.delay(message.key, value, due, headers, priority)
            else:
                self._draft.add(message.key, value, headers, priority)
        except Refused as refused:
            raise reworded(refused) from None
        self._targets.append(partition)
        self._dues.append(due)
        outcome = _Outcome()
        self.outcomes.append(outcome)
        return outcome

    async def publish(self, call: ServiceCall) -> None:
        """Publish all of them, and fill in the outcomes."""
        targets, dues = self._targets, self._dues
        command = Publish(
            topic=self.topic,
            batch=self._draft.take(),
            targets=targets if max(targets) >= 0 else None,
            acks=self._acks,
            is_whole=self._stamp is not None,
            dues=dues if any(dues) else None,
            producer=self._stamp,
            trace=request_trace(call.stream.headers),
        )
        try:
            published = await call.ask(command, Published)
        except Refused as refused:
            for outcome in self.outcomes:
                outcome.refused = refused
            return
        _fill(self.outcomes, published)


def _fill(outcomes: Sequence[_Outcome], published: Published) -> None:
    placed = {each.partition: each for each in published.placed}
    following = {each.partition: int(each.first) for each in published.placed}
    for index, outcome in enumerate(outcomes):
        target = published.targets[index]
        if target < 0:
            outcome.refused = refusal_at(published, index)
            continue
        outcome.partition = target
        outcome.timestamp = published.timestamp
        found = placed.get(target)
        if found is None:
            # With acks of none nothing is known yet: the message has no offset.
            outcome.offset = -1
        elif found.refused is not None:
            outcome.refused = Refused(found.refused)
        else:
            outcome.offset = following[target]
            following[target] += 1
            outcome.is_duplicate = found.is_duplicate


def _due(message: _Message, now: Timestamp, delay_ns_max: int) -> int:
    """When a message is due; 0 for now."""
    has_delay, has_time = message.HasField("delay"), message.HasField("deliver_at")
    if not has_delay and not has_time:
        return 0
    if has_delay and has_time:
        raise Refused(Code.MESSAGE_INVALID, reason="give `delay` or `deliver_at`, not both")
    if has_delay:
        delay_ns = duration_ns(message.delay)
        if delay_ns < 0:
            raise Refused(Code.MESSAGE_INVALID, reason="`delay` is negative")
        due, limit_ns = now + delay_ns, delay_ns_max
    else:
        due, limit_ns = moment_ns(message.deliver_at), delay_ns_max + _AHEAD_NS
    if due - now > limit_ns:
        reason = f"the longest delay is {format_duration(delay_ns_max)}"
        raise Refused(Code.DELAY_TOO_LONG, reason=reason)
    return due if due > now else 0


def _acks(message: _Message) -> Acks:
    if not message.HasField("ack_mode"):
        return Acks.ALL
    found = _ACKS.get(message.ack_mode)
    if found is None:
        raise Refused(Code.MESSAGE_INVALID, reason="`ack_mode` must be LEADER, NONE or ALL")
    return found


def _stamp(message: _Message) -> ProducerStamp | None:
    """Who publishes, if that is a producer."""
    if message.producer_id <= 0:
        return None
    sequence = message.sequence if message.HasField("sequence") else None
    if not 0 <= message.producer_epoch <= _EPOCH_MAX:
        raise Refused(Code.REQUEST_INVALID, field="producer_epoch", minimum=0, maximum=_EPOCH_MAX)
    if sequence is not None:
        if not 0 <= sequence <= _SEQUENCE_MAX:
            raise Refused(Code.REQUEST_INVALID, field="sequence", minimum=0, maximum=_SEQUENCE_MAX)
        if not message.HasField("partition"):
            reason = "is missing: a `sequence` counts the messages of one partition"
            raise Refused(Code.REQUEST_INVALID, field="partition", reason=reason)
    return ProducerStamp(
        producer_id=message.producer_id, epoch=message.producer_epoch, sequence=sequence
    )


def _batches(
    call: ServiceCall, messages: Sequence[_Message]
) -> tuple[list[_TopicBatch], list[_Outcome]]:
    """What to publish, and the outcome of each message in its order, filled in then."""
    now, delay_ns_max = call.context.clock(), call.context.limits.delay_ns_max
    batches: list[_TopicBatch] = []
    # The newest batch of each topic: joining an older one would reorder the topic.
    newest: dict[str, _TopicBatch] = {}
    outcomes: list[_Outcome] = []
    for message in messages:
        try:
            acks, stamp = _acks(message), _stamp(message)
            batch = newest.get(message.topic)
            is_new = batch is None or not batch.takes(acks, stamp)
            if batch is None or is_new:
                batch = _TopicBatch(message.topic, acks, stamp)
            outcomes.append(batch.add(message, now, delay_ns_max))
        except Refused as refused:
            outcomes.append(_Outcome(refused))
            continue
        if is_new:
            batches.append(batch)
            newest[message.topic] = batch
    return batches, outcomes


def _refused_by_topic(
    messages: Sequence[_Message], outcomes: Sequence[_Outcome]
) -> dict[str, Counter[Code]]:
    """How many messages were refused before they were published, by topic and code."""
    refused: dict[str, Counter[Code]] = {}
    for message, outcome in zip(messages, outcomes, strict=True):
        if outcome.refused is not None:
            refused.setdefault(message.topic, Counter())[outcome.refused.code] += 1
    return refused


async def _publish_all(call: ServiceCall, messages: Sequence[_Message]) -> list[_Outcome]:
    batches, outcomes = _batches(call, messages)
    for topic, refused in _refused_by_topic(messages, outcomes).items():
        await count_refused(call.ask, topic, refused)
    if len(batches) == 1:
        await batches[0].publish(call)
    elif batches:
        # Started in order, so the node gets them in order; they share the wait for the disk.
        await asyncio.gather(*(batch.publish(call) for batch in batches))
    return outcomes


async def _publish(call: ServiceCall) -> None:
    request = call.request(protocol.PublishRequest)
    [outcome] = await _publish_all(call, [request])
    if outcome.refused is not None:
        raise outcome.refused
    response = protocol.PublishResponse(
        topic=request.topic,
        partition=outcome.partition,
        offset=outcome.offset,
        timestamp=timestamp_of(outcome.timestamp),
        duplicate=outcome.is_duplicate,
    )
    await call.send(response.SerializeToString())


async def _publish_stream(call: ServiceCall) -> None:
    kind = protocol.PublishStreamRequest
    while received := await call.receive_messages():
        messages = [call.parse(kind, each) for each in received]
        outcomes = await _publish_all(call, messages)
        await call.send_messages([_answer(*pair) for pair in zip(messages, outcomes, strict=True)])


def _answer(request: protocol.PublishStreamRequest, outcome: _Outcome) -> bytes:
    if outcome.refused is not None:
        return protocol.PublishStreamResponse(
            correlation_id=request.correlation_id,
            topic=request.topic,
            error=error_of(outcome.refused),
        ).SerializeToString()
    seconds, nanos = divmod(outcome.timestamp, SECOND)
    return protocol.PublishStreamResponse(
        correlation_id=request.correlation_id,
        topic=request.topic,
        partition=outcome.partition,
        offset=outcome.offset,
        timestamp=protocol.Timestamp(seconds=seconds, nanos=nanos),
        duplicate=outcome.is_duplicate,
    ).SerializeToString()


PUBLISH_METHODS = {
    b"/goqueue.v1.PublishService/Publish": Method(run=_publish, publishes=True),
    b"/goqueue.v1.PublishService/PublishStream": Method(
        run=_publish_stream, has_stream=True, waits=True
    ),
}
