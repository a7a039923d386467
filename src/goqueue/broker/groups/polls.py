"""Queue reads: polls that lease messages, and what wakes them.

A poll is answered at once with what is available, or waits. What a group has not read yet is read
ahead when somebody polls for it.

Cost per poll: per partition one read-ahead (once per message and group) and one lease pass.
"""

import msgspec

from goqueue.broker.disk_reads import ReadAheadFetch
from goqueue.broker.groups.leases import PollLeases
from goqueue.broker.groups.priority_indexer import PriorityIndexer
from goqueue.broker.groups.read_ahead import ReadAhead
from goqueue.broker.groups.waiting_polls import Unseen, WaitingPoll, WaitingPolls
from goqueue.broker.outbox import ServeCounted
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import PollAllowance, TenantQuotas
from goqueue.broker.turns import Errand, ForQueue, ForQuota, ForRequest
from goqueue.delivery import DeliveryQueue, LeasePart
from goqueue.groups import Group, is_receiver, received_topics
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
from goqueue.model.requests import Leased, Operation, Poll, RebalanceState, ResourceType
from goqueue.security import UNLIMITED, Principal

__all__ = ["Polls", "check_visibility"]

_VISIBILITY_NS_MIN = 100 * MILLISECOND
_VISIBILITY_NS_MAX = 12 * HOUR
_WAITING_POLLS_MAX = 10_000
# To wake a group is to look at its queue, and to have its next records read or to serve it.
_WAKE_UNITS = 10
# A member of more partitions is served when all were looked at, over several turns.
_LOOKS_MAX = 250
# How many queues are asked how far they are for one unit of work, or whether they are in use.
_FLOORS_PER_UNIT = 20
_QUEUES_PER_UNIT = 20


class Polls:
    """PollLeases messages to those who poll."""

    def __init__(self, state: NodeState, indexer: PriorityIndexer, quotas: TenantQuotas) -> None:
        self._state = state
        self._quotas = quotas
        self._read_ahead = ReadAhead(state, indexer)
        self._leases = PollLeases(state, self._read_ahead)
        self._waiting = WaitingPolls()
        # Groups with a partition that has more to read for them; None: with some to look at.
        self._to_wake: dict[tuple[int, LogId | None], None] = {}
        # Groups that a commit of this turn may have something for: served when the turn ends, so
        # that what is committed together comes in one answer.
        self._to_serve: dict[int, None] = {}
        state.follow_ups.append(self._to_serve)

    # Polling

    def poll(self, request: RequestId, command: Poll, now: Now) -> None:
        principal = self._state.access.note_principal()
        group = self._state.groups.find(command.group)
        group.check_member(command.member_id)
        group.check_generation(command.generation)
        check_visibility(command.visibility_ns, "visibility_timeout")
        self._state.journals.of_group(group.name).check_room()
        group.hear(command.member_id, now)
        if group.is_cooperative and command.generation in (None, group.generation):
            group.rebalance.know(command.member_id)
            if group.rebalance.state is RebalanceState.NONE:
                self._state.counts.group(group.name).complete_rebalance(now)
        if group.is_draining(command.member_id):
            self._state.outbox.answer(request, Leased())
        else:
            self.lease_or_wait(request, command, group, now, principal)

    def lease_or_wait(
        self,
        request: RequestId,
        command: Poll,
        group: Group,
        now: Now,
        principal: Principal = UNLIMITED,
    ) -> None:
        """Answer a poll that was checked, of a member or a receiver, now or when there is news.

        It leases from topics that `principal` may read when it does.
        """
        state, member_id = self._state, command.member_id
        waiting = WaitingPoll(request, command, group.number, principal)
        # Whoever has many partitions would look at all of them again for each that is read.
        logs = group.leasable(member_id)
        is_large = len(logs) > _LOOKS_MAX
        is_seen = not is_large and not self._read_ahead.is_reading_for(group, member_id)
        ready = self._check_all(group, logs) if is_seen else []
        is_reading = is_large or self._read_ahead.is_reading_for(group, member_id)
        if not is_reading and ready and self._lease(group, waiting, ready, now):
            return
        if not is_reading and group.rebalance.is_unhinted(member_id):
            self._hint(request, group, member_id)
            return
        if command.wait_ns <= 0 and not is_reading:
            state.outbox.answer(request, Leased())
            return
        if len(self._waiting) >= _WAITING_POLLS_MAX:
            raise Refused(Code.LOG_BUSY, reason="too many polls are waiting")
        self._waiting.add(waiting, group)
        for log in ready:
            self._waiting.mark_ready(group.number, log)
        if not is_seen:
            self._waiting.add_unseen(group, member_id)
        if is_large:
            self._wake_later(group.number, None, now)
        if command.wait_ns > 0:
            deadline = Instant(now.instant + command.wait_ns)
            state.alarms.set(ForRequest(request), deadline)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
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
            self.cancel(request)

    def end_of_member(self, group: Group, member_id: str) -> None:
        """Answer the polls of a member that wait, with nothing."""
        for waiting in self._waiting.of_holder(group.number, member_id):
            self._state.budget.spend()
            self.cancel(waiting.request)

    def hint(self, group: Group, members: tuple[str, ...]) -> None:
        """Answer the waiting polls of members that have to act on a change of their group.

        What is being read for a poll is handed out first: what stays with a member does not pause.
        """
        for member_id in members:
            for waiting in self._waiting.of_holder(group.number, member_id):
                self._state.budget.spend()
                if not self._is_being_read(group, waiting):
                    self._forget(waiting)
                    self._hint(waiting.request, group, member_id)

    def _hint(self, request: RequestId, group: Group, member_id: str) -> None:
        group.rebalance.hint(member_id)
        self._state.outbox.answer(request, Leased(is_rebalance_required=True))

    def take_over(self, group: Group, older: str, member_id: str) -> None:
        """A static member holds what the older one held."""
        for _, queue in self._state.group_partitions.queues_of(group.number):
            queue.change_member(older, member_id)

    def _forget(self, waiting: WaitingPoll) -> None:
        self._waiting.remove(waiting)
        self._state.alarms.set(ForRequest(waiting.request), None)

    def is_waiting(self, group: int, member_id: str) -> bool:
        """Whether a poll of this member waits: then the member is there."""
        return self._waiting.of_member(group, member_id)

    # Serving

    def _check_all(self, group: Group, logs: tuple[LogId, ...]) -> list[LogId]:
        """Look at every partition of a member: those that have something to hand out."""
        self._state.budget.spend(len(logs))
        return [log for log in logs if self._check(group, log)]

    def _check(self, group: Group, log: LogId, *, is_eager: bool = True) -> bool:
        """Look at one partition: whether it has something to hand out, and is not being read."""
        partition = self._state.partitions.get(log)
        if partition is None:
            return False
        known = self._state.group_partitions.queue(group.number, log)
        if known is not None and known.has_nothing_within(
            partition.log.start, partition.log.watermarks.stable
        ):
            return False
        queue = self._read_ahead.refresh(group, partition, is_eager=is_eager)
        # A read ends at once, and may bring what goes before all that is ready.
        return queue.is_ready and not self._read_ahead.is_reading(group.number, log)

    def _serve_ready(self, group: Group, now: Now, log: LogId | None = None) -> None:
        """Serve the polls of a group that wait, in the order they came, from what is ready.

        With `log`, only that partition has news.
        """
        waiting = self._waiting
        for unseen in waiting.unseen(group.number):
            self._check_more(group, unseen, now)
        for poll in waiting.candidates(group, log):
            self._state.budget.spend()
            if not self._is_being_read(group, poll):
                self._lease(group, poll, waiting.ready(group.number), now)
            if not waiting.has_ready(group.number):
                break
        if group.rebalance.unhinted:
            self.hint(group, group.rebalance.unhinted)
        for poll in waiting.immediate(group.number):
            if not self._is_being_read(group, poll):
                self.cancel(poll.request)

    def _check_more(self, group: Group, unseen: Unseen, now: Now) -> None:
        """Look at partitions that no poll has looked at yet, as many as the turn allows."""
        logs = unseen.logs
        if len(logs) <= _LOOKS_MAX:
            if self._read_ahead.is_reading_any(group.number, logs):
                return
            upto = len(logs)
        else:
            upto = unseen.seen + min(_LOOKS_MAX, self._state.budget.left)
        for log in self._check_all(group, logs[unseen.seen : upto]):
            self._waiting.mark_ready(group.number, log)
        unseen.seen = upto
        if upto < len(logs):
            self._wake_later(group.number, None, now)
        else:
            self._waiting.mark_seen(group.number, unseen.share)

    def _is_being_read(self, group: Group, poll: WaitingPoll) -> bool:
        """Whether it is not known yet what there is for a poll."""
        member_id = poll.command.member_id
        is_unseen = self._waiting.is_unseen(group, member_id)
        return is_unseen or self._read_ahead.is_reading_for(group, member_id)

    def _lease(self, group: Group, poll: WaitingPoll, logs: list[LogId], now: Now) -> bool:
        """PollLease to one poll what these partitions have for it; False if that is nothing.

        Nothing is also what its tenant gets that has consumed too much of late: until it may again.
        """
        allowance = self._quotas.poll_allowance(group.name, now)
        if allowance is not None and allowance.wait_ns:
            deadline = Instant(now.instant + allowance.wait_ns)
            self._state.alarms.set(ForQuota(group.number), deadline)
            return False
        ready = self._ready(group, poll, logs)
        if not ready:
            return False
        command = poll.command if allowance is None else _limited(poll.command, allowance)
        lease = self._leases.lease(group, poll.request, command, ready, now)
        for partition, queue in ready:
            if queue.is_ready:
                self._waiting.pass_turn(group.number, partition.log_id)
            else:
                self._waiting.mark_empty(group.number, partition.log_id)
        if lease is None:
            return False
        if allowance is not None and isinstance(lease.serve.reply, Leased):
            count = sum(map(len, lease.serve.reply.partitions))
            self._quotas.charge_poll(group.name, count, now)
        if poll in self._waiting:
            self._forget(poll)
        if lease.must_wait:
            counted = self._leases.when_counted(lease.serve)
            assert isinstance(lease.serve.reply, Leased)
            of_partition = self._state.journals.of_partition
            behind = [of_partition(each.log) for each in lease.serve.reply.partitions]
            self._state.journals.hold(counted, behind)
        else:
            self._state.outbox.append(lease.serve)
        return True

    def _ready(
        self, group: Group, poll: WaitingPoll, logs: list[LogId]
    ) -> list[tuple[Partition, DeliveryQueue]]:
        """Those of these partitions that have something for a member, and that it may read."""
        member_id, principal = poll.command.member_id, poll.principal
        ready: list[tuple[Partition, DeliveryQueue]] = []
        for log in logs:
            partition = self._state.partitions.get(log)
            queue = self._state.group_partitions.queue(group.number, log)
            if partition is None or queue is None or not queue.is_ready:
                self._waiting.mark_empty(group.number, log)
            elif group.may_lease(member_id, log, poll.command.generation) and (
                principal.is_unlimited or self._may_read(principal, log)
            ):
                ready.append((partition, queue))
            if len(ready) >= _LOOKS_MAX:
                # The answer is read from so many files at most.
                break
        return ready

    def _may_read(self, principal: Principal, log: LogId) -> bool:
        read, topic = Operation.READ, ResourceType.TOPIC
        return self._state.access.may(principal, topic, log.topic, read)

    def serve_counted(self, counted: ServeCounted) -> None:
        """The deliveries of a poll are counted: hand them out."""
        self._leases.serve_counted(counted)

    def records_fetched(self, purpose: ReadAheadFetch, data: memoryview | None, now: Now) -> None:
        """Records were read for a queue: it learns, and those who wait may get something."""
        learned = self._read_ahead.learn(purpose, data, now)
        if learned is not None:
            # What is still missing is looked for when the next one asks: a long backlog must not
            # hold up everybody else.
            is_eager = not learned.is_enough
            self.wake_group(learned.group, now, purpose.wanted.log, is_eager=is_eager)

    def take_exhausted(self) -> list[tuple[Group, LogId, LeasePart]]:
        """Messages that must go to the dead letters instead of to anybody."""
        return self._leases.take_exhausted()

    # Compaction

    def needed_from(self, partition: Partition) -> Offset | None:
        """Where compaction has to stop: at the first message that a queue may still hand out."""
        topic = self._state.catalog.get(partition.log_id.topic)
        if topic is None or not topic.config.cleanup_policy.compacts:
            return None
        floors = [queue.floor for queue in self._state.group_partitions.queues_on(partition.log_id)]
        self._state.budget.spend(len(floors) // _FLOORS_PER_UNIT)
        return min(floors, default=None)

    def relearn(self, partition: Partition) -> None:
        """Records of the partition may be gone: what was only looked at is looked at again."""
        self._read_ahead.forget_log(partition.log_id)
        for queue in self._state.group_partitions.queues_on(partition.log_id):
            queue.relearn()

    # Waking

    def wake(self, partition: Partition, now: Now) -> None:
        """Messages were committed: those who wait for this partition look again."""
        log = partition.log_id
        self._read_ahead.retry(log)
        for number in self._waiting.groups_waiting_for(log.topic):
            self._to_wake[(number, log)] = None
        self.wake_more(now)

    def _wake_later(self, number: int, log: LogId | None, now: Now) -> None:
        """Serve a group in a later turn."""
        self._to_wake[(number, log)] = None
        self._state.alarms.bring_forward(Errand.POLLS, now.instant)

    def wake_more(self, now: Now) -> None:
        """Wake one group after the other, in as many turns as it takes."""
        while self._to_wake and not self._state.budget.is_spent:
            number, log = next(iter(self._to_wake))
            del self._to_wake[(number, log)]
            self._state.budget.spend(_WAKE_UNITS)
            group = self._state.groups.numbered(number)
            if group is not None and log is not None:
                self._learn_committed(group, log, now)
            elif group is not None:
                self._serve_ready(group, now)
        if self._to_wake:
            self._state.alarms.bring_forward(Errand.POLLS, now.instant)

    def _learn_committed(self, group: Group, log: LogId, now: Now) -> None:
        """Messages were committed to a partition: look whether a poll waits for them."""
        partition = self._state.partitions.get(log)
        if partition is None or not self._waiting.waits_for(group, log):
            return
        has_learned = self._read_ahead.learn_committed(group, partition, now)
        if self._check(group, log, is_eager=not has_learned):
            self._waiting.mark_ready(group.number, log)
        self._to_serve[group.number] = None

    def serve_woken(self, now: Now) -> None:
        """A turn ends: serve the polls of groups that it committed something for."""
        for number in list(self._to_serve):
            group = self._state.groups.numbered(number)
            if group is not None and self._waiting.has_any(number):
                self._serve_ready(group, now)
        self._to_serve.clear()

    def wake_allowed(self, number: int, now: Now) -> None:
        """The tenant of a group may consume again."""
        group = self._state.groups.numbered(number)
        if group is not None and self._waiting.has_any(number):
            self._serve_ready(group, now)

    def retry_unreadable(self, now: Now) -> None:
        """What could not be read a while ago may be readable now: a passing lack of descriptors."""
        for log in self._read_ahead.unreadable:
            partition = self._state.partitions.get(log)
            self._read_ahead.retry(log)
            if partition is not None:
                self.wake(partition, now)

    def wake_group(
        self, group: Group, now: Now, log: LogId | None = None, *, is_eager: bool = True
    ) -> None:
        """Something may have become ready, in one partition or in any: serve polls that wait."""
        number = group.number
        if not self._waiting.has_any(number):
            return
        if log is None:
            self._wake_all(group)
        elif self._waiting.waits_for(group, log) and self._check(group, log, is_eager=is_eager):
            self._waiting.mark_ready(number, log)
        self._serve_ready(group, now, log)

    def _wake_all(self, group: Group) -> None:
        """The members of a group, or their partitions, may be others: all is looked at again."""
        self._waiting.add_topics(group)
        self._waiting.clear_unseen(group.number)
        for waiting in self._waiting.of_group(group.number):
            member_id = waiting.command.member_id
            try:
                if is_receiver(member_id):
                    group.check_receivable()
                else:
                    group.check_member(member_id)
            except Refused as refused:
                self._forget(waiting)
                self._state.outbox.answer(waiting.request, refused)
                continue
            self._state.budget.spend()
            self._waiting.add_unseen(group, member_id)

    # Leaving

    def free(self, group: Group, members: list[str]) -> None:
        """Members are gone: what they held is ready for others, at once."""
        for log, queue in self._state.group_partitions.queues_of(group.number):
            if sum(queue.release_member(member) for member in members):
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
        for log, _ in self._state.group_partitions.queues_of(group.number):
            self.forget_queue(group.number, log)

    def forget_idle_queues(self, group: Group) -> bool:
        """Forget what can be read again; False if queues are left.

        Those are kept with messages in backoff, or in the hands of somebody who never joined, and
        all while such a client waits.
        """
        queues = self._state.group_partitions.queues_of(group.number)
        self._state.budget.spend(len(queues) // _QUEUES_PER_UNIT)
        if self._waiting.has_any(group.number):
            return False
        for log, queue in queues:
            if not queue.backoff_count and not queue.in_flight:
                self.forget_queue(group.number, log)
        return not self._state.group_partitions.has_queues(group.number)

    def refuse_receives(self, topic: str, refusal: Refused) -> None:
        """A topic is gone, and with it what those who receive from it waited for."""
        for number in self._waiting.groups_waiting_for(topic):
            for waiting in self._waiting.of_group(number):
                holder = waiting.command.member_id
                if not is_receiver(holder) or topic not in received_topics(holder):
                    continue
                self._forget(waiting)
                self._state.outbox.answer(waiting.request, refusal)

    def forget_queue(self, number: int, log: LogId) -> None:
        """Every open lease of this group on this partition is stale from now on."""
        if self._state.group_partitions.remove_queue(number, log):
            self._read_ahead.forget_fetched(number, log)
            self._state.alarms.set(ForQueue(number, log), None)

    def arm(self, number: int, log: LogId, queue: DeliveryQueue) -> None:
        self._state.alarms.set(ForQueue(number, log), queue.next_deadline())


def _limited(command: Poll, allowance: PollAllowance) -> Poll:
    """A poll for no more than it may get."""
    messages_max, bytes_max = command.messages_max, command.bytes_max
    if allowance.messages_max is not None:
        messages_max = min(messages_max, allowance.messages_max)
    if allowance.bytes_max is not None:
        bytes_max = min(bytes_max, allowance.bytes_max)
    return msgspec.structs.replace(command, messages_max=messages_max, bytes_max=bytes_max)


def check_visibility(visibility_ns: int | None, field: str) -> None:
    """Refuse a lease that is too short or too long."""
    if visibility_ns is not None and not (
        _VISIBILITY_NS_MIN <= visibility_ns <= _VISIBILITY_NS_MAX
    ):
        raise Refused(Code.REQUEST_INVALID, field=field, minimum="100ms", maximum="12h")
