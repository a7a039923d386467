"""What groups have done as part of a transaction: held until it ends, settled if it commits.

Offsets and receipts are checked when they are added, with the member and generation of that moment;
from then on the messages are held, so nothing that happens to the group in between can hand them
to anybody else. The decision settles or frees them in the same record of the journal.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from goqueue.broker.groups.acks import Settlements
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal_changes import Settled
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand, ForRequest
from goqueue.delivery import DeliveryQueue, Lease, Position, runs
from goqueue.groups import Group
from goqueue.model import (
    SECOND,
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
from goqueue.model.requests import AddOffsets, CommitOffsets, DescribeOffsets, Done
from goqueue.tracing import Kind
from goqueue.transactions import (
    Decided,
    Outcome,
    ProgressAdded,
    Transaction,
    TransactionChange,
)

__all__ = ["TransactionOffsets"]


_WAIT_NS = 30 * SECOND
_PROGRESS_MAX = 100_000


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


class _Following(msgspec.Struct):
    """A queue that is to follow a decision; so many offsets are done."""

    share: _Share
    log: LogId
    queue: DeliveryQueue
    offsets: Sequence[int]
    is_commit: bool
    done: int = 0


class TransactionOffsets:
    """Takes the progress of groups into transactions."""

    def __init__(
        self,
        state: NodeState,
        positions: Positions,
        settling: Settlements,
        delivering: Polls,
    ) -> None:
        self._state = state
        self._positions = positions
        self._settling = settling
        self._delivering = delivering
        # Who wants to know where a group stands while a transaction has not decided it.
        self._asking: dict[RequestId, DescribeOffsets] = {}
        self._has_news = False
        # Which open transactions hold progress, by group and topic.
        self._holders: dict[tuple[int, int], dict[TransactionKey, None]] = {}
        self._following: deque[_Following] = deque()

    # Adding

    def add(self, request: RequestId, command: AddOffsets, now: Now) -> None:
        state = self._state
        state.groups_journal.check_room()
        producer = state.transactions.producers.find_owner(command.owner, now)
        transaction = state.transactions.writable(producer)
        if not command.offsets and not command.receipts:
            raise Refused(Code.REQUEST_INVALID, field="offsets", reason="is missing")
        if transaction.progress_count >= _PROGRESS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="progress", limit=_PROGRESS_MAX)
        group = state.groups.get(command.group)
        if command.receipts or not command.offsets:
            group = state.groups.find(command.group)
        if command.offsets:
            self._positions.check(group, _plain(command))
        held: dict[LogId, list[Lease]] = {}
        if group is not None and command.receipts:
            receipts = dict.fromkeys(command.receipts)
            held = self._settling.find_all(group, receipts, transaction.key, now)
        # Nothing is refused from here on.
        group = group or self._positions.form(command.group, now)
        changes = [
            *self._offsets(transaction, group, command),
            *self._leases(transaction, group, held),
        ]
        for change in changes:
            self.apply(change, now.wall)
            self._withdraw(change)
        if command.member_id is not None and group.has_member(command.member_id):
            group.hear(command.member_id, now)
        state.groups_journal.note(changes, [Answer(request=request, reply=Done())])

    def _offsets(
        self, transaction: Transaction, group: Group, command: AddOffsets
    ) -> list[ProgressAdded]:
        return [
            ProgressAdded(
                producer=transaction.producer,
                number=transaction.number,
                group=group.number,
                topic=self._state.catalog.find(log.topic).number,
                partition=log.partition,
                floor=offset,
            )
            for log, offset in command.offsets.items()
        ]

    def _leases(
        self, transaction: Transaction, group: Group, held: dict[LogId, list[Lease]]
    ) -> list[ProgressAdded]:
        changes = []
        for log, leases in held.items():
            queue = self._state.group_partitions.queue(group.number, log)
            assert queue is not None
            queue.hold(leases)
            changes.append(
                ProgressAdded(
                    producer=transaction.producer,
                    number=transaction.number,
                    group=group.number,
                    topic=self._state.catalog.find(log.topic).number,
                    partition=log.partition,
                    offsets=runs(sorted(each.offset for each in leases)),
                )
            )
        return changes

    def _withdraw(self, added: ProgressAdded) -> None:
        """What is held now and was ready is not handed out."""
        log = self._log_of(added)
        queue = None if log is None else self._state.group_partitions.queue(added.group, log)
        if queue is not None and added.floor:
            queue.hold_below(added.floor)

    # Applying: the only mutators of durable state

    def apply(self, change: TransactionChange, at: Timestamp) -> None:
        """Become what the journal says, on the live path and when it is replayed."""
        transaction = self._state.transactions.apply(change)
        if transaction is None:
            return
        if isinstance(change, ProgressAdded):
            position = self._position(change)
            if position is not None:
                below = [(int(position.floor), change.floor)]
                position.holds.add(transaction.key, [*below, *change.offsets])
            holders = self._holders.setdefault((change.group, change.topic), {})
            holders[transaction.key] = None
        elif isinstance(change, Decided):
            is_commit = transaction.outcome is not None and transaction.outcome.is_commit
            for share in _shares(transaction.progress):
                position = self._position(share)
                if position is not None:
                    position.holds.remove(transaction.key)
                    if is_commit:
                        position.settle(share.floor, share.offsets, at)
                self._let_go(share, transaction)

    def _let_go(self, share: "_Share", transaction: Transaction) -> None:
        holders = self._holders.get((share.group, share.topic))
        if holders is not None:
            holders.pop(transaction.key, None)
            if not holders:
                del self._holders[share.group, share.topic]

    def decide(self, decided: Decided, now: Now) -> None:
        """Apply a decision; queues follow it, in steps where it is about very many messages."""
        self._has_news = True
        transaction = self._state.transactions.find(decided.key)
        shares = [] if transaction is None else _shares(transaction.progress)
        self.apply(decided, now.wall)
        is_commit = Outcome(decided.outcome).is_commit
        for share in shares:
            log = self._log_of(share)
            queue = None if log is None else self._state.group_partitions.queue(share.group, log)
            if log is not None and is_commit:
                self._count(share, log)
            if log is not None and queue is not None:
                offsets = share.offsets
                if not is_commit and share.floor:
                    offsets = [*queue.held_below(share.floor), *offsets]
                self._following.append(_Following(share, log, queue, offsets, is_commit))
        self.resume(now)

    def resume(self, now: Now) -> None:
        """Let queues follow what was decided, as far as the turn allows."""
        groups: dict[int, None] = {}
        while self._following:
            left = self._state.budget.left
            if not left:
                self._state.alarms.bring_forward(Errand.PROGRESS, now.instant)
                break
            following = self._following[0]
            if self._follow(following, left, now):
                self._following.popleft()
                groups[following.share.group] = None
        for number in groups:
            group = self._state.groups.numbered(number)
            if group is not None:
                self._delivering.wake_group(group, now)

    def _follow(self, following: "_Following", count_max: int, now: Now) -> bool:
        """Settle or release so many messages in a queue; whether that was all."""
        share, log, queue = following.share, following.log, following.queue
        if self._state.group_partitions.queue(share.group, log) is not queue:
            # Another has begun since from what the position says.
            return True
        upto = following.done + count_max
        offsets = following.offsets[following.done : upto]
        self._state.budget.spend(len(offsets) + 1)
        following.done = upto
        is_last = upto >= len(following.offsets)
        if following.is_commit:
            leases = queue.ack_held(offsets)
            if is_last:
                leases += queue.settle_below(share.floor)
            group = self._state.groups.numbered(share.group)
            if group is not None:
                self._state.journeys.each_leased(Kind.ACK, group, log, leases, now)
            position = self._state.group_partitions.find(share.group, log).position
            if is_last and queue.floor > position.floor:
                self._raise_floor(share, queue.floor, now)
        else:
            queue.release_held(offsets)
        if is_last:
            self._delivering.arm(share.group, log, queue)
        return is_last

    def _count(self, share: "_Share", log: LogId) -> None:
        group = self._state.groups.numbered(share.group)
        if group is not None:
            pair = self._state.counts.pair(log.topic, group.name)
            pair.acked += len(share.offsets)
            pair.commits += share.commits

    def _raise_floor(self, share: "_Share", floor: Offset, now: Now) -> None:
        """State the floor that a queue knows: it is past what is no message."""
        change = Settled(
            group=share.group,
            topic=share.topic,
            partition=share.partition,
            floor=floor,
        )
        self._positions.apply(change, now.wall)
        self._state.groups_journal.note([change])

    def _log_of(self, progress: "ProgressAdded | _Share") -> LogId | None:
        topic = self._state.catalog.numbered(progress.topic)
        return None if topic is None else LogId(topic.name, progress.partition)

    def _position(self, progress: "ProgressAdded | _Share") -> Position | None:
        """The place that is meant; None if its topic or its group is gone."""
        log = self._log_of(progress)
        if log is None or self._state.groups.numbered(progress.group) is None:
            return None
        return self._state.group_partitions.open(progress.group, log).position

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

    # Asking where a group stands

    def describe(self, request: RequestId, command: DescribeOffsets, now: Now) -> None:
        """Answer with what is committed; if asked, not while a transaction may move it."""
        if command.is_stable and self._is_undecided(command):
            self._asking[request] = command
            deadline = Instant(now.instant + _WAIT_NS)
            self._state.alarms.set(ForRequest(request), deadline)
        else:
            self._positions.describe(request, command, now)

    def look_again(self) -> None:
        """A group or a topic is gone: nothing of it is undecided any longer."""
        self._has_news = True

    def answer_decided(self, now: Now) -> None:
        """Transactions were decided: answer those who waited for that."""
        if not self._has_news:
            return
        self._has_news = False
        for request, command in list(self._asking.items()):
            try:
                if not self._is_undecided(command):
                    self._positions.describe(request, command, now)
                    self._forget(request)
            except Refused as refused:
                # The group is gone.
                self._forget(request)
                self._state.outbox.answer(request, refused)

    def give_up(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Somebody waited long enough, or is gone. False if it is not ours."""
        if request not in self._asking:
            return False
        self._forget(request)
        if not is_gone:
            refusal = Refused(Code.LOG_BUSY, reason="a transaction holds offsets of the group")
            self._state.outbox.answer(request, refusal)
        return True

    def _forget(self, request: RequestId) -> None:
        del self._asking[request]
        self._state.alarms.set(ForRequest(request), None)

    def _is_undecided(self, command: DescribeOffsets) -> bool:
        group = self._state.groups.find(command.group)
        if command.topic is not None:
            topic = self._state.catalog.get(command.topic)
            return topic is not None and (group.number, topic.number) in self._holders
        return any(number == group.number for number, _ in self._holders)


def _plain(command: AddOffsets) -> CommitOffsets:
    """The same without a transaction: it is allowed just if this is."""
    return CommitOffsets(
        group=command.group,
        offsets=command.offsets,
        member_id=command.member_id,
        generation=command.generation,
    )


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
