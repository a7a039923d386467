"""What becomes of leased messages: acked, nacked, rejected, released, extended, expired.

A handle is read first, then the lease that it names is looked up, and the messages of it that are
meant. A lease that is over refuses every use of its handle, except that what the group has settled
may be acked again. A message that becomes a dead letter was not settled by its member: an ack of it
is stale.

Cost: by leases and ranges of offsets, not by messages, where all that is named is in flight.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from goqueue.broker.groups.dead_letter_mover import DeadLetterMover
from goqueue.broker.groups.dead_letters import REASON_CHARACTERS_MAX, Cause, DeadLetterCause
from goqueue.broker.groups.leases import settle
from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change, DeliveryReleased, GivenBack
from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForQueue
from goqueue.delivery import (
    BACKOFF_MAX,
    DeliveryQueue,
    Lease,
    LeaseName,
    LeasePart,
    Position,
    backoff_ns,
    cut_reason,
)
from goqueue.groups import Group
from goqueue.model import (
    HOUR,
    Code,
    Folded,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    TransactionKey,
    runs,
)
from goqueue.model.requests import (
    Ack,
    Acked,
    Extend,
    Extended,
    LeaseOffsets,
    Nack,
    Operation,
    RefusedOffsets,
    Reject,
    Release,
    Released,
    ResourceType,
    Returned,
    Settlement,
    lease_of,
)
from goqueue.tracing import Kind

__all__ = ["Acks"]

_TIMEOUT_NS_MAX = 12 * HOUR
_UNKNOWN = Settlement()


class _NamedLease(NamedTuple):
    """A lease of a command: its place there, and the offsets that are meant."""

    place: int
    name: LeaseName
    offsets: Folded


class _FoundMessage(NamedTuple):
    """One message in flight."""

    log: LogId
    offset: Offset
    group: Group
    queue: DeliveryQueue
    part: LeasePart


class Acks:
    """Carries out `Ack`, `Nack`, `Reject`, `Extend` and `Release`."""

    def __init__(self, state: NodeState, polls: Polls, mover: DeadLetterMover) -> None:
        self._state = state
        self._polls = polls
        self._mover = mover

    # Naming

    def _read(self, handle: str, group: str | None) -> LeaseName:
        """What a handle names; refuses what is none of ours, or of another group."""
        name = self._state.lease_handles.read(handle)
        if group is not None:
            found = self._state.groups.numbered(name.group)
            if found is not None and found.name != group:
                raise Refused(Code.RECEIPT_INVALID)
        return name

    def _require_access(self, name: LeaseName) -> None:
        """Refuse a lease that is not the caller's to settle; one of another tenant is none."""
        access = self._state.access
        if access.note_principal().is_unlimited:
            return
        group = self._state.groups.numbered(name.group)
        owners = [name.log.topic] if group is None else [name.log.topic, group.name]
        for each in owners:
            access.require_owner(each, Refused(Code.RECEIPT_INVALID))
        if group is not None:
            access.require(ResourceType.GROUP, group.name, Operation.READ)
        access.require(ResourceType.TOPIC, name.log.topic, Operation.READ)

    def _sort(
        self, leases: Sequence[LeaseOffsets], group: str | None
    ) -> tuple[dict[tuple[int, LogId], list[_NamedLease]], list[Settlement]]:
        """Leases by group and partition with their place in the command; the rest is refused."""
        self._state.access.note_principal()
        settlements = [_UNKNOWN] * len(leases)
        piles: dict[tuple[int, LogId], list[_NamedLease]] = {}
        for place, each in enumerate(leases):
            try:
                name = self._read(each.handle, group)
                pile = piles.get((name.group, name.log))
                if pile is None:
                    self._require_access(name)
                    pile = piles[name.group, name.log] = []
            except Refused as refused:
                settlements[place] = _refuse_all(each.folded, refused.code)
            else:
                pile.append(_NamedLease(place, name, each.folded))
        return piles, settlements

    def _journals_of(self, piles: Iterable[tuple[int, LogId]]) -> list[Journal[Change]]:
        """The journals of the partitions of these piles; refuses if one of them has no room."""
        of_partition = self._state.journals.of_partition
        journals = [of_partition(log) for _, log in piles]
        for journal in journals:
            journal.check_room()
        return journals

    def _find_part(
        self,
        queue: DeliveryQueue | None,
        name: LeaseName,
        offsets: Folded,
        now: Now,
    ) -> LeasePart | None:
        """What of a lease is in flight and not over."""
        if queue is None or name.epoch != self._state.lease_epoch(name.log):
            return None
        part = queue.find_lease(name.serial, offsets)
        if part is None:
            return None
        # Of many leases that run out together some wait for a later turn: they are over, too.
        for deadline, mask in part.lease.due(now.instant).items():
            if not self._state.absence.excuses(Instant(deadline), now.instant):
                part = part.without(mask)
        return part if part.mask else None

    # Ack

    def ack(self, request: RequestId, command: Ack, now: Now) -> None:
        piles, settlements = self._sort(command.leases, command.group)
        journals = self._journals_of(piles)
        for (number, log), pile in piles.items():
            self._ack_pile(number, log, pile, settlements, now)
        reply = Acked(settlements=tuple(settlements))
        self._state.journals.answer(request, reply, journals)

    def _ack_pile(
        self,
        number: int,
        log: LogId,
        pile: list[_NamedLease],
        settlements: list[Settlement],
        now: Now,
    ) -> None:
        """Settle what is named of one group on one partition together."""
        group = self._state.groups.numbered(number)
        place = self._state.group_partitions.get(number, log)
        if group is None or place is None:
            _refuse_pile(pile, settlements)
            return
        position, queue = place.position, place.queue
        before = position.floor
        # A lease may be named twice.
        masks: dict[Lease, int] = {}
        acked: list[int] = []
        for named in pile:
            part = self._find_part(queue, named.name, named.offsets, now)
            acked.append(0 if part is None else len(part))
            if part is not None:
                masks[part.lease] = masks.get(part.lease, 0) | part.mask
        if masks and queue is not None:
            parts = [LeasePart(lease, mask) for lease, mask in masks.items()]
            count = sum(map(len, parts))
            self._state.tally.acks += count
            self._state.counts.pair(log.topic, group.name).acked += count
            self._state.traces.leased(Kind.ACK, group, log, parts, now)
            folded = parts[0].folded if len(parts) == 1 else None
            at = self._state.steady(now).wall
            settle(self._state, group, log, queue.ack(parts), at=at, folded=folded)
            self._polls.wake_group(group, now, log)
        floor = position.floor
        in_flight = 0 if queue is None else queue.in_flight
        for named, count in zip(pile, acked, strict=True):
            refused: tuple[RefusedOffsets, ...] = ()
            if count < len(named.offsets):
                # Some were not in flight: what is settled may be acked again.
                stale = _unsettled(position, named.offsets)
                refused = _refuse(stale, Code.RECEIPT_STALE)
                count = len(named.offsets) - len(stale)
            settlements[named.place] = Settlement(
                count=count,
                refused=refused,
                log=log,
                committed=floor,
                has_advanced=floor > before,
                in_flight=in_flight,
            )

    # One message

    def find_all(
        self, group: Group, receipts: Iterable[str], holder: TransactionKey, now: Now
    ) -> dict[LogId, list[LeasePart]]:
        """The messages of one group that receipts name, by partition; refuses if one is over.

        What the transaction `holder` holds already is left out: it was asked for twice.
        """
        masks: dict[LogId, dict[Lease, int]] = {}
        for receipt in receipts:
            named = lease_of(receipt)
            name = self._state.lease_handles.read(named.handle)
            if name.group != group.number:
                # As a receipt that was never given out: it may be of another tenant.
                raise Refused(Code.RECEIPT_INVALID)
            self._require_access(name)
            if not self._is_repeat(name, named.offsets[0][0], holder):
                part = self._find(receipt, group.name, now).part
                of_log = masks.setdefault(name.log, {})
                of_log[part.lease] = of_log.get(part.lease, 0) | part.mask
        return {
            log: [LeasePart(lease, mask) for lease, mask in of_log.items()]
            for log, of_log in masks.items()
        }

    def _is_repeat(self, name: LeaseName, offset: int, holder: TransactionKey) -> bool:
        """Whether a transaction holds the message by this very delivery."""
        place = self._state.group_partitions.get(name.group, name.log)
        if place is None or not place.position.holds.has(holder, offset):
            return False
        lease = None if place.queue is None else place.queue.held_lease(offset)
        if lease is not None and name.epoch == self._state.lease_epoch(name.log):
            return lease.serial == name.serial
        # It was leased in an earlier epoch, of which only the count is known.
        return place.position.attempts_of(offset) == name.attempt

    def _find(self, receipt: str, group: str | None, now: Now) -> _FoundMessage:
        """The message that a receipt names, with all that belongs to it."""
        named = lease_of(receipt)
        name = self._read(named.handle, group)
        self._require_access(name)
        found = self._state.groups.numbered(name.group)
        queue = self._state.group_partitions.queue(name.group, name.log)
        part = self._find_part(queue, name, named.folded, now)
        if found is None or queue is None or part is None:
            raise Refused(Code.RECEIPT_STALE)
        return _FoundMessage(name.log, Offset(named.offsets[0][0]), found, queue, part)

    # Release

    def release(self, request: RequestId, command: Release, now: Now) -> None:
        """Make messages ready again that were not begun, and take back what their leases counted.

        The next delivery may be handed out before this is committed: the count that the journal
        then knows is one too high at most, and never too low.
        """
        piles, settlements = self._sort(command.leases, command.group)
        journals = self._journals_of(piles)
        for (number, log), pile in piles.items():
            self._release_pile(number, log, pile, settlements, now)
        reply = Released(settlements=tuple(settlements))
        self._state.journals.answer(request, reply, journals)

    def _release_pile(
        self,
        number: int,
        log: LogId,
        pile: list[_NamedLease],
        settlements: list[Settlement],
        now: Now,
    ) -> None:
        """Give back what is named of one group on one partition together."""
        group = self._state.groups.numbered(number)
        queue = self._state.group_partitions.queue(number, log)
        _refuse_pile(pile, settlements)
        if group is None or queue is None:
            return
        released: list[LeasePart] = []
        for named in pile:
            part = self._find_part(queue, named.name, named.offsets, now)
            if part is not None:
                queue.release(part)
                released.append(part)
                settlements[named.place] = _settlement(log, named, part)
        if not released:
            return
        count = sum(map(len, released))
        self._state.tally.releases += count
        self._state.counts.pair(log.topic, group.name).released += count
        self._state.traces.leased(Kind.RELEASE, group, log, released, now)
        self._uncount(group, log, released)
        self._polls.arm(number, log, queue)
        self._polls.wake_group(group, now, log)

    def _uncount(self, group: Group, log: LogId, released: list[LeasePart]) -> None:
        """Journal that deliveries did not happen."""
        by_attempt: dict[int, list[int]] = {}
        for part in released:
            by_attempt.setdefault(part.lease.attempt, []).extend(part.offsets)
        position = self._state.group_partitions.find(group.number, log).position
        for attempt, offsets in by_attempt.items():
            offsets.sort()
            folded = Folded.of(offsets)
            change = DeliveryReleased(
                group=group.number,
                topic=self._state.catalog.find(log.topic).number,
                partition=log.partition,
                attempt=attempt,
                offsets=folded.ranges,
                steps=folded.steps,
            )
            position.release_delivery(attempt, offsets)
            self._state.journals.of_partition(log).note([change])

    # Nack, reject, extend

    def nack(self, request: RequestId, command: Nack, now: Now) -> None:
        log, offset, group, queue, part = self._find(command.receipt, command.group, now)
        self._state.journals.of_partition(log).check_room()
        attempt = part.lease.attempt
        delay_ns = command.delay_ns
        if delay_ns is not None and not 0 <= delay_ns <= _TIMEOUT_NS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="delay", minimum="0s", maximum="12h")
        backoff = backoff_ns(attempt) if delay_ns is None else delay_ns
        is_exhausted = self._is_exhausted(log, attempt)
        if backoff and not is_exhausted and queue.backoff_count >= BACKOFF_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="resting", limit=BACKOFF_MAX)
        self._state.tally.nacks += 1
        self._state.counts.pair(log.topic, group.name).nacked += 1
        reason = command.reason[:REASON_CHARACTERS_MAX]
        self._state.traces.leased(Kind.NACK, group, log, [part], now, detail=reason)
        if is_exhausted:
            cause = DeadLetterCause(Cause.MAX_DELIVERIES, command.reason, request)
            queue.reject(part)
            self._mover.dead_letter(group, log, offset, cause, now, attempts=attempt)
            return
        self._record_reason(group, log, offset, command.reason)
        if backoff:
            queue.nack(part, Instant(now.instant + backoff))
        else:
            queue.release(part)
        self._polls.arm(group.number, log, queue)
        returned = Returned(
            log=log, offset=offset, attempt=attempt, visible_at=Timestamp(now.wall + backoff)
        )
        self._state.journals.answer(request, returned, [self._state.journals.of_partition(log)])
        self._polls.wake_group(group, now, log)

    def reject(self, request: RequestId, command: Reject, now: Now) -> None:
        log, offset, group, queue, part = self._find(command.receipt, command.group, now)
        self._state.journals.of_partition(log).check_room()
        if self._state.catalog.holds_dead_letters(log.topic):
            raise Refused(Code.DEAD_LETTER_LOOP, topic=log.topic)
        self._state.tally.rejects += 1
        self._state.counts.pair(log.topic, group.name).rejected += 1
        cause = DeadLetterCause(Cause.REJECTED, command.reason, request)
        reason = command.reason[:REASON_CHARACTERS_MAX]
        self._state.traces.leased(Kind.REJECT, group, log, [part], now, detail=reason)
        queue.reject(part)
        self._mover.dead_letter(group, log, offset, cause, now, attempts=part.lease.attempt)

    def extend(self, request: RequestId, command: Extend, now: Now) -> None:
        if not 0 < command.timeout_ns <= _TIMEOUT_NS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="timeout", minimum="1ns", maximum="12h")
        piles, settlements = self._sort(command.leases, command.group)
        for (number, log), pile in piles.items():
            self._extend_pile(number, log, pile, settlements, now, timeout_ns=command.timeout_ns)
        deadline = Timestamp(now.wall + command.timeout_ns)
        reply = Extended(deadline=deadline, settlements=tuple(settlements))
        self._state.outbox.answer(request, reply)

    def _extend_pile(
        self,
        number: int,
        log: LogId,
        pile: list[_NamedLease],
        settlements: list[Settlement],
        now: Now,
        *,
        timeout_ns: int,
    ) -> None:
        """Extend what is named of one group on one partition."""
        group = self._state.groups.numbered(number)
        queue = self._state.group_partitions.queue(number, log)
        _refuse_pile(pile, settlements)
        if group is None or queue is None:
            return
        deadline = Instant(now.instant + timeout_ns)
        extended: list[LeasePart] = []
        for named in pile:
            part = self._find_part(queue, named.name, named.offsets, now)
            if part is not None:
                queue.extend(part, deadline)
                extended.append(part)
                settlements[named.place] = _settlement(log, named, part)
        count = sum(map(len, extended))
        self._state.tally.extensions += count
        self._state.counts.pair(log.topic, group.name).extended += count
        self._state.traces.leased(Kind.EXTEND, group, log, extended, now)
        self._state.alarms.bring_forward(ForQueue(number, log), deadline)

    # Time

    def expire(self, number: int, log: LogId, now: Now) -> None:
        """Leases ran out, or backoffs: deliver again, or send to the dead letters."""
        group = self._state.groups.numbered(number)
        queue = self._state.group_partitions.queue(number, log)
        if group is None or queue is None:
            return
        # What is left over is due at once, in a turn of its own.
        expired = queue.expire(now.instant, max(1, self._state.budget.left))
        count = sum(map(len, expired))
        self._state.budget.spend(count)
        self._state.traces.leased(Kind.EXPIRE, group, log, expired, now)
        self._state.tally.expirations += count
        self._state.counts.pair(log.topic, group.name).expired += count
        for part in expired:
            if self._is_exhausted(log, part.lease.attempt):
                queue.reject(part)
                self._dead_letter(group, log, part, part.lease.attempt, now)
            else:
                queue.release(part)
        self._polls.arm(number, log, queue)
        self._polls.wake_group(group, now, log)

    def dead_letter_exhausted(self, now: Now) -> None:
        """Send to the dead letters what a poll met and must not be delivered again."""
        for group, log, part in self._polls.take_exhausted():
            # The last one was not made.
            self._dead_letter(group, log, part, part.lease.attempt - 1, now)

    def _dead_letter(
        self, group: Group, log: LogId, part: LeasePart, attempts: int, now: Now
    ) -> None:
        """Send messages, rejected in their queue, to the dead letters: they had all deliveries."""
        position = self._state.group_partitions.find(group.number, log).position
        for offset in part.offsets:
            cause = DeadLetterCause(Cause.MAX_DELIVERIES, position.reason_of(offset))
            self._mover.dead_letter(group, log, Offset(offset), cause, now, attempts=attempts)

    def _is_exhausted(self, log: LogId, attempt: int) -> bool:
        """Whether this was the last delivery that the topic allows."""
        limit = self._state.catalog.deliveries_max(log.topic)
        return limit is not None and attempt >= limit

    def _record_reason(self, group: Group, log: LogId, offset: Offset, reason: str) -> None:
        position = self._state.group_partitions.find(group.number, log).position
        if not reason and not position.reason_of(offset):
            return
        change = GivenBack(
            group=group.number,
            topic=self._state.catalog.find(log.topic).number,
            partition=log.partition,
            offset=offset,
            reason=cut_reason(reason),
        )
        position.record_reason(change.offset, change.reason)
        self._state.journals.of_partition(log).note([change])


def _unsettled(position: Position, offsets: Folded) -> list[int]:
    """Which of these were neither acked nor committed; one that became a dead letter was not."""
    return [
        offset
        for first, following in offsets.as_ranges()
        for offset in range(first, following)
        if not position.has_settled(offset)
        or position.is_dead_lettering(offset)
        or position.was_dead_lettered(offset)
    ]


def _refuse(offsets: Iterable[int], code: Code) -> tuple[RefusedOffsets, ...]:
    return tuple(RefusedOffsets(first, following, code) for first, following in runs(offsets))


def _refuse_all(offsets: Folded, code: Code) -> Settlement:
    refused = tuple(
        RefusedOffsets(first, following, code) for first, following in offsets.as_ranges()
    )
    # What cannot be read names nothing.
    return Settlement(refused=refused or (RefusedOffsets(0, 0, code),))


def _refuse_pile(pile: Iterable[_NamedLease], settlements: list[Settlement]) -> None:
    """Nothing is known of these leases, or not yet."""
    for named in pile:
        settlements[named.place] = _refuse_all(named.offsets, Code.RECEIPT_STALE)


def _settlement(log: LogId, named: _NamedLease, part: LeasePart) -> Settlement:
    """A part was dealt with, and what else was named was not."""
    refused: tuple[RefusedOffsets, ...] = ()
    if len(part) < len(named.offsets):
        dealt_with = frozenset(part.offsets)
        refused = _refuse(
            (
                offset
                for first, following in named.offsets.as_ranges()
                for offset in range(first, following)
                if offset not in dealt_with
            ),
            Code.RECEIPT_STALE,
        )
    return Settlement(count=len(part), refused=refused, log=log)
