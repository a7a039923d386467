"""What becomes of leased messages: acked, nacked, rejected, released, extended, expired.

A receipt is read first, then the lease that it names is looked up: a lease that is over refuses
every use of its receipt, except that what the group has settled may be acked again. A message that
becomes a dead letter was not settled by its member: an ack of it is stale.
"""

from collections.abc import Iterable

from goqueue.broker.groups.dead_letter_mover import (
    REASON_CHARACTERS_MAX,
    DeadLetterCause,
    DeadLetterMover,
)
from goqueue.broker.groups.dead_letters import Cause
from goqueue.broker.groups.leases import settle
from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal_changes import DeliveryReleased, GivenBack, fold
from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForQueue
from goqueue.delivery import (
    BACKOFF_MAX,
    DeliveryQueue,
    Lease,
    Position,
    Receipt,
    backoff_ns,
    cut_reason,
)
from goqueue.groups import Group
from goqueue.model import (
    HOUR,
    Answer,
    Code,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    TransactionKey,
)
from goqueue.model.requests import (
    Ack,
    Acked,
    Extend,
    Extended,
    Nack,
    Reject,
    Release,
    Released,
    Returned,
    Settlement,
)
from goqueue.tracing import Kind

__all__ = ["Settlements"]

_TIMEOUT_NS_MAX = 12 * HOUR
_STALE = Settlement(refused=Code.RECEIPT_STALE)


class Settlements:
    """Takes receipts."""

    def __init__(self, state: NodeState, polls: Polls, mover: DeadLetterMover) -> None:
        self._state = state
        self._polls = polls
        self._mover = mover

    # Ack

    def ack(self, request: RequestId, command: Ack, now: Now) -> None:
        self._state.groups_journal.check_room()
        receipts, settlements = self._sort(command.receipts)
        for (number, log), pile in receipts.items():
            self._ack_pile(number, log, pile, settlements, now)
        answer = Answer(request=request, reply=Acked(settlements=tuple(settlements)))
        self._state.groups_journal.note([], [answer])

    def _sort(
        self, handles: tuple[str, ...]
    ) -> tuple[dict[tuple[int, LogId], list[tuple[int, Receipt]]], list[Settlement]]:
        """Receipts by group and partition with their place in the command; the rest is stale."""
        settlements = [_STALE] * len(handles)
        piles: dict[tuple[int, LogId], list[tuple[int, Receipt]]] = {}
        pile: list[tuple[int, Receipt]] = []
        key: tuple[int, LogId] | None = None
        for index, handle in enumerate(handles):
            try:
                receipt = self._state.receipts.read(handle)
            except Refused as refused:
                settlements[index] = Settlement(refused=refused.code)
                continue
            if key is None or receipt.log is not key[1] or receipt.group != key[0]:
                key = (receipt.group, receipt.log)
                pile = piles.setdefault(key, [])
            pile.append((index, receipt))
        return piles, settlements

    def _ack_pile(
        self,
        number: int,
        log: LogId,
        pile: list[tuple[int, Receipt]],
        settlements: list[Settlement],
        now: Now,
    ) -> None:
        """Settle the receipts of one group on one partition together."""
        group = self._state.groups.numbered(number)
        place = self._state.group_partitions.get(number, log)
        if group is None or place is None:
            return
        position, queue = place.position, place.queue
        before = position.floor
        acked: dict[int, Lease] = {}
        known: list[tuple[int, Offset]] = []
        for index, receipt in pile:
            lease = self._find_lease(queue, receipt, now)
            if lease is not None:
                acked[receipt.offset] = lease
            elif receipt.offset not in acked and not _is_done(position, receipt.offset):
                continue
            known.append((index, receipt.offset))
        if acked and queue is not None:
            self._state.tally.acks += len(acked)
            self._state.counts.pair(log.topic, group.name).acked += len(acked)
            leases = list(acked.values())
            self._state.traces.each_leased(Kind.ACK, group, log, leases, now)
            offsets = queue.ack(leases)
            settle(self._state, group, log, offsets, at=now.wall)
            self._polls.wake_group(group, now, log)
        floor = position.floor
        in_flight = 0 if queue is None else queue.in_flight
        for index, offset in known:
            settlements[index] = Settlement(log, offset, floor, floor > before, in_flight)

    def _find_lease(self, queue: DeliveryQueue | None, receipt: Receipt, now: Now) -> Lease | None:
        """The lease that a receipt names, if it is not over."""
        if queue is None or receipt.epoch != self._state.receipts.epoch:
            return None
        lease = queue.find_lease(receipt.offset, receipt.serial)
        # Of many leases that run out together some wait for a later turn: they are over, too.
        if lease is None or lease.deadline > now.instant:
            return lease
        return lease if self._state.absence.excuses(lease.deadline, now.instant) else None

    def find_all(
        self, group: Group, handles: Iterable[str], holder: TransactionKey, now: Now
    ) -> dict[LogId, list[Lease]]:
        """The leases of one group that receipts name, by partition; refuses if one is over.

        What the transaction `holder` holds already is left out: it was asked for twice.
        """
        found: dict[LogId, list[Lease]] = {}
        for handle in handles:
            receipt = self._state.receipts.read(handle)
            if receipt.group != group.number:
                raise Refused(Code.RECEIPT_INVALID, group=group.name)
            if not self._is_repeat(receipt, holder):
                lease = self._find(handle, now)[-1]
                found.setdefault(receipt.log, []).append(lease)
        return found

    def _is_repeat(self, receipt: Receipt, holder: TransactionKey) -> bool:
        """Whether a transaction holds the message by this very delivery."""
        place = self._state.group_partitions.get(receipt.group, receipt.log)
        if place is None or not place.position.holds.has(holder, receipt.offset):
            return False
        lease = None if place.queue is None else place.queue.held_lease(receipt.offset)
        if lease is not None and receipt.epoch == self._state.receipts.epoch:
            return lease.serial == receipt.serial
        # It was leased in an earlier life, of which only the count is known.
        return place.position.attempts_of(receipt.offset) == receipt.attempt

    def _find(self, handle: str, now: Now) -> tuple[Receipt, Group, DeliveryQueue, Lease]:
        """The lease that a receipt names, with all that belongs to it."""
        receipt = self._state.receipts.read(handle)
        group = self._state.groups.numbered(receipt.group)
        queue = self._state.group_partitions.queue(receipt.group, receipt.log)
        lease = self._find_lease(queue, receipt, now)
        if group is None or queue is None or lease is None:
            raise Refused(Code.RECEIPT_STALE)
        return receipt, group, queue, lease

    # Release

    def release(self, request: RequestId, command: Release, now: Now) -> None:
        """Make messages ready again that were not begun, and take back what their leases counted.

        The next delivery may be handed out before this is committed: the count that the journal
        then knows is one too high at most, and never too low.
        """
        self._state.groups_journal.check_room()
        receipts, settlements = self._sort(command.receipts)
        for (number, log), pile in receipts.items():
            self._release_pile(number, log, pile, settlements, now)
        answer = Answer(request=request, reply=Released(settlements=tuple(settlements)))
        self._state.groups_journal.note([], [answer])

    def _release_pile(
        self,
        number: int,
        log: LogId,
        pile: list[tuple[int, Receipt]],
        settlements: list[Settlement],
        now: Now,
    ) -> None:
        """Give back the leases of one group on one partition together."""
        group = self._state.groups.numbered(number)
        queue = self._state.group_partitions.queue(number, log)
        if group is None or queue is None:
            return
        released: list[Lease] = []
        for index, receipt in pile:
            lease = self._find_lease(queue, receipt, now)
            if lease is not None:
                queue.release(lease)
                released.append(lease)
                settlements[index] = Settlement(log, receipt.offset)
        if not released:
            return
        self._state.tally.releases += len(released)
        self._state.counts.pair(log.topic, group.name).released += len(released)
        self._state.traces.each_leased(Kind.RELEASE, group, log, released, now)
        self._uncount(group, log, released)
        self._polls.arm(number, log, queue)
        self._polls.wake_group(group, now, log)

    def _uncount(self, group: Group, log: LogId, released: list[Lease]) -> None:
        """Journal that deliveries did not happen."""
        by_attempt: dict[int, list[int]] = {}
        for lease in released:
            by_attempt.setdefault(lease.attempt, []).append(lease.offset)
        for attempt, offsets in by_attempt.items():
            folded = fold(sorted(offsets))
            change = DeliveryReleased(
                group=group.number,
                topic=self._state.catalog.find(log.topic).number,
                partition=log.partition,
                attempt=attempt,
                offsets=folded.ranges,
                steps=folded.steps,
            )
            position = self._state.group_partitions.find(group.number, log).position
            position.release_delivery(attempt, sorted(offsets))
            self._state.groups_journal.note([change])

    # Nack, reject, extend

    def nack(self, request: RequestId, command: Nack, now: Now) -> None:
        self._state.groups_journal.check_room()
        receipt, group, queue, lease = self._find(command.receipt, now)
        delay_ns = command.delay_ns
        if delay_ns is not None and not 0 <= delay_ns <= _TIMEOUT_NS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="delay", minimum="0s", maximum="12h")
        backoff = backoff_ns(lease.attempt) if delay_ns is None else delay_ns
        is_exhausted = self._is_exhausted(receipt.log, lease)
        if backoff and not is_exhausted and queue.backoff_count >= BACKOFF_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="resting", limit=BACKOFF_MAX)
        self._state.tally.nacks += 1
        self._state.counts.pair(receipt.log.topic, group.name).nacked += 1
        reason = command.reason[:REASON_CHARACTERS_MAX]
        self._state.traces.leased(Kind.NACK, group, receipt.log, [lease], now, detail=reason)
        if is_exhausted:
            cause = DeadLetterCause(Cause.MAX_DELIVERIES, command.reason, request)
            queue.reject(lease)
            self._mover.dead_letter(group, receipt.log, lease, cause, now)
            return
        self._record_reason(receipt, command.reason)
        if backoff:
            queue.nack(lease, Instant(now.instant + backoff))
        else:
            queue.release(lease)
        self._polls.arm(group.number, receipt.log, queue)
        returned = Returned(
            log=receipt.log,
            offset=receipt.offset,
            attempt=lease.attempt,
            visible_at=Timestamp(now.wall + backoff),
        )
        self._state.groups_journal.note([], [Answer(request=request, reply=returned)])
        self._polls.wake_group(group, now, receipt.log)

    def reject(self, request: RequestId, command: Reject, now: Now) -> None:
        self._state.groups_journal.check_room()
        receipt, group, queue, lease = self._find(command.receipt, now)
        if self._state.catalog.holds_dead_letters(receipt.log.topic):
            raise Refused(Code.DEAD_LETTER_LOOP, topic=receipt.log.topic)
        self._state.tally.rejects += 1
        self._state.counts.pair(receipt.log.topic, group.name).rejected += 1
        cause = DeadLetterCause(Cause.REJECTED, command.reason, request)
        reason = command.reason[:REASON_CHARACTERS_MAX]
        self._state.traces.leased(Kind.REJECT, group, receipt.log, [lease], now, detail=reason)
        queue.reject(lease)
        self._mover.dead_letter(group, receipt.log, lease, cause, now)

    def extend(self, request: RequestId, command: Extend, now: Now) -> None:
        if not 0 < command.timeout_ns <= _TIMEOUT_NS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="timeout", minimum="1ns", maximum="12h")
        receipt, group, queue, lease = self._find(command.receipt, now)
        self._state.tally.extensions += 1
        deadline = Instant(now.instant + command.timeout_ns)
        queue.extend(lease, deadline)
        self._state.traces.leased(Kind.EXTEND, group, receipt.log, [lease], now)
        self._state.alarms.bring_forward(ForQueue(group.number, receipt.log), deadline)
        extended = Extended(deadline=Timestamp(now.wall + command.timeout_ns))
        self._state.outbox.answer(request, extended)

    # Time

    def expire(self, number: int, log: LogId, now: Now) -> None:
        """Leases ran out, or backoffs: deliver again, or send to the dead letters."""
        group = self._state.groups.numbered(number)
        queue = self._state.group_partitions.queue(number, log)
        if group is None or queue is None:
            return
        # What is left over is due at once, in a turn of its own.
        expired = queue.expire(now.instant, max(1, self._state.budget.left))
        self._state.budget.spend(len(expired))
        self._state.traces.each_leased(Kind.EXPIRE, group, log, expired, now)
        self._state.tally.expirations += len(expired)
        self._state.counts.pair(log.topic, group.name).expired += len(expired)
        for lease in expired:
            if self._is_exhausted(log, lease):
                queue.reject(lease)
                self._mover.dead_letter(group, log, lease, self._cause_of(number, log, lease), now)
            else:
                queue.release(lease)
        self._polls.arm(number, log, queue)
        self._polls.wake_group(group, now, log)

    def dead_letter_exhausted(self, now: Now) -> None:
        """Send to the dead letters what a poll met and must not be delivered again."""
        for group, log, lease in self._polls.take_exhausted():
            # This one was not made.
            lease.attempt -= 1
            self._mover.dead_letter(
                group, log, lease, self._cause_of(group.number, log, lease), now
            )

    def _cause_of(self, number: int, log: LogId, lease: Lease) -> DeadLetterCause:
        reason = self._state.group_partitions.find(number, log).position.reason_of(lease.offset)
        return DeadLetterCause(Cause.MAX_DELIVERIES, reason)

    def _is_exhausted(self, log: LogId, lease: Lease) -> bool:
        """Whether this was the last delivery that the topic allows."""
        limit = self._state.catalog.deliveries_max(log.topic)
        return limit is not None and lease.attempt >= limit

    def _record_reason(self, receipt: Receipt, reason: str) -> None:
        position = self._state.group_partitions.find(receipt.group, receipt.log).position
        if not reason and not position.reason_of(receipt.offset):
            return
        change = GivenBack(
            group=receipt.group,
            topic=self._state.catalog.find(receipt.log.topic).number,
            partition=receipt.log.partition,
            offset=receipt.offset,
            reason=cut_reason(reason),
        )
        position.record_reason(change.offset, change.reason)
        self._state.groups_journal.note([change])


def _is_done(position: Position, offset: int) -> bool:
    """Whether a message was acked or committed; one that becomes a dead letter was not."""
    is_dead = position.is_dead_lettering(offset) or position.was_dead_lettered(offset)
    return position.has_settled(offset) and not is_dead
