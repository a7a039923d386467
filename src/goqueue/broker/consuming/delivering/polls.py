"""Queue reads: polls that lease messages, and what wakes them.

A poll takes what is ready at once, or waits. What a group has not looked at yet is surveyed when
somebody asks for it; the bytes are read by whoever carries out `Serve`.

Cost per poll: per partition one survey (once per message and group) and one lease pass.
"""

from goqueue.broker.alarms import ForQueue, ForRequest
from goqueue.broker.consuming.counting import Counting
from goqueue.broker.consuming.delivering.leases import Leases
from goqueue.broker.consuming.delivering.surveys import Surveying, Surveys
from goqueue.broker.consuming.delivering.waiting import WaitingPoll, WaitingPolls
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.delivery import DeliveryQueue, Held
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
)
from goqueue.model.requests import Leased, Poll

__all__ = ["Delivering"]

_VISIBILITY_NS_MIN = 100 * MILLISECOND
_VISIBILITY_NS_MAX = 12 * HOUR
_WAITING_POLLS_MAX = 10_000


class Delivering:
    """Leases messages to those who poll."""

    def __init__(self, state: NodeState, counting: Counting) -> None:
        self._state = state
        self._surveys = Surveys(state, counting)
        self._leases = Leases(state)
        # Off while those are served who waited for a survey: it is not to start the next one.
        self._is_looking = True
        self._waiting = WaitingPolls()

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
        logs = group.assigned(command.member_id)
        if command.wait_ns <= 0 and not self._surveys.is_any_under_way(group.number, logs):
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

    # Serving

    def _serve(self, group: Group, waiting: WaitingPoll, now: Now) -> bool:
        """Lease what is ready to one poll; False if it must wait."""
        logs = group.assigned(waiting.command.member_id)
        if self._surveys.is_any_under_way(group.number, logs):
            # Whoever has many partitions would look at all of them again for each that is read.
            return False
        must_wait = False
        ready: list[tuple[Partition, DeliveryQueue]] = []
        for log in logs:
            partition = self._state.partitions.get(log)
            if partition is None:
                continue
            queue = self._surveys.look(group, partition, is_eager=self._is_looking)
            if self._surveys.is_under_way(group.number, log):
                # It ends at once, and may bring what goes before all that is ready.
                must_wait = True
            elif queue.is_ready:
                ready.append((partition, queue))
        if must_wait or not ready:
            return False
        lease = self._leases.lease(group, waiting.request, waiting.command, ready, now)
        if lease is None:
            return False
        if waiting in self._waiting:
            self._forget(waiting)
        if lease.must_wait:
            self._state.groups_journal.note([], [lease.serve])
        else:
            self._state.outbox.append(lease.serve)
        return True

    def surveyed(self, purpose: Surveying, data: memoryview | None, now: Now) -> None:
        """Records were read for a queue: it learns, and those who wait may get something."""
        learned = self._surveys.learn(purpose, data, now)
        if learned is not None:
            # What is still missing is looked for when the next one asks: a long backlog must not
            # hold up everybody else.
            self._is_looking = not learned.is_enough
            self.wake_group(learned.group, now)
            self._is_looking = True

    def take_exhausted(self) -> list[tuple[Group, LogId, Held]]:
        """Messages that must go to the dead letters instead of to anybody."""
        return self._leases.take_exhausted()

    # Compaction

    def needed_from(self, partition: Partition) -> Offset | None:
        """Where compaction has to stop: at the first message that a queue may still hand out."""
        topic = self._state.catalog.get(partition.log_id.topic)
        if topic is None or not topic.config.cleanup_policy.compacts:
            return None
        queues = self._state.queues_on(partition.log_id)
        return min((queue.floor for queue in queues), default=None)

    def relearn(self, partition: Partition) -> None:
        """Records of the partition may be gone: what was only looked at is looked at again."""
        for queue in self._state.queues_on(partition.log_id):
            queue.relearn()

    # Waking

    def wake(self, partition: Partition, now: Now) -> None:
        """Messages were committed: those who wait for this topic look again."""
        self._surveys.retry(partition.log_id)
        for number in self._waiting.hungry_for(partition.log_id.topic):
            group = self._state.groups.numbered(number)
            if group is not None:
                self.wake_group(group, now)

    def look_again(self, now: Now) -> None:
        """What could not be read a while ago may be readable now: a passing lack of descriptors."""
        for log in self._surveys.unreadable:
            partition = self._state.partitions.get(log)
            self._surveys.retry(log)
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
                logs = group.assigned(member_id)
                if not self._surveys.is_any_under_way(group.number, logs):
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
        self._leases.forget_group(group.number)

    def forget_queues(self, group: Group) -> None:
        """Start every partition of the group from its position again."""
        for log, _ in self._state.queues_of(group.number):
            self.forget_queue(group.number, log)

    def forget_idle_queues(self, group: Group) -> None:
        """Forget what can be learned again; where messages rest, they go on resting."""
        for log, queue in self._state.queues_of(group.number):
            if not queue.has_resting:
                self.forget_queue(group.number, log)

    def forget_queue(self, number: int, log: LogId) -> None:
        """Every open lease of this group on this partition is stale from now on."""
        self._state.remove_queue(number, log)
        self._surveys.forget(number, log)
        self._state.alarms.set(ForQueue(number, log), None)

    def arm(self, number: int, log: LogId, queue: DeliveryQueue) -> None:
        self._state.alarms.set(ForQueue(number, log), queue.next_deadline())


def _check_visibility(visibility_ns: int) -> None:
    if not _VISIBILITY_NS_MIN <= visibility_ns <= _VISIBILITY_NS_MAX:
        raise Refused(
            Code.REQUEST_INVALID, field="visibility_timeout", minimum="100ms", maximum="12h"
        )
