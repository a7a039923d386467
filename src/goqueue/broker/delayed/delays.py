"""Delayed messages: published now, appended once more when they are due, unless cancelled before.

The first record is flagged and skipped by every reader; its offset names the message. The second is
an ordinary message with the header `gq.delayed-from`: that it is committed is the delivery and the
proof of it, so a message is delivered exactly once over any crash. A cancellation is a control
record. What is on its way to the log is taken back when the disk takes it back.

In a cluster a message fires on the broker that leads its partition and may serve it, as a publish
with `acks=all`: the copy is the delivery once the in-sync replicas have it. A leader that lost its
epoch forgets what is on its way, and keeps what is committed; followers fold the rest from the log
(`DerivedState`), so each of them knows every message that waits before it leads.

Cost: a delayed message is read and appended once more; nothing runs while nothing is due.
"""

from array import array
from collections.abc import Sequence

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.delayed.delay_log import delays_snapshot
from goqueue.broker.delayed.delay_pages import find_page
from goqueue.broker.delayed.due_batches import (
    Cancelled,
    Cancels,
    DueBatch,
    Entry,
    Fired,
    PendingDelayAppends,
    Published,
)
from goqueue.broker.disk_reads import CancelledFetch, DueFetch
from goqueue.broker.partitions import Partition, check_copies
from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForDelays, Steps
from goqueue.delivery import WHEEL_REACH_NS, Delayed, Delays
from goqueue.log import TransactionEnd, cancellation
from goqueue.model import (
    BATCH_HEADER,
    DELAYED_FROM_HEADER,
    DELIVER_HEADER,
    SECOND,
    Code,
    Instant,
    LogId,
    Now,
    Offset,
    Range,
    Refused,
    RequestId,
    Save,
    TransactionKey,
    runs,
)
from goqueue.model.requests import (
    CancelDelayed,
    DelayedDescription,
    DelayedList,
    DelayState,
    DelayStatistics,
    DescribeDelays,
    Done,
    FindDelayed,
    ListDelayed,
)
from goqueue.records import DelayedRecords, build, find_trace_contexts, rehead, walk
from goqueue.security import NameFilter

__all__ = [
    "DelayedMessages",
]

_FIRE_MAX = 1000
_FIRE_BYTES = 1024 * 1024
_RETRY_NS = SECOND
# A page is described so many messages at a time.
_DESCRIBED_PER_STEP = 500
_SAVE_CHANGES_MIN = 50_000
# Larger snapshots are copied in turns and encoded by the shell. A block of a column takes as long
# as so many units: memory that was never used before costs far more than the copy itself.
_ENCODED_MAX = 1_000
_UNITS_PER_BLOCK = 10
# Each takes 24 bytes, for up to a year.
FAR_MAX = 4_000_000
_LONG_AGO = Instant(-_RETRY_NS)


class DelayedMessages:
    """Takes commands about delayed messages, and delivers what is due."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._pending_appends = PendingDelayAppends()
        self._cancels = Cancels(state.outbox)
        self._due_batches: dict[LogId, DueBatch] = {}
        # Messages that were due and are damaged here, while others keep copies.
        self._unreadable: dict[LogId, list[Offset]] = {}
        self._delay_ns_sum = 0
        self._delay_count = 0
        # How many messages are due beyond the reach of timers; counted once a second at most.
        self._far_count = 0
        self._far_counted_at = _LONG_AGO

    # Publishing

    def expect(
        self,
        partition: Partition,
        waiting: DelayedRecords,
        now: Now,
        holder: TransactionKey | None = None,
    ) -> None:
        """Delayed records were appended, perhaps in a transaction, which is their holder."""
        if len(waiting):
            # From now on a snapshot may not say that there are none.
            self._delays(partition.log_id, now)
            following = Offset(waiting.offsets[-1] + 1)
            self._pending_appends.add(partition.log_id, Published(following, waiting, holder))
            self._delay_ns_sum += sum(waiting.dues) - len(waiting) * now.wall
            self._delay_count += len(waiting)

    def check_room(self, dues: Sequence[int], now: Now) -> None:
        """Refuse messages for which timers do not reach, when too many of them wait already."""
        horizon = now.wall + WHEEL_REACH_NS
        if max(dues) <= horizon:
            return
        if now.instant >= self._far_counted_at + _RETRY_NS:
            self._far_counted_at = now.instant
            self._far_count = sum(each.far_count for _, each in self._state.led_delays())
        self._far_count += sum(due > horizon for due in dues)
        if self._far_count > FAR_MAX:
            self._far_counted_at = _LONG_AGO
            raise Refused(
                Code.QUOTA_EXCEEDED, quota="messages delayed by more than a week", limit=FAR_MAX
            )

    def committed(self, partition: Partition, now: Now) -> None:
        """What was on its way and is in the log now takes effect."""
        log = partition.log_id
        if log not in self._pending_appends:
            return
        delays = self._delays(log, now)
        for entry in self._pending_appends.committed(log, partition.log.high_watermark):
            self._take_effect(partition, delays, entry, now)
        self._arm(log, delays, now)

    def _take_effect(self, partition: Partition, delays: Delays, entry: Entry, now: Now) -> None:
        log = partition.log_id
        match entry:
            case Published(waiting=waiting, holder=holder):
                delays.add_all(waiting.offsets, waiting.dues, waiting.priorities)
                self._state.counts.topic(log.topic).scheduled += len(waiting)
                if holder is not None:
                    delays.hold(holder, waiting.offsets)
                for first, following in _runs(waiting.offsets):
                    self._state.hide(log, first, following - first)
            case Fired(messages=messages, contexts=contexts):
                first = entry.next - len(messages)
                self._state.counts.topic(log.topic).fired += len(messages)
                for index, message in enumerate(messages):
                    delays.deliver(message, first + index)
                    self._cancels.come_late(log, message, Offset(first + index))
                self._state.traces.fired(log, messages, first, contexts, now)
            case Cancelled(message=message):
                delays.cancel(message, entry.next - 1)
                self._state.counts.topic(log.topic).cancelled += 1
                self._state.hide(log, entry.next - 1)
                self._cancels.succeed(log, message)
                self._recall(partition, message)

    def _recall(self, partition: Partition, message: Offset) -> None:
        """Look up which trace a cancelled message is part of."""
        if not self._state.traces.is_on:
            return
        try:
            wanted = partition.log.read(message, 1, below=Offset(message + 1))
        except Refused:
            return
        if wanted is not None:
            self._state.fetch(wanted, CancelledFetch(partition.log_id, message))

    def cancelled_fetched(self, purpose: CancelledFetch, data: memoryview | None, now: Now) -> None:
        """The record of a cancelled message is here, unless it is gone."""
        if data is not None and len(data):
            self._state.traces.cancelled(purpose.log, purpose.message, data, now)

    def ended(self, partition: Partition, ending: TransactionEnd, now: Now) -> None:
        """A transaction has ended: what it delayed waits from now on, or never was."""
        delays = self._state.delays.get(partition.log_id)
        if delays is not None:
            delays.release(ending.key, is_commit=ending.is_commit)
            self._arm(partition.log_id, delays, now)

    def taken_back(self, partition: Partition, offset: Offset, code: Code, now: Now) -> None:
        """Nothing from `offset` on will be in the log: those messages wait again."""
        log = partition.log_id
        if log not in self._pending_appends:
            return
        delays = self._delays(log, now)
        for entry in self._pending_appends.taken_back(log, offset):
            match entry:
                case Fired(messages=messages):
                    self._put_back(log, delays, messages, now, code)
                case Cancelled(message=message):
                    delays.stay(message)
                    self._cancels.refuse(log, message, code)

    def _put_back(
        self,
        log: LogId,
        delays: Delays,
        messages: tuple[Offset, ...],
        now: Now,
        code: Code | None = None,
    ) -> None:
        for message in messages:
            delays.stay(message)
            if code is not None:
                self._cancels.refuse(log, message, code)
        self._retry(log, now)

    def _retry(self, log: LogId, now: Now) -> None:
        # Not at once: the disk is full, the log is busy, or too few copies are in sync.
        self._state.alarms.set(ForDelays(log), Instant(now.instant + _RETRY_NS))

    # Leadership

    def _may_append(self, partition: Partition) -> bool:
        """Whether a partition takes deliveries: as it takes a publish with `acks=all`."""
        cluster, log = self._state.cluster, partition.log_id
        if cluster is None:
            return True
        topic = self._state.catalog.get(log.topic)
        if topic is None:
            return False
        try:
            led = cluster.check_leads(topic.number, log.partition, log)
        except Refused:
            return False
        return led.live_members >= led.minimum and not led.is_handing_over

    def demoted(self, partition: Partition, now: Now) -> None:
        """Another epoch began: what is not committed is not known to be kept.

        What is under way waits again, unless the log turns out to hold its delivery.
        """
        log = partition.log_id
        self.committed(partition, now)
        self.taken_back(partition, Offset(0), Code.REPLICATION_FAILED, now)
        delays, batch = self._state.delays.get(log), self._due_batches.get(log)
        if delays is not None and batch is not None:
            self._end(batch, delays, now, Code.REPLICATION_FAILED)
        for message in self._unreadable.pop(log, ()):
            if delays is not None:
                delays.stay(message)
            self._cancels.refuse(log, message, Code.REPLICATION_FAILED)
        self._state.alarms.set(ForDelays(log), None)

    def end_overdue(self, before: Instant) -> None:
        """Let nobody wait longer for a cancellation to be replicated than the contract says."""
        self._cancels.end_overdue(before)

    def _pass_over(self, partition: Partition, delays: Delays, message: Offset) -> None:
        """A message that is due cannot be read."""
        log, led = partition.log_id, partition.leader
        if led is not None and led.has_followers:
            # Another copy may be whole: this one is repaired from it, or that one leads.
            self._unreadable.setdefault(log, []).append(message)
            return
        # There is nothing left to deliver.
        delays.expire(message)
        self._cancels.refuse(log, message, Code.MESSAGE_NOT_FOUND)

    def repaired(self, partition: Partition, now: Now) -> None:
        """What was damaged may be whole again: try what could not be read."""
        log = partition.log_id
        delays, messages = self._state.delays.get(log), self._unreadable.pop(log, ())
        if delays is not None and messages:
            self._put_back(log, delays, tuple(messages), now)

    # Firing

    def wake(self, log: LogId, now: Now) -> None:
        """Deliver what is due, unless a delivery of this partition is under way already."""
        delays = self._state.delays.get(log)
        partition = self._state.partitions.get(log)
        if delays is None or partition is None or log in self._due_batches:
            return
        if not self._may_append(partition):
            if partition.leader is not None:
                self._retry(log, now)
            return
        batch = DueBatch(log, delays.due(now.wall, _FIRE_MAX))
        self._due_batches[log] = batch
        self._append_due(batch, partition, delays, now)

    def wake_if_due(self, log: LogId, now: Now) -> None:
        """The wall clock may have jumped: look at a wheel whose time it is."""
        delays = self._state.delays.get(log)
        deadline = None if delays is None else delays.next_deadline()
        if deadline is not None and deadline <= now.wall:
            self.wake(log, now)

    def _append_due(self, batch: DueBatch, partition: Partition, delays: Delays, now: Now) -> None:
        """Read the next neighbours in due order; append when enough is there or all was read."""
        while batch.order:
            if batch.size >= _FIRE_BYTES and not self._deliver(batch, partition, delays, now):
                return
            first, end = batch.neighbours()
            room = max(1, _FIRE_BYTES - batch.size)
            try:
                wanted = partition.log.read(first, room, below=end)
            except Refused:
                wanted = None
            if wanted is not None:
                self._state.fetch(wanted, DueFetch(batch))
                return
            batch.order.popleft()
            self._pass_over(partition, delays, first)
        if batch.copies and not self._deliver(batch, partition, delays, now):
            return
        del self._due_batches[batch.log]
        self._arm(batch.log, delays, now)

    def fetched(self, purpose: DueFetch, data: memoryview | None, now: Now) -> None:
        """Records of messages that are due are here."""
        batch = purpose.batch
        delays = self._state.delays.get(batch.log)
        partition = self._state.partitions.get(batch.log)
        if self._due_batches.get(batch.log) is not batch or delays is None or partition is None:
            # The topic was deleted meanwhile, and perhaps made again.
            return
        if data is None or not len(data):
            self._end(batch, delays, now, None)
            return
        columns = walk(data)
        contexts = find_trace_contexts(data) if self._state.traces.is_on else {}
        left = len(batch.order)
        for offset, position in zip(columns.offsets, columns.positions, strict=True):
            if batch.order and batch.order[0] == offset:
                # One header takes the place of the other, so there is room for it.
                fired = ((DELAYED_FROM_HEADER, b"%d" % offset),)
                copy = rehead(data, position, fired, without=(DELIVER_HEADER, BATCH_HEADER))
                batch.add(copy, contexts.get(offset))
        if len(batch.order) == left:
            # It is not where it was: to read it again would find the same.
            self._pass_over(partition, delays, batch.order.popleft())
        self._append_due(batch, partition, delays, now)

    def _deliver(self, batch: DueBatch, partition: Partition, delays: Delays, now: Now) -> bool:
        """Append what was read, in due order; False if it was refused, and all waits again."""
        messages = tuple(batch.messages)
        if not self._may_append(partition):
            self._end(batch, delays, now, None)
            return False
        try:
            appended = self._state.append(partition, bytearray().join(batch.copies), now)
        except Refused as refused:
            self._end(batch, delays, now, refused.code)
            return False
        self._pending_appends.add(batch.log, Fired(appended.next, messages, batch.contexts))
        batch.clear()
        return True

    def _end(self, batch: DueBatch, delays: Delays, now: Now, code: Code | None) -> None:
        """Cancel a batch: what was not appended waits again."""
        del self._due_batches[batch.log]
        rest = (*batch.messages, *batch.order)
        self._put_back(batch.log, delays, rest, now, code)

    # Cancelling

    def cancel(self, request: RequestId, command: CancelDelayed, now: Now) -> None:
        topic = self._state.catalog.find_for_writing(command.topic)
        partition = self._state.partition(topic, command.partition)
        delays = self._state.delays.get(partition.log_id)
        found = None if delays is None else delays.find(command.offset)
        if delays is None or found is None or found.state is DelayState.EXPIRED:
            raise _missing([partition], command.offset, now)
        if found.state is DelayState.CANCELLED:
            self._state.outbox.answer(request, Done())
        elif found.state is DelayState.DELIVERED:
            raise Refused(Code.ALREADY_DELIVERED, delivered_offset=found.delivered_offset)
        else:
            self._cancel_pending(request, partition, delays, command.offset, now)

    def _cancel_pending(
        self, request: RequestId, partition: Partition, delays: Delays, offset: Offset, now: Now
    ) -> None:
        if partition.leader is not None:
            check_copies(partition.leader, partition.log_id.partition)
        if delays.leave(offset):
            try:
                appended = self._state.append(partition, build([cancellation(offset)]), now)
            except Refused:
                delays.stay(offset)
                self._arm(partition.log_id, delays, now)
                raise
            self._pending_appends.add(partition.log_id, Cancelled(appended.next, offset))
        # Else its delivery or another cancellation is on its way: that decides.
        self._cancels.wait(partition.log_id, offset, request, now.instant)

    def forget_logs(self, logs: Sequence[LogId]) -> None:
        """The topic is gone, and its delays with it."""
        delays = self._state.delays
        for log in logs:
            if log in delays:
                del delays[log]
                self._state.alarms.set(ForDelays(log), None)
            self._due_batches.pop(log, None)
            self._unreadable.pop(log, None)
        self._pending_appends.forget_logs(logs)
        self._cancels.forget_logs(logs)

    # Asking

    def list_pending(self, request: RequestId, command: ListDelayed, now: Now) -> None:
        topic = self._state.catalog.find(command.topic)
        total = self._pending_of(self._logs(topic, command.only))
        if command.skip < total:
            self._state.stepwise.begin(request, self._list_page(request, command, now), now)
            return
        reply = DelayedList(topic=topic.name, messages=(), total=total)
        self._state.outbox.answer(request, reply)

    def _list_page(self, request: RequestId, command: ListDelayed, now: Now) -> Steps:
        """A page, in as many turns as it takes; the topic may go meanwhile."""
        logs = self._logs(self._state.catalog.find(command.topic), command.only)
        delays = [(log, found) for log in logs if (found := self._state.delays.get(log))]
        page = yield from find_page(delays, command.skip, command.limit)
        total = self._pending_of(self._logs(self._state.catalog.find(command.topic), command.only))
        # Of a topic that was deleted and made again nothing is shown that was found before.
        known = {log: found for log, found in delays if self._state.delays.get(log) is found}
        messages: list[DelayedDescription] = []
        for place, (_, log, offset) in enumerate(page):
            each = known[log].find(offset) if log in known else None
            if each is not None and each.state is DelayState.PENDING:
                messages.append(_described(log, each, now))
            if place % _DESCRIBED_PER_STEP == _DESCRIBED_PER_STEP - 1:
                yield _DESCRIBED_PER_STEP
        # A page that is not full ends with the last, whatever came or went meanwhile.
        reached = command.skip + len(messages)
        total = max(total, reached) if len(page) == command.limit else reached
        reply = DelayedList(topic=command.topic, messages=tuple(messages), total=total)
        self._state.outbox.answer(request, reply)

    def find(self, request: RequestId, command: FindDelayed, now: Now) -> None:
        topic = self._state.catalog.find(command.topic)
        only = command.only if command.partition is None else (command.partition,)
        logs = self._logs(topic, only)
        for log in logs:
            delays = self._state.delays.get(log)
            found = None if delays is None else delays.find(command.offset)
            if found is not None:
                self._state.outbox.answer(request, _described(log, found, now))
                return
        partitions = [each for log in logs if (each := self._state.partitions.get(log))]
        raise _missing(partitions, command.offset, now)

    def _logs(self, topic: Topic, only: tuple[int, ...] | None) -> list[LogId]:
        """These partitions of a topic, or all; refuses those that another broker leads."""
        if only is None:
            return topic.logs
        return [self._state.partition(topic, number).log_id for number in only]

    def describe(self, request: RequestId, _: DescribeDelays, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._state.stepwise.begin(request, self._answer_described(request, sees), now)

    def _answer_described(self, request: RequestId, sees: NameFilter) -> Steps:
        names = sorted({log.topic for log, _ in self._state.led_delays()})
        by_topic = dict.fromkeys((yield from self._state.access.select(names, sees)), 0)
        delays = []
        for log, each in self._state.led_delays():
            if log.topic in by_topic:
                by_topic[log.topic] += len(each)
                delays.append(each)
        deadlines = [each.next_due() for each in delays]
        reply = DelayStatistics(
            pending=sum(len(each) for each in delays),
            delivered=sum(each.delivered_count for each in delays),
            cancelled=sum(each.cancelled_count for each in delays),
            # Counted for the node as a whole.
            average_delay_ns=0 if sees else self._delay_ns_sum // max(1, self._delay_count),
            averaged=0 if sees else self._delay_count,
            node=self._state.node_id,
            by_topic={name: count for name, count in by_topic.items() if count},
            next_due=min((each for each in deadlines if each is not None), default=None),
        )
        self._state.outbox.answer(request, reply)

    def _pending_of(self, logs: list[LogId]) -> int:
        found = (self._state.delays.get(log) for log in logs)
        return sum(len(delays) for delays in found if delays is not None)

    # Snapshots

    def save_if_due(self, log: LogId, now: Now) -> None:
        """Keep a snapshot of a partition where much has changed since the last."""
        delays = self._state.delays.get(log)
        if delays is None or delays.is_copied:
            return
        if delays.changes > max(_SAVE_CHANGES_MIN, len(delays) // 2):
            self._state.stepwise.begin(None, self._save(log, delays), now)

    def save_all(self) -> None:
        """Make the next start fast."""
        for log, delays in self._state.delays.items():
            if delays.changes:
                self._state.budget.spend(sum(self._save(log, delays)))

    def _save(self, log: LogId, delays: Delays) -> Steps:
        """Copy what is known of a partition now, and keep the copy."""
        topic = self._state.catalog.get(log.topic)
        partition = self._state.partitions.get(log)
        if topic is None or partition is None:
            return
        upto = partition.delays_known
        if upto is None or partition.log.watermarks.durable < upto:
            # It would say what a power loss may take back, and be believed later.
            return
        copy = delays.begin_copy()
        yield 1
        while self._state.delays.get(log) is delays and delays.is_copied_by(copy):
            if copy.copy_block():
                yield _UNITS_PER_BLOCK
                continue
            delays.end_copy(copy)
            stated = copy.stated(topic.number, upto)
            is_small = delays.entry_count <= _ENCODED_MAX
            data = msgspec.json.encode(stated) if is_small else stated
            name = delays_snapshot(topic.number, log.partition)
            self._state.outbox.append(Save(name=name, data=data))

    # Time

    def arm_all(self, now: Now) -> None:
        for log, delays in self._state.delays.items():
            self._arm(log, delays, now)

    def arm(self, log: LogId, now: Now) -> None:
        """A log with delayed messages was opened."""
        delays = self._state.delays.get(log)
        if delays is not None:
            self._arm(log, delays, now)

    def _arm(self, log: LogId, delays: Delays, now: Now) -> None:
        deadline = delays.next_deadline()
        if deadline is not None:
            # Wall time as seen from here; should the clock be put, `wake_if_due` looks again.
            wait_ns = max(0, deadline - now.wall)
            self._state.alarms.set(ForDelays(log), Instant(now.instant + wait_ns))

    def _delays(self, log: LogId, now: Now) -> Delays:
        delays = self._state.delays.get(log)
        if delays is None:
            delays = self._state.delays[log] = Delays(now.wall)
        return delays


def _missing(partitions: Sequence[Partition], offset: Offset, now: Now) -> Refused:
    """The refusal for a message that no partition knows; a deposed leader need not know it."""
    for each in partitions:
        if each.leader is not None and not each.leader.is_confirmed(now.instant):
            return Refused(Code.LEADER_UNAVAILABLE, partition=each.log_id.partition)
    return Refused(Code.MESSAGE_NOT_FOUND, offset=offset)


def _described(log: LogId, delayed: Delayed, now: Now) -> DelayedDescription:
    return DelayedDescription(
        log=log,
        offset=delayed.offset,
        due=delayed.due,
        time_remaining_ns=max(0, delayed.due - now.wall)
        if delayed.state is DelayState.PENDING
        else 0,
        priority=delayed.priority,
        state=delayed.state,
        delivered_offset=delayed.delivered_offset,
    )


def _runs(offsets: "array[int]") -> list[Range]:
    """The same offsets as ranges. Mostly a batch waits as a whole: that is seen without a look at
    each.
    """
    first, following = offsets[0], offsets[-1] + 1
    return [(first, following)] if following - first == len(offsets) else runs(offsets)
