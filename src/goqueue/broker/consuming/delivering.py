"""Queue reads: polls that lease messages, and what wakes them.

A poll takes what is ready at once, or waits. What a group has not looked at yet is surveyed (read
by the shell, passed over once by the records room) when somebody asks for it, so a group that
nobody polls costs nothing.

The count of a delivery is journaled with the lease. First deliveries do not wait for that: after a
crash such a message may be delivered as the first again, and a count never falls. A redelivery is
handed out only when its count is committed.

Cost per poll: per partition one survey (once per message and group), one lease pass, one journal
entry; the bytes are read by whoever carries out `Serve`.
"""

import msgspec

from goqueue.broker.alarms import ForQueue, ForRequest
from goqueue.broker.consuming.counting import Counting
from goqueue.broker.consuming.waiting import WaitingPoll, WaitingPolls
from goqueue.broker.journals import Delivered, Settled
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.delivery import DeliveryQueue, Held, Position, Range, runs
from goqueue.groups import Group
from goqueue.model import (
    HOUR,
    MILLISECOND,
    Code,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Serve,
    Slice,
    Timestamp,
)
from goqueue.model.requests import Leased, Mode, Parcel, Poll
from goqueue.records import survey

__all__ = ["Delivering", "Surveying"]

_SURVEY_BYTES = 256 * 1024
_VISIBILITY_NS_MIN = 100 * MILLISECOND
_VISIBILITY_NS_MAX = 12 * HOUR
_WAITING_POLLS_MAX = 10_000


class Surveying(msgspec.Struct, frozen=True):
    """Records are being read so that a queue knows what there is."""

    group: int
    wanted: Slice


class Delivering:
    """Leases messages to those who poll."""

    def __init__(self, state: NodeState, counting: Counting) -> None:
        self._state = state
        self._counting = counting
        # Off while those are served who waited for a survey: it is not to start the next one.
        self._is_looking = True
        self._waiting = WaitingPolls()
        # What is being read; known by being the same, not by being equal, since a topic may be
        # deleted and made again meanwhile.
        self._surveying: dict[tuple[int, LogId], Slice] = {}
        # Logs whose next records could not be read: another look would find the same.
        self._unreadable: dict[LogId, None] = {}
        self._turns: dict[int, int] = {}
        self._next_serial = 1
        self._exhausted: list[tuple[Group, LogId, Held]] = []

    # Polling

    def poll(self, request: RequestId, command: Poll, now: Now) -> None:
        state = self._state
        group = state.groups.find(command.group)
        group.check_member(command.member_id)
        group.check_generation(command.generation)
        visibility_ns = command.visibility_ns
        if visibility_ns is not None:
            _check_visibility(visibility_ns)
        state.groups_journal.check_room()
        group.hear(command.member_id, now)
        waiting = WaitingPoll(request, command, group.number)
        is_served = self._serve(group, waiting, now)
        if is_served:
            return
        if command.wait_ns <= 0 and not self._is_surveying(group, command.member_id):
            state.outbox.answer(request, Leased())
            return
        if len(self._waiting) >= _WAITING_POLLS_MAX:
            raise Refused(Code.LOG_BUSY, reason="too many polls wait")
        self._waiting.add(waiting, group)
        if command.wait_ns > 0:
            deadline = Instant(now.instant + command.wait_ns)
            state.alarms.set(ForRequest(request), deadline)

    def give_up(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """A waiting poll ends: its time is over, or its caller is gone. False if it is not ours."""
        waiting = self._waiting.get(request)
        if waiting is None:
            return False
        self._forget(waiting)
        if not is_gone:
            self._state.outbox.answer(request, Leased())
        return True

    def end_all(self) -> None:
        """The node stops: nobody waits any longer."""
        for request in self._waiting.requests:
            self.give_up(request)

    def _forget(self, waiting: WaitingPoll) -> None:
        self._waiting.remove(waiting)
        self._state.alarms.set(ForRequest(waiting.request), None)

    def is_waiting(self, group: int, member_id: str) -> bool:
        """Whether a poll of this member waits: then the member is there."""
        return self._waiting.of_member(group, member_id)

    def _is_surveying(self, group: Group, member_id: str) -> bool:
        return bool(self._surveying) and any(
            (group.number, log) in self._surveying for log in group.assigned(member_id)
        )

    # Serving

    def _serve(self, group: Group, waiting: WaitingPoll, now: Now) -> bool:
        """Lease what is ready to one poll; False if it must wait."""
        logs = group.assigned(waiting.command.member_id)
        must_wait = False
        ready: list[tuple[Partition, DeliveryQueue]] = []
        for log in logs:
            partition = self._state.partitions.get(log)
            if partition is None:
                continue
            queue = self._look(group, partition)
            if (group.number, log) in self._surveying:
                # It ends at once, and may bring what goes before all that is ready.
                must_wait = True
            elif queue.is_ready:
                ready.append((partition, queue))
        if must_wait or not ready:
            return False
        return self._lease(group, waiting, ready, now)

    def _look(self, group: Group, partition: Partition) -> DeliveryQueue:
        """The queue of a group on a partition, told of what is gone, asked for what it needs."""
        queue = self._queue(group, partition)
        log = partition.log
        if not self._is_looking and queue.is_ready:
            return queue
        if queue.cursor < log.start or queue.floor < log.start:
            queue.pass_over(log.start)
        self._survey(group, partition, queue)
        return queue

    def _queue(self, group: Group, partition: Partition) -> DeliveryQueue:
        queues = self._state.queues.setdefault(group.number, {})
        queue = queues.get(partition.log_id)
        if queue is None:
            positions = self._state.positions.setdefault(group.number, {})
            position = positions.get(partition.log_id)
            if position is None:
                position = positions[partition.log_id] = Position(partition.log.start)
            queue = DeliveryQueue(
                position,
                keeps_key_order=group.mode is Mode.KEY_ORDERED,
                lanes=self._state.catalog.find(partition.log_id.topic).config.lanes,
            )
            delays = self._state.delays.get(partition.log_id)
            for offset in () if delays is None else delays.hidden_from(position.floor):
                queue.hide(offset)
            queues[partition.log_id] = queue
        return queue

    def _survey(self, group: Group, partition: Partition, queue: DeliveryQueue) -> None:
        """Have records read that the queue does not know yet and needs."""
        key = (group.number, partition.log_id)
        if key in self._surveying or partition.log_id in self._unreadable:
            return
        log = partition.log
        census = self._counting.census(group, partition, queue)
        while (offset := queue.wanted(log.high_watermark, census)) is not None:
            readable = log.readable_from(offset)
            if readable > offset:
                # What is damaged cannot be delivered; the rest goes on.
                queue.learn((), readable, offset)
                continue
            wanted = log.read(offset, _SURVEY_BYTES)
            if wanted is not None:
                self._surveying[key] = wanted
                self._state.fetch(wanted, Surveying(group.number, wanted))
            return

    def surveyed(self, purpose: Surveying, data: memoryview | None, now: Now) -> None:
        """Records were read for a queue: it learns, and those who wait may get something."""
        wanted = purpose.wanted
        key = (purpose.group, wanted.log)
        if self._surveying.get(key) is not wanted:
            # The queue is another one since: of a topic that was made again, or after a reset.
            return
        del self._surveying[key]
        group = self._state.groups.numbered(purpose.group)
        partition = self._state.partitions.get(wanted.log)
        queue = self._state.queue(purpose.group, wanted.log)
        if group is None or partition is None or queue is None:
            return
        if data is None and not partition.log.is_damaged_at(wanted.offset):
            # The segment is set aside when the writes on their way are done: wait for those.
            self._unreadable[wanted.log] = None
        if data is not None:
            found = survey(data, wanted.offset, with_keys=queue.keeps_key_order)
            # Nothing at all in the slice: compaction left nothing of it.
            upto = Offset(found.next_offset) if len(data) else wanted.below
            queue.learn(found.known, upto, wanted.offset)
            self._counting.count_known(partition, found.known, wanted.offset, upto, now)
        if queue.is_ready or data is None:
            # What is still missing is looked for when the next one asks: a long backlog must not
            # hold up everybody else.
            self._is_looking = False
        self.wake_group(group, now)
        self._is_looking = True

    def _lease(
        self,
        group: Group,
        waiting: WaitingPoll,
        ready: list[tuple[Partition, DeliveryQueue]],
        now: Now,
    ) -> bool:
        command = waiting.command
        count_left, bytes_left = command.messages_max, command.bytes_max
        parcels: list[Parcel] = []
        slices: list[tuple[Slice, ...]] = []
        must_wait = False
        # Each poll begins with another partition, so that none is always the last.
        turn = self._turns[group.number] = self._turns.get(group.number, -1) + 1
        start = turn % len(ready)
        for partition, queue in ready[start:] + ready[:start]:
            if count_left <= 0 or (parcels and bytes_left <= 0):
                break
            visibility_ns = command.visibility_ns or self._visibility_of(partition.log_id)
            deadline = Instant(now.instant + visibility_ns)
            leased: list[Held] = []
            while not leased and queue.is_ready:
                found = queue.lease(
                    command.member_id,
                    count_left,
                    bytes_left,
                    deadline,
                    self._next_serial,
                    now=now.instant,
                )
                if not found:
                    break
                self._next_serial += len(found)
                leased = self._set_exhausted_aside(group, partition.log_id, queue, found)
            leased, run = self._readable(group, partition, queue, leased)
            if not leased:
                continue
            count_left -= len(leased)
            bytes_left -= sum(held.known[1] for held in leased)
            must_wait |= self._count(group, partition, leased)
            parcels.append(
                self._parcel(group, partition, leased, Timestamp(now.wall + visibility_ns))
            )
            slices.append(run)
            self._state.alarms.bring_forward(ForQueue(group.number, partition.log_id), deadline)
        if not parcels:
            return False
        if waiting in self._waiting:
            self._forget(waiting)
        serve = Serve(
            request=waiting.request, reply=Leased(parcels=tuple(parcels)), runs=tuple(slices)
        )
        if must_wait:
            self._state.groups_journal.note([], [serve])
        else:
            self._state.outbox.append(serve)
        return True

    def _set_exhausted_aside(
        self, group: Group, log: LogId, queue: DeliveryQueue, leased: list[Held]
    ) -> list[Held]:
        """Those that may be delivered; the last delivery of the others ended with their holder.

        Their holder left, or the node stopped, or the limit was lowered since.
        """
        limit = self._state.catalog.deliveries_max(log.topic)
        if limit is None or all(held.attempt <= limit for held in leased):
            return leased
        for held in leased:
            if held.attempt > limit:
                queue.bury(held)
                self._exhausted.append((group, log, held))
        return [held for held in leased if held.attempt <= limit]

    def take_exhausted(self) -> list[tuple[Group, LogId, Held]]:
        """Messages that must go to the dead letters instead of to anybody."""
        taken, self._exhausted = self._exhausted, []
        return taken

    def _visibility_of(self, log: LogId) -> int:
        return self._state.catalog.find(log.topic).config.visibility_ns

    def _parcel(
        self, group: Group, partition: Partition, leased: list[Held], deadline: Timestamp
    ) -> Parcel:
        delivered = [(held.known[0], held.attempt, held.serial) for held in leased]
        return Parcel(
            log=partition.log_id,
            offsets=[held.known[0] for held in leased],
            receipts=self._state.receipts.write(partition.log_id, group.number, delivered),
            attempts=[held.attempt for held in leased],
            deadline=deadline,
        )

    def _count(self, group: Group, partition: Partition, leased: list[Held]) -> bool:
        """Journal the deliveries; True if they must not be handed out before."""
        by_attempt: dict[int, list[int]] = {}
        for held in leased:
            by_attempt.setdefault(held.attempt, []).append(held.known[0])
        position = self._state.positions[group.number][partition.log_id]
        topic = self._state.catalog.find(partition.log_id.topic)
        for attempt, offsets in by_attempt.items():
            ranges = runs(offsets)
            position.count_delivery(attempt, ranges)
            delivered = Delivered(
                group=group.number,
                topic=topic.number,
                partition=partition.log_id.partition,
                attempt=attempt,
                offsets=ranges,
            )
            self._state.groups_journal.note([delivered])
            if attempt > 1:
                self._state.tally.redeliveries += len(offsets)
        return max(by_attempt) > 1

    def _readable(
        self, group: Group, partition: Partition, queue: DeliveryQueue, leased: list[Held]
    ) -> tuple[list[Held], tuple[Slice, ...]]:
        """Where the leased messages stand; one that was found damaged since is done with."""
        sizes = {held.known[0]: held.known[1] for held in leased}
        found = runs(sorted(sizes))
        whole = _within_one_segment(partition, found, sizes)
        if whole:
            return leased, whole
        slices: list[Slice] = []
        lost: dict[int, None] = {}
        for first, following in found:
            place = first
            while place < following:
                size = sum(sizes[offset] for offset in range(place, following))
                try:
                    wanted = partition.log.read(Offset(place), size, below=Offset(following))
                except Refused:
                    wanted = None
                if wanted is None:
                    lost[place] = None
                    place += 1
                else:
                    slices.append(wanted)
                    place = wanted.below
        if lost:
            queue.settle([held for held in leased if held.known[0] in lost])
            settle(self._state, group, partition.log_id, list(lost), at=0)
        return [held for held in leased if held.known[0] not in lost], tuple(slices)

    # Compaction

    def needed_from(self, partition: Partition) -> Offset | None:
        """Where compaction has to stop: at the first message that a queue may still hand out."""
        topic = self._state.catalog.get(partition.log_id.topic)
        if topic is None or not topic.config.cleanup_policy.compacts:
            return None
        queues = [each.get(partition.log_id) for each in self._state.queues.values()]
        return min((queue.floor for queue in queues if queue is not None), default=None)

    def relearn(self, partition: Partition) -> None:
        """Records of the partition may be gone: what was only looked at is looked at again."""
        for queues in self._state.queues.values():
            queue = queues.get(partition.log_id)
            if queue is not None:
                queue.relearn()

    # Waking

    def wake(self, partition: Partition, now: Now) -> None:
        """Messages were committed: those who wait for this topic look again."""
        self._unreadable.pop(partition.log_id, None)
        for number in self._waiting.hungry_for(partition.log_id.topic):
            group = self._state.groups.numbered(number)
            if group is not None:
                self.wake_group(group, now)

    def look_again(self, now: Now) -> None:
        """What could not be read a while ago may be readable now: a passing lack of descriptors."""
        for log in list(self._unreadable):
            partition = self._state.partitions.get(log)
            del self._unreadable[log]
            if partition is not None:
                self.wake(partition, now)

    def wake_group(self, group: Group, now: Now) -> None:
        """Something may have become ready: serve the polls that wait, in the order they came."""
        self._waiting.note_topics(group)
        for waiting in self._waiting.of_group(group.number):
            member_id = waiting.command.member_id
            if not group.has_member(member_id):
                self._forget(waiting)
                refusal = Refused(Code.MEMBER_NOT_FOUND, member_id=member_id)
                self._state.outbox.answer(waiting.request, refusal)
            elif not self._serve(group, waiting, now) and waiting.command.wait_ns <= 0:
                if not self._is_surveying(group, member_id):
                    self.give_up(waiting.request)

    # Leaving

    def free(self, group: Group, members: list[str]) -> None:
        """Members are gone: what they held is ready for others, at once."""
        for log, queue in self._state.queues_of(group.number):
            if sum(queue.free(member) for member in members):
                self.arm(group.number, log, queue)

    def forget_group(self, group: Group) -> None:
        """The group is deleted: polls end with that, leases with it."""
        for waiting in self._waiting.of_group(group.number):
            self._forget(waiting)
            refusal = Refused(Code.GROUP_NOT_FOUND, group=group.name)
            self._state.outbox.answer(waiting.request, refusal)
        self.forget_queues(group)
        self._turns.pop(group.number, None)

    def forget_queues(self, group: Group) -> None:
        """Start every partition of the group from its position again."""
        for log in list(self._state.queues.pop(group.number, {})):
            self.forget_queue(group.number, log)

    def forget_idle_queues(self, group: Group) -> None:
        """Forget what can be learned again; where messages rest, they go on resting."""
        for log, queue in self._state.queues_of(group.number):
            if not queue.has_resting:
                self.forget_queue(group.number, log)

    def forget_queue(self, number: int, log: LogId) -> None:
        """Every open lease of this group on this partition is stale from now on."""
        self._state.queues.get(number, {}).pop(log, None)
        self._surveying.pop((number, log), None)
        self._state.alarms.set(ForQueue(number, log), None)

    def arm(self, number: int, log: LogId, queue: DeliveryQueue) -> None:
        self._state.alarms.set(ForQueue(number, log), queue.next_deadline())


def settle(state: NodeState, group: Group, log: LogId, offsets: list[int], *, at: int) -> None:
    """Journal that messages, settled in the queue already, are done with."""
    topic = state.catalog.find(log.topic)
    ranges = runs(sorted(offsets))
    floor = state.queues[group.number][log].floor
    state.positions[group.number][log].settle(floor, ranges, at)
    settled = Settled(
        group=group.number,
        topic=topic.number,
        partition=log.partition,
        floor=floor,
        offsets=ranges,
    )
    state.groups_journal.note([settled])


def _within_one_segment(
    partition: Partition, found: list[Range], sizes: dict[int, int]
) -> tuple[Slice, ...]:
    """Where these runs of messages stand if one segment holds them all; else nothing.

    Lanes break what is leased into many short runs: to ask the log about each would cost more than
    all the rest of a poll. A segment is damaged as a whole or not at all.
    """
    if not found:
        return ()
    try:
        span = partition.log.read(Offset(found[0][0]), 1, below=Offset(found[-1][1]))
    except Refused:
        return ()
    if span is None or span.below < found[-1][1]:
        return ()
    return tuple(
        Slice(
            log=span.log,
            segment=span.segment,
            offset=Offset(first),
            below=Offset(following),
            bytes_max=sizes[first]
            if following == first + 1
            else sum(map(sizes.__getitem__, range(first, following))),
        )
        for first, following in found
    )


def _check_visibility(visibility_ns: int) -> None:
    if not _VISIBILITY_NS_MIN <= visibility_ns <= _VISIBILITY_NS_MAX:
        raise Refused(
            Code.REQUEST_INVALID, field="visibility_timeout", minimum="100ms", maximum="12h"
        )
