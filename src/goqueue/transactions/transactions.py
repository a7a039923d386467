"""The machine of transactions: which are open, what was decided, which keys are used.

Decides changes and applies them; the broker journals them, appends markers and settles what groups
have done. Never touches a log.

Invariants
- A producer has at most one transaction that is not decided.
- What was decided is never decided again, whatever is asked, and over any crash.
- The number of a transaction is above those of all earlier ones of its producer.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from goqueue.model import HOUR, SECOND, Code, Instant, Now, Refused, Timestamp, TransactionKey
from goqueue.model.requests import ProducerStamp, TransactionState
from goqueue.transactions.changes import (
    Begun,
    Decided,
    Ended,
    KeyKept,
    ParticipantsAdded,
    Prepared,
    ProducerStated,
    ProgressAdded,
    TenantForgotten,
    TransactionChange,
)
from goqueue.transactions.producers import Producer, Producers
from goqueue.transactions.transaction import (
    Admission,
    Outcome,
    Transaction,
    ended_state,
)

__all__ = ["SILENCE_NS", "Transactions"]

SILENCE_NS = 30 * SECOND
_PREPARED_NS = HOUR
_OPEN_MAX = 100_000
_KEYS_MAX = 1_000_000
# One tenant other than `default` has at most one of so many shares of them.
_SHARES = 10
_DEFAULT_TENANT = "default"
_KEY_NS = 7 * 24 * HOUR
KEY_CHARACTERS_MAX = 249
# So many ids, partitions and places of groups fit into one record of the journal, which must not be
# split.
_DECISIONS_MAX = 20_000
_PARTICIPANTS_MAX = 10_000


class Transactions:
    """Producers, their transactions, and the keys of group commits."""

    def __init__(self) -> None:
        self.producers = Producers()
        # Not decided, and decided but not ended, by producer and number.
        self._open: dict[TransactionKey, Transaction] = {}
        self._finishing: dict[TransactionKey, Transaction] = {}
        self._keys: dict[tuple[str, str], int] = {}
        # Those of each tenant but `default`.
        self._keys_of: dict[str, dict[str, None]] = {}
        # Those that waited for their publications, and need not any longer.
        # Those that were to end when their publications are through, and now may.
        self.closable: list[Transaction] = []

    # Asking

    @property
    def open(self) -> Iterator[Transaction]:
        """Those that are not decided, in the order of their begin."""
        return iter(list(self._open.values()))

    @property
    def finishing(self) -> Iterator[Transaction]:
        """Those whose markers are not all durable."""
        return iter(list(self._finishing.values()))

    @property
    def holding(self) -> Iterator[Transaction]:
        """Those that are not decided and hold the progress of groups."""
        return (each for each in self._open.values() if each.progress_count)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def find(self, key: TransactionKey) -> Transaction | None:
        """A transaction that has not ended."""
        return self._open.get(key) or self._finishing.get(key)

    def find_named(self, identity: str) -> tuple[Producer, Transaction | None]:
        """The producer whose transaction this is, and the transaction unless it has ended.

        Of those that have ended only the last of each producer is known.
        """
        key = _parse(identity)
        producer = self.producers.get(key.producer)
        found = self.find(key)
        if producer is None or (found is None and producer.last != key.number):
            raise Refused(Code.TRANSACTION_NOT_FOUND, transaction_id=identity[:64])
        return producer, found

    def producer_of(self, identity: str) -> int | None:
        """The producer whose transaction this is; None if it cannot be one."""
        try:
            return _parse(identity).producer
        except Refused:
            return None

    def find_prepared(self, identity: str) -> Transaction:
        """The transaction of this id, which waits for the decision of a group."""
        key = _parse(identity)
        found = self._open.get(key)
        if found is not None and found.is_prepared:
            return found
        if found is not None:
            raise Refused(
                Code.TRANSACTION_STATE_INVALID,
                transaction_id=identity,
                state=found.state,
                reason="it is not prepared",
            )
        finishing = self._finishing.get(key)
        known = self.producers.get(key.producer)
        if finishing is not None:
            state: TransactionState = finishing.state
        elif known is not None and known.last == key.number and known.outcome is not None:
            state = ended_state(known.outcome)
        else:
            raise Refused(Code.TRANSACTION_NOT_FOUND, transaction_id=identity)
        raise Refused(Code.TRANSACTION_STATE_INVALID, transaction_id=identity, state=state)

    def has_key(self, key: str, tenant: str = "default") -> bool:
        return (tenant, key) in self._keys

    # Deciding

    def begin(self, producer: Producer, now: Now) -> Begun:
        """The next transaction of a producer that has none."""
        if producer.current is not None:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state=producer.current.state)
        if len(self._open) >= _OPEN_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="transactions", limit=_OPEN_MAX)
        return Begun(producer=producer.id, number=producer.last + 1, at=now.wall)

    def writable(self, producer: Producer) -> Transaction:
        """The open transaction of a producer, if it takes more."""
        current = producer.current
        if current is None:
            outcome = producer.outcome
            state = "none" if outcome is None else ended_state(outcome)
            raise Refused(Code.TRANSACTION_STATE_INVALID, state=state)
        if current.is_prepared or current.is_closing:
            reason = "it is prepared" if current.is_prepared else "it is ending"
            raise Refused(Code.TRANSACTION_STATE_INVALID, state=current.state, reason=reason)
        return current

    # Publishing

    def admit(self, stamp: ProducerStamp, now: Now) -> Admission:
        """Refuse a zombie, and whoever has no transaction to write to."""
        producer = self.producers.find(stamp.producer_id, stamp.epoch, now)
        if stamp.sequence is not None and stamp.sequence < 0:
            raise Refused(Code.REQUEST_INVALID, field="sequence", minimum=0)
        is_named = producer.transactional_id is not None
        transaction = self.writable(producer) if is_named else None
        return Admission(producer.id, stamp.epoch, stamp.sequence, transaction)

    def publication_ended(self, key: TransactionKey) -> None:
        """A publication of a transaction is committed, or was refused: its caller knows."""
        transaction = self.find(key)
        if transaction is not None:
            transaction.in_flight -= 1
            if not transaction.in_flight and transaction.is_closing:
                self.closable.append(transaction)

    def take_closable(self) -> list[Transaction]:
        """What is in `closable`, which is empty then."""
        taken = self.closable.copy()
        self.closable.clear()
        return taken

    def add_participants(
        self, transaction: Transaction, partitions: Iterable[tuple[int, int]]
    ) -> ParticipantsAdded | None:
        """Partitions that an open transaction may write to; None if they are known."""
        new = [each for each in partitions if each not in transaction.participants]
        if not new:
            return None
        if len(transaction.participants) + len(new) > _PARTICIPANTS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="participants", limit=_PARTICIPANTS_MAX)
        key = transaction.key
        return ParticipantsAdded(producer=key.producer, number=key.number, partitions=new)

    def prepare(self, transaction: Transaction, now: Now) -> Prepared:
        return Prepared(
            producer=transaction.producer,
            number=transaction.number,
            until=now.wall + _PREPARED_NS,
        )

    def decide(self, transaction: Transaction, outcome: Outcome) -> Decided:
        """What becomes of a transaction; a newer epoch of its producer goes into the markers."""
        producer = self.producers.get(transaction.producer)
        epoch = transaction.epoch if producer is None else max(transaction.epoch, producer.epoch)
        return Decided(
            producer=transaction.producer,
            number=transaction.number,
            epoch=epoch,
            outcome=outcome,
            partitions=list(transaction.partitions),
            began_at=transaction.began_at,
        )

    def outcome_of(self, key: TransactionKey) -> Outcome:
        """How a transaction ended that is neither open nor being ended.

        In a cluster a decision is forgotten only when all have its marker: what is not known was
        never decided.
        """
        known = self.producers.get(key.producer)
        if known is not None and key.number == known.last and known.outcome is not None:
            return known.outcome
        return Outcome.ORPHANED

    def judge(self, key: TransactionKey, *, is_damaged: bool) -> Outcome:
        """What becomes of a transaction that a log holds open and the journal does not know.

        One that was followed by others had ended, and its marker is lost: readers were shown most
        such, so it counts. Where nothing is damaged, nothing was lost.
        """
        outcome = self.outcome_of(key)
        known = self.producers.get(key.producer)
        was_decided = is_damaged if known is None else key.number < known.last
        return Outcome.COMMITTED if was_decided else outcome

    def check_group(self, key: str, identities: Iterable[str]) -> list[Transaction]:
        """The transactions of a group commit, each once; refuses a key that cannot be one."""
        if not 1 <= len(key) <= KEY_CHARACTERS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="key", minimum=1, maximum=KEY_CHARACTERS_MAX)
        found = [self.find_prepared(each) for each in dict.fromkeys(identities)]
        size = sum(1 + len(each.partitions) + each.progress_count for each in found)
        if size > _DECISIONS_MAX:
            raise Refused(Code.REQUEST_INVALID, field="transaction_ids", reason="too many at once")
        return found

    def keep(self, key: str, now: Now, tenant: str = "default") -> KeyKept:
        self.forget_keys(now, 2)
        if len(self._keys) >= _KEYS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="keys", limit=_KEYS_MAX)
        share = _KEYS_MAX // _SHARES
        if len(self._keys_of.get(tenant, ())) >= share:
            raise Refused(Code.QUOTA_EXCEEDED, quota="keys", limit=share)
        return KeyKept(key=key, at=self.producers.steady(now), tenant=tenant)

    def forget_keys(self, now: Now, count_max: int) -> int:
        """Forget some of the keys that are over, the oldest first: how many.

        Nothing is journaled: after a crash they are there again, and old.
        """
        over: list[tuple[str, str]] = []
        for key, at in islice(self._keys.items(), count_max):
            if self.producers.steady(now) - at <= _KEY_NS:
                break
            over.append(key)
        for key in over:
            self._forget_key(*key)
        return len(over)

    def _keep_key(self, tenant: str, key: str, at: int) -> None:
        self._keys[tenant, key] = at
        if tenant != _DEFAULT_TENANT:
            self._keys_of.setdefault(tenant, {})[key] = None

    def _forget_key(self, tenant: str, key: str) -> None:
        del self._keys[tenant, key]
        own = self._keys_of.get(tenant)
        if own is not None:
            del own[key]
            if not own:
                del self._keys_of[tenant]

    def forget_some_of(self, tenant: str, count_max: int) -> bool:
        """Forget some of what a tenant has that is deleted; whether nothing is left.

        A producer whose transaction has not ended stays until then. What is forgotten here is
        there again after a crash, unless `TenantForgotten` was journaled.
        """
        for producer in self.producers.of_tenant(tenant, count_max):
            if self.find(producer.last_key) is None:
                self.producers.drop(producer)
        for key in list(islice(self._keys_of.get(tenant, ()), count_max)):
            self._forget_key(tenant, key)
        return not (self._keys_of.get(tenant) or self.producers.of_tenant(tenant, 1))

    def _forget_tenant(self, tenant: str) -> None:
        for key in list(self._keys_of.get(tenant, ())):
            self._forget_key(tenant, key)
        for producer in self.producers.of_tenant(tenant, len(self.producers)):
            self.producers.drop(producer)

    # Applying

    def apply(self, change: TransactionChange) -> Transaction | None:
        """The only mutator of what is durable: the transaction that was meant, if it is known."""
        match change:
            case ProducerStated():
                self.producers.apply(change)
                return None
            case KeyKept():
                self._keep_key(change.tenant, change.key, change.at)
                return None
            case TenantForgotten():
                self._forget_tenant(change.tenant)
                return None
            case Begun():
                return self._begun(change)
            case _:
                return self._changed(change)

    def _begun(self, change: Begun) -> Transaction | None:
        producer = self.producers.get(change.producer)
        if producer is None or change.number <= producer.last:
            # Said again behind a statement of everything.
            return self._open.get(change.key)
        begun = Transaction(change.key, producer.epoch, change.at)
        producer.last = change.number
        producer.began_at = change.at
        producer.outcome = None
        producer.current = begun
        self._open[begun.key] = begun
        return begun

    def _changed(
        self, change: ParticipantsAdded | ProgressAdded | Prepared | Decided | Ended
    ) -> Transaction | None:
        key = change.key
        if isinstance(change, Ended):
            return self._finishing.pop(key, None)
        transaction = self._open.get(key)
        match change:
            case ParticipantsAdded():
                if transaction is not None:
                    transaction.add_participants(change.partitions)
            case ProgressAdded():
                if transaction is not None:
                    transaction.add_progress(change)
            case Prepared():
                if transaction is not None:
                    transaction.is_prepared = True
                    transaction.prepared_until = Timestamp(change.until)
            case Decided():
                transaction = self._decided(change)
        return transaction

    def _decided(self, change: Decided) -> Transaction:
        key = change.key
        transaction = self._open.pop(key, None)
        if transaction is None:
            # Stated again, or one that is the broker's own.
            transaction = Transaction(key, change.epoch, change.began_at)
        begun_epoch = transaction.epoch
        transaction.outcome = Outcome(change.outcome)
        transaction.epoch = change.epoch
        for topic, partition in change.partitions:
            transaction.touches(topic, partition)
        self._finishing[key] = transaction
        producer = self.producers.get(change.producer)
        if producer is not None:
            if producer.current is transaction:
                producer.current = None
            is_known = change.number == producer.last and producer.outcome is not None
            if change.number >= producer.last and not is_known:
                # Above: its begin was never committed, but a log had something of it.
                producer.last = change.number
                producer.outcome = transaction.outcome
                producer.ended_epoch = begun_epoch
        return transaction

    # Time

    def begin_life(self, now: Now) -> None:
        """A life of the node begins, at most an hour after the last thing that is known.

        So neither a long stop nor a clock that was put forward forgets a key or a producer. Stamps
        of logs do not count for that: they are of the clock that somebody may have put.
        """
        newest = max((each.heard_wall for each in self.producers), default=0)
        if self._keys:
            newest = max(newest, next(reversed(self._keys.values())))
        wall = min(now.wall, newest + HOUR) if newest else now.wall
        self.producers.begin_life(Now(now.instant, Timestamp(wall)))

    def deadline_of(self, transaction: Transaction) -> Instant:
        """When a transaction is aborted unless something is heard; to be asked again then."""
        producer = self.producers.get(transaction.producer)
        if transaction.is_prepared or producer is None:
            return transaction.deadline
        return min(transaction.deadline, Instant(producer.heard_at + SILENCE_NS))

    def set_deadline(
        self, transaction: Transaction, now: Now, *, is_other_clock: bool = False
    ) -> None:
        """Count from the wall time of the begin: an open transaction survives a restart.

        A wall clock that jumped gives it no more time than it would have had from now on. That is
        what it gets where another node's clock said when it began.
        """
        producer = self.producers.get(transaction.producer)
        if transaction.is_prepared:
            limit, until = _PREPARED_NS, int(transaction.prepared_until)
        else:
            limit = 0 if producer is None else producer.timeout_ns
            until = transaction.began_at + limit
        left = limit if is_other_clock else min(max(0, until - now.wall), limit)
        transaction.deadline = Instant(now.instant + left)
        # Not anew when it is prepared: that is a part of how long it takes.
        transaction.began_instant = transaction.began_instant or now.instant

    # Stating

    def state(self) -> Iterator[TransactionChange]:
        """All that the journal says of this; producers first, since the rest names them."""
        for changes in self.state_steps():
            yield from changes

    def state_steps(self) -> Iterator[Sequence[TransactionChange]]:
        """The same a few changes at a time, each true when it is asked for.

        A producer is told together with the begin of its open transaction: between the two it must
        not end.
        """
        for identity in [each.id for each in self.producers]:
            producer = self.producers.get(identity)
            if producer is None:
                continue
            current = producer.current
            if current is None:
                yield [producer.stated]
            else:
                yield [producer.stated, _begun(current)]
                yield from self._state_open(current)
        for key in list(self._finishing):
            finishing = self._finishing.get(key)
            if finishing is not None:
                yield [_decided(finishing)]
        for name in list(self._keys):
            at = self._keys.get(name)
            if at is not None:
                yield [KeyKept(key=name[1], at=at, tenant=name[0])]

    def _state_open(self, transaction: Transaction) -> Iterator[Sequence[TransactionChange]]:
        if transaction.participants:
            yield [
                ParticipantsAdded(
                    producer=transaction.producer,
                    number=transaction.number,
                    partitions=list(transaction.participants),
                )
            ]
        for progress in transaction.progress:
            if transaction.outcome is not None:
                return
            yield [progress]
        if transaction.outcome is None and transaction.is_prepared:
            yield [
                Prepared(
                    producer=transaction.producer,
                    number=transaction.number,
                    until=transaction.prepared_until,
                )
            ]


def _begun(transaction: Transaction) -> Begun:
    return Begun(producer=transaction.producer, number=transaction.number, at=transaction.began_at)


def _decided(transaction: Transaction) -> Decided:
    assert transaction.outcome is not None
    return Decided(
        producer=transaction.producer,
        number=transaction.number,
        epoch=transaction.epoch,
        outcome=transaction.outcome,
        partitions=list(transaction.partitions),
        began_at=transaction.began_at,
    )


def _parse(identity: str) -> TransactionKey:
    producer, _, number = identity.partition("-")
    if producer.isdecimal() and number.isdecimal() and len(identity) <= 40:
        key = TransactionKey(int(producer), int(number))
        if str(key) == identity:
            return key
    raise Refused(Code.TRANSACTION_NOT_FOUND, transaction_id=identity[:64])
