"""What groups did as a part of a transaction: held until it ends, settled if it commits.

A helper of the coordinator. Owns which open transactions hold something of which group, and the
queues that are still to follow a decision. Positions follow in the turn of the decision, because
the journal says both as one record; queues follow in as many turns as it takes.

Invariant: until a queue has followed, the position keeps its messages from being delivered.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from goqueue.broker.group_partitions import GroupPartition
from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal_changes import Settled
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand, take_all
from goqueue.delivery import DeliveryQueue, Position
from goqueue.model import LogId, Now, Timestamp, TransactionKey
from goqueue.tracing import Kind
from goqueue.transactions import (
    Decided,
    Outcome,
    ProgressAdded,
    Transaction,
    TransactionChange,
)

__all__ = ["TransactionProgress"]


class _Share(msgspec.Struct, frozen=True):
    """What a transaction holds of one partition for one group."""

    group: int
    topic: int
    partition: int
    floor: int
    # In order, each once.
    offsets: Sequence[int]
    # How many times offsets were committed.
    commits: int


class _QueueUpdate(msgspec.Struct):
    """A queue that is to follow a decision; so many of the offsets are done."""

    share: _Share
    log: LogId
    queue: DeliveryQueue
    offsets: Sequence[int]
    is_commit: bool
    done: int = 0


class TransactionProgress:
    """Holds messages for open transactions, and lets groups follow what is decided."""

    def __init__(self, state: NodeState, polls: Polls) -> None:
        self._state = state
        self._polls = polls
        # Which open transactions hold progress, by group and topic.
        self._holders: dict[tuple[int, int], dict[TransactionKey, None]] = {}
        self._updates: deque[_QueueUpdate] = deque()
        # Holds one of them, if there is one.
        self._decided: list[TransactionKey] = []
        state.follow_ups.append(self._decided)

    def is_undecided(self, group: int, topic: int | None) -> bool:
        """Whether an open transaction may move the group in a topic, or in any."""
        if topic is not None:
            return (group, topic) in self._holders
        return any(number == group for number, _ in self._holders)

    def take_decided(self) -> bool:
        """Whether anything was decided since the last call."""
        return bool(take_all(self._decided))

    # Adding

    def add(self, changes: Iterable[ProgressAdded], now: Now) -> None:
        """Hold what was done as a part of a transaction; leases are held in their queues before."""
        for change in changes:
            self.apply(change, self._state.steady(now).wall)
            log = self._log_of(change)
            queue = None if log is None else self._state.group_partitions.queue(change.group, log)
            if queue is not None and change.floor:
                queue.hold_below(change.floor)

    # Applying: the only mutator of durable state

    def apply(self, change: TransactionChange, at: Timestamp) -> None:
        """Become what the journal says, on the live path and when it is replayed."""
        transaction = self._state.transactions.apply(change)
        if transaction is None:
            return
        if isinstance(change, ProgressAdded):
            log = self._log_of(change)
            if log is not None:
                # Whether or not its group is known yet, as in `Positions.apply`.
                opened = self._state.group_partitions.open(change.group, log).position
                below = [(int(opened.floor), change.floor)]
                opened.holds.add(transaction.key, [*below, *change.offsets])
            holders = self._holders.setdefault((change.group, change.topic), {})
            holders[transaction.key] = None
        elif isinstance(change, Decided):
            is_commit = transaction.outcome is not None and transaction.outcome.is_commit
            for share in _shares(transaction.progress):
                position = self._held_position(share)
                if position is not None:
                    position.holds.remove(transaction.key)
                    if is_commit:
                        position.settle(share.floor, share.offsets, at)
                self._remove_holder(share, transaction)

    def _remove_holder(self, share: _Share, transaction: Transaction) -> None:
        holders = self._holders.get((share.group, share.topic))
        if holders is not None:
            holders.pop(transaction.key, None)
            if not holders:
                del self._holders[share.group, share.topic]

    # Following a decision

    def follow(self, decided: Decided, now: Now) -> None:
        """Apply a decision; queues follow it, in steps where it is about very many messages."""
        self._decided[:] = [decided.key]
        transaction = self._state.transactions.find(decided.key)
        shares = [] if transaction is None else _shares(transaction.progress)
        self.apply(decided, self._state.steady(now).wall)
        is_commit = Outcome(decided.outcome).is_commit
        for share in shares:
            log = self._log_of(share)
            if log is None:
                continue
            if is_commit:
                self._count(share, log)
            queue = self._state.group_partitions.queue(share.group, log)
            if queue is not None:
                offsets = share.offsets
                if not is_commit and share.floor:
                    offsets = [*queue.held_below(share.floor), *offsets]
                self._updates.append(_QueueUpdate(share, log, queue, offsets, is_commit))
        self.resume(now)

    def resume(self, now: Now) -> None:
        """Let queues follow what was decided, as far as the turn allows."""
        groups: dict[int, None] = {}
        while self._updates:
            left = self._state.budget.left
            if not left:
                self._state.alarms.bring_forward(Errand.PROGRESS, now.instant)
                break
            update = self._updates[0]
            if self._update(update, left, now):
                self._updates.popleft()
                groups[update.share.group] = None
        for number in groups:
            group = self._state.groups.numbered(number)
            if group is not None:
                self._polls.wake_group(group, now)

    def _update(self, update: _QueueUpdate, count_max: int, now: Now) -> bool:
        """Settle or release at most so many messages in a queue; whether that was all."""
        share, log, queue = update.share, update.log, update.queue
        place = self._state.group_partitions.get(share.group, log)
        if place is None or place.queue is not queue:
            # Another has begun since from what the position says.
            return True
        upto = update.done + count_max
        offsets = update.offsets[update.done : upto]
        self._state.budget.spend(len(offsets) + 1)
        update.done = upto
        is_last = upto >= len(update.offsets)
        if update.is_commit:
            leases = queue.ack_held(offsets)
            if is_last:
                leases += queue.settle_below(share.floor)
            group = self._state.groups.numbered(share.group)
            if group is not None:
                self._state.traces.leased(Kind.ACK, group, log, leases, now)
            if is_last and queue.floor > place.position.floor:
                self._raise_floor(share, place, queue.floor, now)
        else:
            queue.release_held(offsets)
        if is_last:
            self._polls.arm(share.group, log, queue)
        return is_last

    def _raise_floor(self, share: _Share, place: GroupPartition, floor: int, now: Now) -> None:
        """State the floor that a queue knows: it is past what is no message."""
        place.position.settle(floor, (), self._state.steady(now).wall)
        change = Settled(
            group=share.group, topic=share.topic, partition=share.partition, floor=floor
        )
        self._state.journals.of_partition(place.log).note([change])

    def _count(self, share: _Share, log: LogId) -> None:
        group = self._state.groups.numbered(share.group)
        if group is not None:
            pair = self._state.counts.pair(log.topic, group.name)
            pair.acked += len(share.offsets)
            pair.commits += share.commits

    # Where progress is

    def _log_of(self, progress: ProgressAdded | _Share) -> LogId | None:
        topic = self._state.catalog.numbered(progress.topic)
        return None if topic is None else LogId(topic.name, progress.partition)

    def _held_position(self, share: _Share) -> Position | None:
        """The position that progress was added to; None if its topic or its group is gone."""
        log = self._log_of(share)
        return None if log is None else self._state.group_partitions.position(share.group, log)

    def is_lost(self, transaction: Transaction) -> bool:
        """Whether a power cut took messages that a transaction holds: others will stand there.

        What it wrote came of them, so it cannot go on.
        """
        for each in transaction.progress:
            log = self._log_of(each)
            partition = None if log is None else self._state.partitions.get(log)
            upto = max(each.floor, *(following for _, following in each.offsets), 0)
            if partition is not None and upto > partition.log.end:
                return True
        return False


def _shares(progress: Iterable[ProgressAdded]) -> list[_Share]:
    """The same by partition, each once, however often something was added."""
    by_place: dict[tuple[int, int, int], list[ProgressAdded]] = {}
    for each in progress:
        by_place.setdefault((each.group, each.topic, each.partition), []).append(each)
    return [
        _Share(
            *place,
            floor=max(each.floor for each in added),
            offsets=sorted({offset for each in added for offset in _offsets_of(each)}),
            commits=sum(each.floor > 0 for each in added),
        )
        for place, added in by_place.items()
    ]


def _offsets_of(progress: ProgressAdded) -> Iterator[int]:
    for first, following in progress.offsets:
        yield from range(first, following)
