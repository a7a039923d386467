"""The transaction coordinator: begin, prepare, commit, abort, group commits, timeouts.

Who waits for transactions to end, and what they are told then.

Commands about producers and transactions, and what follows from time passing.

The machine in `transactions` says what may be; here it is journaled, and answered when it holds. A
decision leaves for the journal together with the progress of groups that it settles; markers follow
when it is committed; whoever waits is answered when readers see the end.

Cost per transaction: two records in the journal that somebody waits for, one marker per partition.
"""

from collections.abc import Iterable

from goqueue.broker.outbox import WriteMarkers
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.transaction_offsets import TransactionOffsets
from goqueue.broker.turns import ForTransaction
from goqueue.model import Answer, Code, Now, Refused, RequestId, TransactionKey
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
from goqueue.transactions import (
    Decided,
    Outcome,
    Producer,
    Transaction,
    ended_state,
)

__all__ = ["TransactionCoordinator", "Waiting"]

What = Reply | BeginTransaction
_Wish = EndTransaction | PrepareTransaction


class Waiting:
    """Requests by the transactions that they wait for; each may wait for several."""

    def __init__(self) -> None:
        self._by_key: dict[TransactionKey, list[RequestId]] = {}
        self._missing: dict[RequestId, tuple[dict[TransactionKey, None], What]] = {}

    def add(self, key: TransactionKey, request: RequestId, what: What) -> None:
        self.add_all([key], request, what)

    def add_all(self, keys: Iterable[TransactionKey], request: RequestId, what: What) -> None:
        """Wait until all of these have ended; waiting for none is not waiting."""
        missing = dict.fromkeys(keys)
        if not missing:
            return
        self._missing[request] = (missing, what)
        for key in missing:
            self._by_key.setdefault(key, []).append(request)

    def take(self, key: TransactionKey) -> list[tuple[RequestId, What]]:
        """A transaction has ended: those who waited for nothing else."""
        done: list[tuple[RequestId, What]] = []
        for request in self._by_key.pop(key, ()):
            missing, what = self._missing[request]
            missing.pop(key, None)
            if not missing:
                del self._missing[request]
                done.append((request, what))
        return done


class TransactionCoordinator:
    """Takes commands about producers and transactions."""

    def __init__(self, state: NodeState, progressing: TransactionOffsets) -> None:
        self._state = state
        self._progressing = progressing
        self._waiting = Waiting()
        # Decided, but readers do not see the end everywhere yet.
        self._unfinished: dict[TransactionKey, None] = {}
        # Who waits for publications that are on their way: to commit or to prepare.
        self._wishes: dict[TransactionKey, list[tuple[RequestId, _Wish]]] = {}

    # Producers

    def init(self, request: RequestId, command: InitProducer, now: Now) -> None:
        state = self._state
        state.groups_journal.check_room()
        producers = state.transactions.producers
        stated = producers.init(command, now)
        name = command.transactional_id
        older = None if name is None else producers.named(name)
        producer = producers.apply(stated)
        producers.hear(producer, now)
        state.groups_journal.note([stated])
        # The same producer, or one whose epochs are used up.
        fenced = producer if older is None else older
        if fenced.current is not None:
            self._decide(fenced.current, Outcome.FENCED, now)
        granted = ProducerGranted(producer_id=producer.id, epoch=producer.epoch)
        self._answer_when_ended(fenced.last_key, request, granted)

    def heartbeat(self, request: RequestId, command: HeartbeatProducer, now: Now) -> None:
        self._state.transactions.producers.find(command.producer_id, command.epoch, now)
        self._state.outbox.answer(request, Done())

    # Writing

    def begin(self, request: RequestId, command: BeginTransaction, now: Now) -> None:
        state = self._state
        state.groups_journal.check_room()
        producer = state.transactions.producers.find_owner(command.owner, now)
        last = producer.last_key
        if last in self._unfinished:
            if producer.outcome is not Outcome.TIMED_OUT:
                ending = state.transactions.find(last)
                found = "preparing_commit" if ending is None else ending.state
                raise Refused(Code.TRANSACTION_STATE_INVALID, state=found)
            self._waiting.add(last, request, command)
            return
        begun = state.transactions.begin(producer, now)
        state.counts.transactions_started += 1
        transaction = state.transactions.apply(begun)
        assert transaction is not None
        state.transactions.set_deadline(transaction, now)
        self._arm(transaction)
        reply = TransactionBegan(transaction_id=transaction.id)
        state.groups_journal.note([begun], [Answer(request=request, reply=reply)])

    def add_partition(self, request: RequestId, command: AddPartition, now: Now) -> None:
        producer = self._state.transactions.producers.find_owner(command.owner, now)
        transaction = self._state.transactions.writable(producer)
        topic = self._state.catalog.find_for_writing(command.log.topic)
        self._state.partition(topic, command.log.partition)
        transaction.touches(topic.number, command.log.partition)
        self._state.outbox.answer(request, Done())

    # Ending

    def prepare(self, request: RequestId, command: PrepareTransaction, now: Now) -> None:
        self._state.groups_journal.check_room()
        producer = self._state.transactions.producers.find_owner(command.owner, now)
        current = producer.current
        if current is not None and current.is_prepared:
            self._answer_committed(request, TransactionPrepared(transaction_id=current.id))
            return
        transaction = self._state.transactions.writable(producer)
        if transaction.in_flight:
            self._wish(transaction, request, command)
        else:
            self._prepare(request, transaction, now)

    def _prepare(self, request: RequestId, transaction: Transaction, now: Now) -> None:
        state = self._state
        prepared = state.transactions.prepare(transaction, now)
        state.transactions.apply(prepared)
        state.transactions.set_deadline(transaction, now)
        self._arm(transaction)
        reply = TransactionPrepared(transaction_id=transaction.id)
        state.groups_journal.note([prepared], [Answer(request=request, reply=reply)])

    def end(self, request: RequestId, command: EndTransaction, now: Now) -> None:
        self._state.groups_journal.check_room()
        producer = self._state.transactions.producers.find_owner(command.owner, now)
        current = producer.current
        meant = command.transaction_id
        if meant is not None and meant != str(producer.last_key):
            raise Refused(Code.TRANSACTION_NOT_FOUND, transaction_id=meant[:64])
        if current is None:
            self._end_again(request, producer, is_commit=command.is_commit)
        elif not command.is_commit:
            self._decide(current, Outcome.ABORTED, now)
            self._answer_when_ended(current.key, request, TransactionEnded(is_commit=False))
        elif current.in_flight:
            self._wish(current, request, command)
        else:
            self._commit(request, current, now)

    def _wish(
        self,
        transaction: Transaction,
        request: RequestId,
        command: _Wish,
    ) -> None:
        """To be done when its messages are committed: what was decided must not be taken back."""
        transaction.is_closing = True
        self._wishes.setdefault(transaction.key, []).append((request, command))

    def go_on(self, now: Now) -> None:
        """Messages of transactions are through: end those that waited for it."""
        for transaction in self._state.transactions.take_landed():
            transaction.is_closing = False
            for request, wish in self._wishes.pop(transaction.key, ()):
                if isinstance(wish, PrepareTransaction):
                    self._prepare(request, transaction, now)
                else:
                    self._commit(request, transaction, now)

    def _commit(self, request: RequestId, transaction: Transaction, now: Now) -> None:
        if transaction.outcome is None:
            self._decide(transaction, Outcome.COMMITTED, now)
        self._answer_when_ended(transaction.key, request, TransactionEnded(is_commit=True))

    def _end_again(self, request: RequestId, producer: Producer, *, is_commit: bool) -> None:
        """Nothing is open: the same as before is answered, anything else is refused."""
        outcome = producer.outcome
        if outcome is None or producer.ended_epoch != producer.epoch:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state="none")
        if is_commit and outcome is Outcome.TIMED_OUT:
            raise Refused(Code.TRANSACTION_TIMEOUT, transaction_id=str(producer.last_key))
        if is_commit != outcome.is_commit:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state=ended_state(outcome))
        reply = TransactionEnded(is_commit=is_commit)
        self._answer_when_ended(producer.last_key, request, reply)

    def _decide(self, transaction: Transaction, outcome: Outcome, now: Now) -> None:
        decided = self._state.transactions.decide(transaction, outcome)
        self._note_decision(decided, now)
        self._state.alarms.set(ForTransaction(transaction.key), None)
        for request, _ in self._wishes.pop(transaction.key, ()):
            self._state.refuse(request, _refusal(outcome, transaction))
        took = now.instant - transaction.began_instant
        self._state.tally.end_transaction(took, is_commit=outcome.is_commit)
        self._state.counts.transaction_latency.observe(took)

    def _note_decision(self, decided: Decided, now: Now) -> None:
        self._unfinished[decided.key] = None
        self._state.groups_journal.note([decided], [WriteMarkers(decided.key)])
        self._progressing.decide(decided, now)

    # Groups of transactions

    def commit_group(self, request: RequestId, command: CommitGroup, now: Now) -> None:
        state = self._state
        state.groups_journal.check_room()
        named = dict.fromkeys(command.transaction_ids)
        if state.transactions.has_key(command.key):
            self._abort_newcomers(command, now)
            keys = [key for key in self._unfinished if str(key) in named]
            self._answer_when_all_ended(keys, request, GroupCommitted(is_repeat=True))
            return
        members = state.transactions.check_group(command.key, command.transaction_ids)
        kept = state.transactions.keep(command.key, now)
        state.transactions.apply(kept)
        state.groups_journal.note([kept])
        for each in members:
            self._decide(each, Outcome.COMMITTED, now)
        keys = [each.key for each in members]
        self._answer_when_all_ended(keys, request, GroupCommitted(is_repeat=False))

    def _abort_newcomers(self, command: CommitGroup, now: Now) -> None:
        for identity in dict.fromkeys(command.transaction_ids):
            try:
                newcomer = self._state.transactions.find_prepared(identity)
            except Refused:
                # One of those that were committed under the key, or long gone.
                continue
            self._decide(newcomer, Outcome.ABORTED, now)

    # Answering

    def _answer_when_ended(self, key: TransactionKey, request: RequestId, reply: Reply) -> None:
        """Answer when readers see the end of a transaction, at once if they do."""
        self._answer_when_all_ended([key], request, reply)

    def _answer_when_all_ended(
        self, keys: list[TransactionKey], request: RequestId, reply: Reply
    ) -> None:
        unfinished = [key for key in keys if key in self._unfinished]
        if unfinished:
            self._waiting.add_all(unfinished, request, reply)
        else:
            self._answer_committed(request, reply)

    def _answer_committed(self, request: RequestId, reply: Reply) -> None:
        """Answer when all that was noted so far is committed."""
        self._state.groups_journal.note([], [Answer(request=request, reply=reply)])

    def completed(self, transaction: Transaction, now: Now) -> None:
        """Readers see the end of a transaction everywhere."""
        self._unfinished.pop(transaction.key, None)
        for request, what in self._waiting.take(transaction.key):
            if isinstance(what, BeginTransaction):
                try:
                    self.begin(request, what, now)
                except Refused as refused:
                    self._state.outbox.answer(request, refused)
            elif isinstance(what, TransactionEnded | GroupCommitted):
                # The decision, and all that was noted before it, was committed before its markers.
                self._state.outbox.answer(request, what)
            else:
                self._answer_committed(request, what)

    # Time

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

    # A life begins

    def recollect(self, now: Now) -> None:
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
            for producer, at in partition.log.authors.heard:
                state.transactions.producers.recall(producer, at)
            for key in partition.log.authors.open:
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
            if self._progressing.is_lost(transaction):
                aborted = state.transactions.decide(transaction, Outcome.ABORTED)
                self._note_decision(aborted, now)

    def begin_serving(self, now: Now) -> list[TransactionKey]:
        """Deadlines run again; the decided ones whose markers may be missing are returned."""
        transactions = self._state.transactions
        transactions.begin_life(now)
        for transaction in transactions.open:
            transactions.set_deadline(transaction, now)
            self._arm(transaction)
        finishing = [each.key for each in transactions.finishing]
        self._unfinished.update(dict.fromkeys(finishing))
        return finishing


def _refusal(outcome: Outcome, transaction: Transaction) -> Refused:
    """Why a commit that waited for its messages did not happen."""
    if outcome is Outcome.TIMED_OUT:
        return Refused(Code.TRANSACTION_TIMEOUT, transaction_id=transaction.id)
    if outcome is Outcome.FENCED:
        return Refused(Code.PRODUCER_FENCED, epoch=transaction.epoch)
    return Refused(Code.TRANSACTION_STATE_INVALID, state=ended_state(outcome))
