"""The transaction coordinator: producers, transactions, their decisions and markers.

The machine in `goqueue.transactions` says what may be. The coordinator journals it, writes the
markers, lets groups follow, and answers when readers see the end. It owns two helpers that nobody
else calls to change anything: `MarkerWriter` appends markers, `TransactionProgress` holds and
settles what groups did as a part of a transaction.

The order of a commit
---------------------
```text
 producer        coordinator           __groups journal      partitions          groups
    │  end()          │                       │                  │                 │
 1  │────────────────▶│ its publications are committed, or it waits for them       │
 2  │                 │─ Decided, progress ──▶│                  │                 │
    │                 │─ settle, or free what it held ───────────┼────────────────▶│
    │                 │                       │ fsync            │                 │
 3  │                 │◀─ write_markers() ────│                  │                 │
    │                 │─ one marker each ─────┼─────────────────▶│ fsync           │
 4  │                 │◀─ marker_appended() ──┼──────────────────│                 │
    │◀─── Answer ─────│ the last marker is committed: readers see the end          │
 5  │                 │◀─ log_durable() ──────┼──────────────────│                 │
    │                 │─ Ended ──────────────▶│ no crash can take a marker back:   │
    │                 │                       │ the transaction is forgotten       │
```

1. `end` waits for the publications of the transaction (`finish_turn` resumes it), so that nothing
   that was decided can be taken back by a full disk.
2. `_decide` notes the decision and the progress of groups as one record: there is no moment between
   them. Nothing else decides, but `decide_move` for the broker's own transactions.
3. The node calls `write_markers` when that record is committed, and never before.
4. `finish_turn` answers once every partition has its marker.
5. `finish_turn` journals `Ended` once every marker is durable, also where a log flushes at
   intervals.

An abort differs in 1: it waits for nothing. A crash after 2 resumes with 3 (`begin_serving`); a
crash before it leaves a transaction that is open still, or, where the journal does not know it, is
aborted (`join_logs`). Dead-letter moves and redrives begin with 2: their copies are appended as a
transaction of the broker's own (`TransactionKey.of_move`), `decide_move` settles the messages in
the same record, and `take_completed_moves` tells when readers see the copies.

Cost per transaction: two records in the journal that somebody waits for, one marker per partition.
"""

from collections.abc import Iterable, Sequence

import msgspec

from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change
from goqueue.broker.outbox import WriteMarkers
from goqueue.broker.partitions import ForMarker, Partition
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.copies import Copies
from goqueue.broker.transactions.markers import MarkerWriter
from goqueue.broker.transactions.progress import TransactionProgress
from goqueue.broker.turns import ForTransaction, take_all
from goqueue.model import (
    Answer,
    Code,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    TransactionKey,
)
from goqueue.model.requests import (
    AddPartition,
    BeginTransaction,
    CommitGroup,
    Done,
    EndTransaction,
    GroupCommitted,
    HeartbeatProducer,
    InitProducer,
    PrepareTransaction,
    ProducerGranted,
    Reply,
    TransactionBegan,
    TransactionEnded,
    TransactionPrepared,
)
from goqueue.security import Admitted, AuditSubject, FieldChange
from goqueue.transactions import (
    Decided,
    Ended,
    Outcome,
    Producer,
    Transaction,
    TransactionChange,
    ended_state,
)

__all__ = ["EndWaiters", "TransactionCoordinator"]


class _BeginLater(msgspec.Struct, frozen=True):
    """A transaction that begins when the one before has ended."""

    command: BeginTransaction
    admitted: Admitted | None


# What waits until the publications of a transaction are committed.
_Closing = EndTransaction | PrepareTransaction


class _PendingEnd(msgspec.Struct, frozen=True):
    """A command that waits for that, to go on with for the same caller."""

    request: RequestId
    command: _Closing
    admitted: Admitted | None


# What a request that waited for the end of a transaction gets then: its answer, or its turn.
_AfterEnd = Reply | _BeginLater


class EndWaiters:
    """Requests by the transactions whose end they wait for; each may wait for several."""

    def __init__(self) -> None:
        self._by_key: dict[TransactionKey, list[RequestId]] = {}
        self._missing: dict[RequestId, tuple[dict[TransactionKey, None], _AfterEnd]] = {}

    def add(self, keys: Iterable[TransactionKey], request: RequestId, then: _AfterEnd) -> None:
        """Wait until all of these have ended; waiting for none is not waiting."""
        missing = dict.fromkeys(keys)
        if not missing:
            return
        self._missing[request] = (missing, then)
        for key in missing:
            self._by_key.setdefault(key, []).append(request)

    def pop_ended(self, key: TransactionKey) -> list[tuple[RequestId, _AfterEnd]]:
        """A transaction has ended: the requests that wait for no other."""
        done: list[tuple[RequestId, _AfterEnd]] = []
        for request in self._by_key.pop(key, ()):
            missing, then = self._missing[request]
            missing.pop(key, None)
            if not missing:
                del self._missing[request]
                done.append((request, then))
        return done


class TransactionCoordinator:
    """Handles commands about producers and transactions, and carries every decision out."""

    def __init__(self, state: NodeState, polls: Polls, copies: Copies) -> None:
        self._state = state
        self.progress = TransactionProgress(state, polls)
        self._markers = MarkerWriter(state, copies)
        self._waiters = EndWaiters()
        # Decided, but readers do not see the end everywhere yet.
        self._unfinished: dict[TransactionKey, None] = {}
        # Requests that wait until the publications of a transaction are committed.
        self._closing: dict[TransactionKey, list[_PendingEnd]] = {}
        self._completed_moves: list[int] = []
        state.follow_ups += (state.transactions.closable, self._completed_moves)

    # Producers

    def init_producer(self, request: RequestId, command: InitProducer, now: Now) -> None:
        state = self._state
        state.journals.of_producers.check_room()
        producers = state.transactions.producers
        tenant = state.access.tenant
        stated = producers.init(command, now, tenant)
        name = command.transactional_id
        older = None if name is None else producers.named(name, tenant)
        producer = producers.apply(stated)
        producers.hear(producer, now)
        state.journals.of_producer(producer.id).note([stated])
        # The same producer, or one whose epochs are used up.
        fenced = producer if older is None else older
        if fenced.current is not None:
            self._decide(fenced.current, Outcome.FENCED, now)
        granted = ProducerGranted(producer_id=producer.id, epoch=producer.epoch)
        self._answer_when_ended([fenced.last_key], request, granted)

    def heartbeat(self, request: RequestId, command: HeartbeatProducer, now: Now) -> None:
        self._state.require_producer(command.producer_id)
        self._state.transactions.producers.find(command.producer_id, command.epoch, now)
        self._state.journals.answer_current(request, Done())

    # An open transaction

    def begin(self, request: RequestId, command: BeginTransaction, now: Now) -> None:
        state = self._state
        state.journals.of_producers.check_room()
        producer = state.find_owner(command.owner, now)
        last = producer.last_key
        if last in self._unfinished:
            if producer.outcome is not Outcome.TIMED_OUT:
                ending = state.transactions.find(last)
                found = "preparing_commit" if ending is None else ending.state
                raise Refused(Code.TRANSACTION_STATE_INVALID, state=found)
            later = _BeginLater(command, state.access.note_command())
            self._waiters.add([last], request, later)
            return
        begun = state.transactions.begin(producer, now)
        state.counts.transactions_started += 1
        transaction = state.transactions.apply(begun)
        assert transaction is not None
        state.transactions.set_deadline(transaction, now)
        self._arm(transaction)
        reply = TransactionBegan(transaction_id=transaction.id)
        answer = Answer(request=request, reply=reply)
        state.journals.of_producer(producer.id).note([begun], [answer])

    def add_partition(self, request: RequestId, command: AddPartition, now: Now) -> None:
        producer = self._state.find_owner(command.owner, now)
        transaction = self._state.transactions.writable(producer)
        topic = self._state.catalog.find_for_writing(command.log.topic)
        self._state.partition(topic, command.log.partition)
        transaction.touches(topic.number, command.log.partition)
        transaction.updated_at = now.wall
        self._state.outbox.answer(request, Done())

    def prepare(self, request: RequestId, command: PrepareTransaction, now: Now) -> None:
        self._state.journals.of_producers.check_room()
        producer = self._state.find_owner(command.owner, now)
        current = producer.current
        if current is not None and current.is_prepared:
            self._answer_committed(request, TransactionPrepared(transaction_id=current.id))
            return
        transaction = self._state.transactions.writable(producer)
        if transaction.in_flight:
            self._close(transaction, request, command)
        else:
            self._prepare(request, transaction, now)

    def _prepare(self, request: RequestId, transaction: Transaction, now: Now) -> None:
        state = self._state
        prepared = state.transactions.prepare(transaction, now)
        state.transactions.apply(prepared)
        transaction.updated_at = now.wall
        state.transactions.set_deadline(transaction, now)
        self._arm(transaction)
        reply = TransactionPrepared(transaction_id=transaction.id)
        answer = Answer(request=request, reply=reply)
        state.journals.of_producer(transaction.producer).note([prepared], [answer])

    # 1: the end is asked for, and waits for publications

    def end(self, request: RequestId, command: EndTransaction, now: Now) -> None:
        self._state.journals.of_producers.check_room()
        producer = self._state.find_owner(command.owner, now)
        current = producer.current
        meant = command.transaction_id
        if meant is not None and meant != str(producer.last_key):
            raise Refused(Code.TRANSACTION_NOT_FOUND, transaction_id=meant[:64])
        if current is None:
            self._end_again(request, producer, is_commit=command.is_commit)
        elif not command.is_commit:
            self._record_foreign(producer, now)
            self._decide(current, Outcome.ABORTED, now)
            self._answer_when_ended([current.key], request, TransactionEnded(is_commit=False))
        elif current.in_flight:
            self._close(current, request, command)
        else:
            self._commit(request, current, now)

    def _record_foreign(self, producer: Producer, now: Now) -> None:
        """An admin who ends the transaction of another tenant is recorded."""
        state = self._state
        if producer.tenant != state.access.tenant:
            subject = AuditSubject("transaction.abort", f"transaction:{producer.last_key}")
            tenant = FieldChange("tenant", new=producer.tenant)
            state.audit.observe(state.caller, subject, (tenant,), now)

    def _close(self, transaction: Transaction, request: RequestId, command: _Closing) -> None:
        """The transaction takes no more, and goes on when its publications are committed."""
        transaction.is_closing = True
        closing = _PendingEnd(request, command, self._state.access.note_command())
        self._closing.setdefault(transaction.key, []).append(closing)

    def _resume_closing(self, now: Now) -> None:
        for transaction in self._state.transactions.take_closable():
            transaction.is_closing = False
            for closing in self._closing.pop(transaction.key, ()):
                try:
                    with self._state.access.resuming(closing.admitted, now):
                        self._end_closing(closing, transaction, now)
                except Refused as refused:
                    # The transaction stays open, for whoever may still end it.
                    self._state.refuse(closing.request, refused)

    def _end_closing(self, closing: _PendingEnd, transaction: Transaction, now: Now) -> None:
        if isinstance(closing.command, PrepareTransaction):
            self._prepare(closing.request, transaction, now)
        else:
            self._commit(closing.request, transaction, now)

    def _commit(self, request: RequestId, transaction: Transaction, now: Now) -> None:
        if transaction.outcome is None:
            self._decide(transaction, Outcome.COMMITTED, now)
        self._answer_when_ended([transaction.key], request, TransactionEnded(is_commit=True))

    def _end_again(self, request: RequestId, producer: Producer, *, is_commit: bool) -> None:
        """Nothing is open: the same as before is answered, anything else is refused."""
        outcome = producer.outcome
        if outcome is None or producer.ended_epoch != producer.epoch:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state="none")
        if is_commit and outcome is Outcome.TIMED_OUT:
            raise Refused(Code.TRANSACTION_TIMEOUT, transaction_id=str(producer.last_key))
        if is_commit != outcome.is_commit:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state=ended_state(outcome))
        self._answer_when_ended([producer.last_key], request, TransactionEnded(is_commit=is_commit))

    def commit_group(self, request: RequestId, command: CommitGroup, now: Now) -> None:
        """Decide several prepared transactions as one record, once for each key."""
        state = self._state
        state.journals.of_producers.check_room()
        tenant = state.access.tenant
        named = dict.fromkeys(command.transaction_ids)
        for identity in named:
            state.require_transaction(identity)
        if state.transactions.has_key(command.key, tenant):
            self._abort_newcomers(command, now)
            keys = [key for key in self._unfinished if str(key) in named]
            self._answer_when_ended(keys, request, GroupCommitted(is_repeat=True))
            return
        members = state.transactions.check_group(command.key, command.transaction_ids)
        kept = state.transactions.keep(command.key, now, tenant)
        state.transactions.apply(kept)
        state.journals.of_producers.note([kept])
        for each in members:
            self._decide(each, Outcome.COMMITTED, now)
        keys = [each.key for each in members]
        self._answer_when_ended(keys, request, GroupCommitted(is_repeat=False))

    def _abort_newcomers(self, command: CommitGroup, now: Now) -> None:
        for identity in dict.fromkeys(command.transaction_ids):
            try:
                newcomer = self._state.transactions.find_prepared(identity)
            except Refused:
                # One of those that were committed under the key, or long gone.
                continue
            self._decide(newcomer, Outcome.ABORTED, now)

    def forget_some_of(self, tenant: str, count_max: int, now: Now) -> bool:
        """A tenant is deleted: end its transactions, forget its producers and keys, some at a time.

        Whether nothing of them is left.
        """
        transactions = self._state.transactions
        for producer in transactions.producers.of_tenant(tenant, count_max):
            if producer.current is not None:
                self._decide(producer.current, Outcome.ABORTED, now)
        is_empty = transactions.forget_some_of(tenant, count_max)
        if is_empty:
            self._state.tally.disown_transactions(tenant)
        return is_empty

    def expire(self, key: TransactionKey, now: Now) -> None:
        """Abort a transaction that ran too long, or whose producer is silent."""
        transaction = self._state.transactions.find(key)
        if transaction is None or transaction.outcome is not None:
            return
        if self._state.transactions.deadline_of(transaction) > now.instant:
            self._arm(transaction)
        else:
            self._decide(transaction, Outcome.TIMED_OUT, now)

    def _arm(self, transaction: Transaction) -> None:
        deadline = self._state.transactions.deadline_of(transaction)
        self._state.alarms.set(ForTransaction(transaction.key), deadline)

    # 2: the decision

    def _decide(self, transaction: Transaction, outcome: Outcome, now: Now) -> None:
        self._note_decision(self._state.transactions.decide(transaction, outcome), now)
        transaction.updated_at = now.wall
        self._state.alarms.set(ForTransaction(transaction.key), None)
        for closing in self._closing.pop(transaction.key, ()):
            self._state.refuse(closing.request, _refusal(outcome, transaction))
        took = now.instant - transaction.began_instant
        producer = self._state.transactions.producers.get(transaction.producer)
        tenant = "default" if producer is None else producer.tenant
        self._state.tally.end_transaction(tenant, took, is_commit=outcome.is_commit)
        self._state.counts.transaction_latency.observe(took)

    def _note_decision(self, decided: Decided, now: Now) -> None:
        self._unfinished[decided.key] = None
        journal = self._state.journals.of_producer(decided.producer)
        journal.note([decided], [WriteMarkers(decided.key)])
        self.progress.follow(decided, now)

    def decide_move(
        self,
        move: int,
        outcome: Outcome,
        target: tuple[int, int],
        journal: Journal[Change],
        changes: Sequence[Change],
    ) -> None:
        """Decide a transaction of the broker's own: its copies count, or never do.

        `target` is the topic's number and the partition that holds the copies. What else the move
        changes stands in the same record, and says whose `journal` that is.
        """
        key = TransactionKey.of_move(move)
        decided = Decided(
            producer=key.producer, number=key.number, epoch=0, outcome=outcome, partitions=[target]
        )
        self._state.transactions.apply(decided)
        self._state.open_moves.pop(move, None)
        journal.note([decided, *changes], [WriteMarkers(key)])

    def abort_move(self, move: int, journal: Journal[Change]) -> None:
        """Where others lead it is not known whether copies are there: they never count."""
        place = self._state.open_moves.get(move)
        if place is not None:
            self.decide_move(move, Outcome.ABORTED, place, journal, [])

    def apply(self, change: TransactionChange, at: Timestamp) -> None:
        """Become what the journal says, when it is replayed."""
        self.progress.apply(change, at)

    # 3 to 5: the markers

    def write_markers(self, key: TransactionKey, now: Now) -> None:
        """The decision is committed: tell every partition."""
        self._markers.begin(key, now)

    def marker_appended(
        self, purpose: ForMarker, upto: Offset, refused: Code | None, now: Now
    ) -> None:
        """A marker is committed, or was taken back by the disk."""
        self._markers.marked(purpose, upto, refused, now)

    def log_durable(self, partition: Partition) -> None:
        """More of a log is durable."""
        self._markers.durable(partition)

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The logs are gone, and with them the markers that they had to get."""
        self._markers.forget_logs(logs)

    def resume_markers(self, now: Now) -> None:
        """Continue where there was no time, and try again where there was no space."""
        self._markers.resume(now)

    def finish_turn(self, now: Now) -> None:
        """Take the steps that this turn made possible, of every transaction."""
        self._resume_closing(now)
        for transaction in self._markers.take_durable():
            ended = Ended(producer=transaction.producer, number=transaction.number)
            self._state.transactions.apply(ended)
            self._state.journals.of_producer(transaction.producer).note([ended])
        for transaction in self._markers.take_completed():
            self._complete(transaction, now)

    def _complete(self, transaction: Transaction, now: Now) -> None:
        """Readers see the end of a transaction everywhere: answer who waited for that."""
        self._unfinished.pop(transaction.key, None)
        if transaction.key.is_internal:
            self._completed_moves.append(transaction.key.move)
        for request, then in self._waiters.pop_ended(transaction.key):
            if isinstance(then, _BeginLater):
                try:
                    with self._state.access.resuming(then.admitted, now):
                        self.begin(request, then.command, now)
                except Refused as refused:
                    self._state.outbox.answer(request, refused)
            elif isinstance(then, TransactionEnded | GroupCommitted):
                # The decision, and all that was noted before it, was committed before its markers.
                self._state.outbox.answer(request, then)
            else:
                self._answer_committed(request, then)

    def take_completed_moves(self) -> list[int]:
        """The broker's own moves that readers see as ended since the last call."""
        return take_all(self._completed_moves)

    def _answer_when_ended(
        self, keys: list[TransactionKey], request: RequestId, reply: Reply
    ) -> None:
        """Answer when readers see the end of these transactions, at once if they do."""
        unfinished = [key for key in keys if key in self._unfinished]
        if unfinished:
            self._waiters.add(unfinished, request, reply)
        else:
            self._answer_committed(request, reply)

    def _answer_committed(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that was noted of producers so far is committed."""
        journals = self._state.journals
        journals.answer(request, reply, [journals.of_producers])

    # A partition of a cluster asks

    def add_participants(
        self, transaction: Transaction, places: Iterable[tuple[int, int]]
    ) -> Journal[Change] | None:
        """Let a transaction write to partitions that others may lead; None if it may already.

        What it writes comes after the commit of the journal that is returned.
        """
        added = self._state.transactions.add_participants(transaction, places)
        if added is None:
            return None
        self._state.transactions.apply(added)
        journal = self._state.journals.of_producer(transaction.producer)
        journal.note([added])
        return journal

    def end_reported(self, key: TransactionKey, log: LogId, topic: int, now: Now) -> None:
        """A partition has a transaction open: see that it ends there.

        What is not known was never decided, or its marker was lost: it is aborted, by a decision.
        """
        state = self._state
        known = state.transactions.find(key)
        place = (topic, log.partition)
        if known is None:
            if key.is_internal and key.move in state.open_moves:
                return
            orphan = Decided(
                producer=key.producer,
                number=key.number,
                epoch=0,
                outcome=state.transactions.outcome_of(key),
                partitions=[place],
            )
            self._note_decision(orphan, now)
        elif known.outcome is None:
            self.add_participants(known, [place])
        else:
            known.touches(*place)
            self._markers.repeat(key, log, now)

    # A life begins

    def join_logs(self, now: Now) -> None:
        """Join what the logs say of open transactions to what the journal says.

        The journal knows every transaction that may still commit; one that it does not know was
        never decided, or is the broker's own and was cut short, or has lost its marker to damage.
        """
        state = self._state
        orphans: dict[TransactionKey, list[tuple[int, int]]] = {}
        damaged: dict[TransactionKey, None] = {}
        for partition in state.partitions:
            topic = state.catalog.get(partition.log_id.topic)
            if topic is None:
                continue
            place = (topic.number, partition.log_id.partition)
            for producer, at in partition.log.producers.heard:
                state.transactions.producers.recall(producer, at)
            for key in partition.log.producers.open:
                transaction = state.transactions.find(key)
                if transaction is None:
                    orphans.setdefault(key, []).append(place)
                    if partition.log.damaged:
                        damaged[key] = None
                else:
                    transaction.touches(*place)
        for key, places in orphans.items():
            orphan = Decided(
                producer=key.producer,
                number=key.number,
                epoch=0,
                outcome=state.transactions.judge(key, is_damaged=key in damaged),
                partitions=places,
            )
            self._note_decision(orphan, now)
            if key.is_internal:
                state.next_move = max(state.next_move, key.move + 1)
        for transaction in state.transactions.open:
            if self.progress.is_lost(transaction):
                aborted = state.transactions.decide(transaction, Outcome.ABORTED)
                self._note_decision(aborted, now)

    def begin_serving(self, now: Now) -> None:
        """Deadlines run again, and what was decided gets the markers that may be missing."""
        transactions = self._state.transactions
        transactions.begin_life(now)
        is_other_clock = self._state.journals.are_replicated
        for transaction in transactions.open:
            transactions.set_deadline(transaction, now, is_other_clock=is_other_clock)
            self._arm(transaction)
        finishing = [each.key for each in transactions.finishing]
        self._unfinished.update(dict.fromkeys(finishing))
        for key in finishing:
            self.write_markers(key, now)


def _refusal(outcome: Outcome, transaction: Transaction) -> Refused:
    """Why a commit that waited for its messages did not happen."""
    if outcome is Outcome.TIMED_OUT:
        return Refused(Code.TRANSACTION_TIMEOUT, transaction_id=transaction.id)
    if outcome is Outcome.FENCED:
        return Refused(Code.PRODUCER_FENCED, epoch=transaction.epoch)
    return Refused(Code.TRANSACTION_STATE_INVALID, state=ended_state(outcome))
