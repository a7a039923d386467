"""The producers of the node: ids that are never given twice, epochs, and who is still there.

Decides who may speak for a producer. Invariant: of two holders of one transactional id only the one
with the newest epoch is ever heard.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from goqueue.model import (
    HOUR,
    SECOND,
    Code,
    Instant,
    Now,
    Refused,
    TransactionKey,
    check_name,
    is_internal,
)
from goqueue.model.requests import InitProducer, Owner
from goqueue.transactions.changes import ProducerStated
from goqueue.transactions.transaction import Outcome, Transaction

__all__ = ["Producer", "Producers"]

_EPOCH_MAX = 32_767
_TIMEOUT_NS_MIN = SECOND
_TIMEOUT_NS_MAX = 900 * SECOND
_PRODUCERS_MAX = 200_000
# When there are so many, the one that was silent longest gives way to a new one: without a
# transactional id at once, since no more than its retries depend on it; with one after a week.
_IDLE_NAMED_NS = 7 * 24 * HOUR
# How many that hold a transaction are passed over in the search for one that may go.
_PASSED_MAX = 16
# Of the producers of a node, one tenant other than this has at most one of so many shares.
_DEFAULT_TENANT = "default"
_SHARES = 10


class Producer:
    """One producer; `current` is its open transaction, `outcome` how the last one ended."""

    __slots__ = (
        "began_at",
        "current",
        "ended_epoch",
        "epoch",
        "heard_at",
        "heard_wall",
        "id",
        "last",
        "outcome",
        "seen_wall",
        "tenant",
        "timeout_ns",
        "transactional_id",
    )

    def __init__(self, stated: ProducerStated) -> None:
        self.id = stated.producer
        self.tenant = stated.tenant
        # In this life, and by the clock that nobody puts, which survives it.
        self.heard_at = Instant(0)
        self.heard_wall = 0
        # The newest of its batches that a log has, in wall time as it was then.
        self.seen_wall = 0
        self.current: Transaction | None = None
        self.last = 0
        self.began_at = 0
        self.outcome: Outcome | None = None
        self.ended_epoch = 0
        self.restate(stated)

    @property
    def last_key(self) -> TransactionKey:
        """Its newest transaction, be it open or ended."""
        return TransactionKey(self.id, self.last)

    def restate(self, stated: ProducerStated) -> None:
        self.epoch = stated.epoch
        self.transactional_id = stated.transactional_id
        self.timeout_ns = stated.timeout_ns
        self.heard_wall = max(self.heard_wall, stated.heard_at)
        # Of the same transaction a statement knows more than a decision without its begin.
        is_fuller = stated.last == self.last and bool(stated.outcome) and self.current is None
        if stated.last > self.last or is_fuller:
            self.last = stated.last
            self.began_at = stated.began_at
            self.outcome = Outcome(stated.outcome) if stated.outcome else None
            self.ended_epoch = stated.ended_epoch

    @property
    def stated(self) -> ProducerStated:
        """All of it, but for an open transaction: that is stated by itself."""
        is_open = self.current is not None
        return ProducerStated(
            producer=self.id,
            epoch=self.epoch,
            transactional_id=self.transactional_id,
            timeout_ns=self.timeout_ns,
            last=self.last - 1 if is_open else self.last,
            outcome="" if self.outcome is None or is_open else self.outcome,
            began_at=0 if is_open else self.began_at,
            ended_epoch=self.ended_epoch,
            heard_at=self.heard_wall,
            tenant=self.tenant,
        )

    @property
    def name(self) -> tuple[str, str] | None:
        """Its transactional id and the tenant whose id that is: nobody else's is meant by it."""
        name = self.transactional_id
        return None if name is None else (self.tenant, name)

    @property
    def active_at(self) -> int:
        """When it last did something, as far as is known."""
        return max(self.heard_wall, self.seen_wall)

    def check_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise Refused(Code.PRODUCER_FENCED, epoch=epoch, current=self.epoch)
        if epoch > self.epoch:
            raise Refused(
                Code.REQUEST_INVALID, field="epoch", reason="is not an epoch of this producer"
            )


class _IdleOrder:
    """Ids without and with a transactional id, the one that was silent longest first."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[bool, dict[int, None]] = {False: {}, True: {}}

    def __len__(self) -> int:
        return len(self._ids[False]) + len(self._ids[True])

    def move_last(self, producer: Producer) -> None:
        self.remove(producer)
        self._ids[producer.transactional_id is not None][producer.id] = None

    def remove(self, producer: Producer) -> None:
        self._ids[producer.transactional_id is not None].pop(producer.id, None)

    def sort(self, active_at: Callable[[int], int]) -> None:
        for is_named, ids in self._ids.items():
            self._ids[is_named] = dict.fromkeys(sorted(ids, key=active_at))

    def first(self, count: int, *, is_named: bool) -> list[int]:
        return list(islice(self._ids[is_named], count))


class Producers:
    """Producers by id and by transactional id."""

    def __init__(self, limit: int = _PRODUCERS_MAX) -> None:
        self._limit = limit
        self._producers: dict[int, Producer] = {}
        self._named: dict[tuple[str, str], Producer] = {}
        self._idle = _IdleOrder()
        # Of each tenant but `default`.
        self._idle_of: dict[str, _IdleOrder] = {}
        # A clock that nobody puts: wall time as it was when this life began, and how long that is.
        self._life: Now | None = None
        self._next_id = 1

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def next_id(self) -> int:
        return self._next_id

    def reserve(self, upto: int) -> None:
        """Ids below were given before; none of them is given again."""
        self._next_id = max(self._next_id, upto)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def named(self, transactional_id: str, tenant: str = "default") -> Producer | None:
        return self._named.get((tenant, transactional_id))

    def of_tenant(self, tenant: str, count_max: int) -> list[Producer]:
        """Some of the producers of a tenant that is not `default`."""
        own = self._idle_of.get(tenant)
        if own is None:
            return []
        ids = own.first(count_max, is_named=False)
        ids += own.first(count_max - len(ids), is_named=True)
        return [self._producers[each] for each in ids]

    # Deciding

    def find(self, producer_id: int, epoch: int, now: Now) -> Producer:
        """The producer, if its newest epoch asks; that counts as a sign of life."""
        producer = self._producers.get(producer_id)
        if producer is None:
            raise Refused(Code.PRODUCER_NOT_FOUND, producer_id=producer_id)
        producer.check_epoch(epoch)
        name = producer.name
        if name is not None and self._named.get(name) is not producer:
            # Its epochs were used up, and another producer has the name.
            raise Refused(Code.PRODUCER_FENCED, epoch=epoch)
        self.hear(producer, now)
        return producer

    def hear(self, producer: Producer, now: Now) -> None:
        """A producer gave a sign of life."""
        producer.heard_at = now.instant
        producer.heard_wall = max(producer.heard_wall, self.steady(now))
        self._move_last(producer)

    def _move_last(self, producer: Producer) -> None:
        self._idle.move_last(producer)
        if producer.tenant != _DEFAULT_TENANT:
            self._idle_of.setdefault(producer.tenant, _IdleOrder()).move_last(producer)

    def steady(self, now: Now) -> int:
        """Wall time, unless the clock was put since this life began."""
        return (
            now.wall if self._life is None else self._life.wall + now.instant - self._life.instant
        )

    def find_owner(self, owner: Owner, now: Now) -> Producer:
        """The producer that owns transactions under this transactional id."""
        check_name(owner.transactional_id, "transactional_id")
        known = self._producers.get(owner.producer_id)
        if known is None or known.transactional_id != owner.transactional_id:
            raise Refused(
                Code.PRODUCER_NOT_FOUND,
                producer_id=owner.producer_id,
                transactional_id=owner.transactional_id,
            )
        return self.find(owner.producer_id, owner.epoch, now)

    def init(self, command: InitProducer, now: Now, tenant: str = "default") -> ProducerStated:
        """A new producer of a tenant, or the next epoch of one that is known."""
        name = command.transactional_id
        if name is not None:
            check_name(name, "transactional_id")
            if is_internal(name):
                raise Refused(Code.NAME_INVALID, field="transactional_id", reason="is reserved")
        if not _TIMEOUT_NS_MIN <= command.timeout_ns <= _TIMEOUT_NS_MAX:
            raise Refused(
                Code.REQUEST_INVALID, field="transaction_timeout_ms", minimum=1000, maximum=900_000
            )
        known = None if name is None else self._named.get((tenant, name))
        if known is not None and known.epoch < _EPOCH_MAX:
            return ProducerStated(
                producer=known.id,
                epoch=known.epoch + 1,
                transactional_id=name,
                timeout_ns=command.timeout_ns,
                tenant=tenant,
            )
        own = self._idle_of.get(tenant)
        if own is not None:
            self._make_room(own, self._limit // _SHARES, now)
        self._make_room(self._idle, self._limit, now)
        return ProducerStated(
            producer=self._next_id,
            epoch=0,
            transactional_id=name,
            timeout_ns=command.timeout_ns,
            heard_at=self.steady(now),
            tenant=tenant,
        )

    def _make_room(self, order: _IdleOrder, limit: int, now: Now) -> None:
        """Let the one go that was silent longest, if there are too many in this order.

        Nothing is journaled: after a crash it is there again, and silent for as long.
        """
        # Two at most, so that a start that found more than there may be comes down again.
        for _ in range(2):
            if len(order) < limit:
                return
            idle = self._most_idle(order, now)
            if idle is None:
                break
            self.drop(idle)
        if len(order) >= limit:
            raise Refused(Code.QUOTA_EXCEEDED, quota="producers", limit=limit)

    def _most_idle(self, order: _IdleOrder, now: Now) -> Producer | None:
        for unnamed in order.first(1, is_named=False):
            return self._producers[unnamed]
        for identity in order.first(_PASSED_MAX, is_named=True):
            producer = self._producers[identity]
            if producer.current is None:
                is_over = self.steady(now) - producer.active_at > _IDLE_NAMED_NS
                return producer if is_over else None
            # It is not silent, or its transaction ends soon.
            self._move_last(producer)
        return None

    def drop(self, producer: Producer) -> None:
        """Forget a producer; its id is never given again."""
        del self._producers[producer.id]
        self._idle.remove(producer)
        own = self._idle_of.get(producer.tenant)
        if own is not None:
            own.remove(producer)
            if not own:
                del self._idle_of[producer.tenant]
        name = producer.name
        if name is not None and self._named.get(name) is producer:
            del self._named[name]

    # Applying

    def apply(self, stated: ProducerStated) -> Producer:
        """The only mutator of what is durable."""
        producer = self._producers.get(stated.producer)
        if producer is None:
            producer = self._producers[stated.producer] = Producer(stated)
            self.reserve(stated.producer + 1)
            self._move_last(producer)
        else:
            producer.restate(stated)
        if producer.name is not None:
            self._named[producer.name] = producer
        return producer

    def recall(self, producer_id: int, at: int) -> None:
        """A log has a batch of a producer, appended at this wall time or before."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            producer.seen_wall = max(producer.seen_wall, at)

    def begin_life(self, now: Now) -> None:
        """A life of the node begins: nobody was silent in it yet, but some were before it."""
        self._life = now
        for producer in self._producers.values():
            producer.heard_at = now.instant
        for order in (self._idle, *self._idle_of.values()):
            order.sort(lambda each: self._producers[each].active_at)
