"""`DeleteRecords`: partitions begin at a later offset, for good.

Owns the requests whose deletions are not durable yet. The start of a log moves in memory when the
deletion is decided, so that nothing below is read any more, and is written to its recovery point by
the disk; the answer comes with the last `Dropped`. A crash before that leaves each log at its old
start or at its new one, and nobody was told which; a crash after it leaves the new one.

Never deleted are records at or above the last stable offset, and those from the first one on that
a pending delayed message is still to be delivered from; the answer names what kept them. Messages
that a group has not read are deleted, as by retention: for its queues they are settled.

Invariant: an answer waits for a `Dropped` of every log that it is about, with its start or a later
one.

Cost: one step per partition and one per queue on it, over as many turns as that takes; per
partition one write of the recovery point, one sync of it and one of the directory.
"""

from collections.abc import Iterable

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.groups.polls import Polls
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.model import Code, LogId, Now, Offset, Refused, RequestId
from goqueue.model.requests import DeleteRecords, DeletionLimit, PartitionStart, RecordsDeleted
from goqueue.security import FieldChange

__all__ = ["RecordDeletion"]

# The audit log says of so many partitions where they begin.
_TOLD = 64


class _Pending(msgspec.Struct):
    """A request, where its partitions begin, and the logs whose disk has not answered."""

    request: RequestId
    topic: str
    missing: dict[LogId, Offset]
    starts: list[PartitionStart]
    is_decided: bool = False


class RecordDeletion:
    """Deletes records on request."""

    def __init__(self, state: NodeState, polls: Polls) -> None:
        self._state = state
        self._polls = polls
        self._pending: dict[RequestId, _Pending] = {}

    def delete(self, request: RequestId, command: DeleteRecords, now: Now) -> None:
        topic = self._state.catalog.find_for_writing(command.topic)
        self._state.stepwise.begin(request, self._delete(request, topic, command), now)

    def _delete(self, request: RequestId, topic: Topic, command: DeleteRecords) -> Steps:
        before = command.before or {}
        numbers = range(topic.stated.partitions) if command.before is None else sorted(before)
        # Everything is checked before anything is changed.
        for number in numbers:
            self._check(self._partition(topic, number), before.get(number) or Offset(0))
            yield 1
        pending = _Pending(request, topic.name, {}, [])
        self._pending[request] = pending
        try:
            for number in numbers:
                partition = self._partition(topic, number)
                self._delete_in(partition, before.get(number), pending)
                yield 1 + len(self._state.group_partitions.queues_on(partition.log_id))
        except Refused:
            # The topic was deleted, or the disk failed, in between.
            del self._pending[request]
            raise
        pending.is_decided = True
        changes = [
            FieldChange(str(each.partition), new=str(each.earliest_offset))
            for each in pending.starts[:_TOLD]
        ]
        self._state.audit.record(request, self._state.journals.of_topics, changes)
        self._answer_if_done(pending)

    def _partition(self, topic: Topic, number: int) -> Partition:
        """A partition of a topic that may have been deleted in between."""
        if self._state.catalog.numbered(topic.number) is None:
            raise Refused(Code.TOPIC_NOT_FOUND, topic=topic.name)
        return self._state.partition(topic, number)

    def _check(self, partition: Partition, offset: Offset) -> None:
        log = partition.log
        if log.failure is not None:
            raise Refused(Code.STORAGE_FAILED, reason=log.failure)
        if offset > log.high_watermark:
            raise Refused(
                Code.OFFSET_OUT_OF_RANGE, offset=offset, earliest=log.start, end=log.high_watermark
            )

    def _delete_in(self, partition: Partition, wanted: Offset | None, pending: _Pending) -> None:
        log, log_id = partition.log, partition.log_id
        asked = log.high_watermark if wanted is None else wanted
        offset, kept_by = self._deletable(partition, asked)
        first = log.start
        if log.end:
            self._state.outbox.extend(log.delete_before(max(first, offset)))
            pending.missing[log_id] = log.start
            self._forget_below(partition, log.start)
        pending.starts.append(
            PartitionStart(
                partition=log_id.partition,
                earliest_offset=log.start,
                deleted_offsets=log.start - first,
                kept_by=kept_by,
            )
        )

    def _deletable(self, partition: Partition, asked: Offset) -> tuple[Offset, DeletionLimit]:
        """How far the log may be deleted, and what keeps the rest of what was asked for."""
        watermarks = partition.log.watermarks
        stable = watermarks.stable
        limit, kept_by = asked, DeletionLimit.NONE
        if stable < limit:
            limit, kept_by = stable, DeletionLimit.OPEN_TRANSACTION
        delays = self._state.delays.get(partition.log_id)
        needed = None if delays is None else delays.needed_from(watermarks.durable)
        if needed is not None and needed < limit:
            limit, kept_by = needed, DeletionLimit.DELAYED_MESSAGE
        return limit, kept_by

    def _forget_below(self, partition: Partition, start: Offset) -> None:
        log_id = partition.log_id
        state = self._state
        for kept in (state.delays.get(log_id), state.priority_indexes.get(log_id)):
            if kept is not None:
                kept.drop_below(start)
        for queue in state.group_partitions.queues_on(log_id):
            queue.settle_below(start)
        self._polls.relearn(partition)
        state.storage.record_damage(log_id, partition.log.damaged)

    # Answers

    def dropped(self, log: LogId, start: Offset) -> None:
        """A log begins at `start` for good: answer who waited for that."""
        for pending in self._waiting_for(log):
            if pending.missing[log] <= start:
                del pending.missing[log]
                self._answer_if_done(pending)

    def failed(self, log: LogId) -> None:
        """The disk of a log failed: whether the deletion is durable is not known."""
        self._refuse(log, Refused(Code.STORAGE_FAILED))

    def forget_logs(self, logs: Iterable[LogId], code: Code = Code.TOPIC_NOT_FOUND) -> None:
        """The topic was deleted, and its records with it; or, as `code` says, it is elsewhere."""
        for log in logs:
            self._refuse(log, Refused(code, topic=log.topic))

    def _refuse(self, log: LogId, refusal: Refused) -> None:
        for pending in self._waiting_for(log):
            del self._pending[pending.request]
            self._state.stepwise.cancel(pending.request)
            self._state.refuse(pending.request, refusal)

    def _waiting_for(self, log: LogId) -> list[_Pending]:
        return [each for each in self._pending.values() if log in each.missing]

    def _answer_if_done(self, pending: _Pending) -> None:
        if pending.missing or not pending.is_decided:
            return
        del self._pending[pending.request]
        reply = RecordsDeleted(topic=pending.topic, partitions=tuple(pending.starts))
        self._state.outbox.answer(pending.request, reply)

    def cancel(self, request: RequestId) -> None:
        """Nobody waits for the answer any more; what was decided is done all the same."""
        self._pending.pop(request, None)
