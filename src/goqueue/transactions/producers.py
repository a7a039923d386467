"""The producers of the node: ids that are never given twice, epochs, and who is still there.

Decides who may speak for a producer. Invariant: of two holders of one transactional id only the one
with the newest epoch is ever heard.
"""

from collections.abc import Iterator

from goqueue.model import HOUR, SECOND, Code, Instant, Now, Refused, check_name, is_internal
from goqueue.model.requests import InitProducer, Owner
from goqueue.transactions.changes import ProducerStated
from goqueue.transactions.transaction import Outcome, Transaction

__all__ = ["Producer", "Producers"]

_EPOCH_MAX = 32_767
_TIMEOUT_NS_MIN = SECOND
_TIMEOUT_NS_MAX = 900 * SECOND
_PRODUCERS_MAX = 200_000
# Whoever is idle for longer is forgotten: with a transactional id after a week.
_IDLE_NS = 24 * HOUR
_IDLE_NAMED_NS = 7 * 24 * HOUR


class Producer:
    """One producer; `current` is its open transaction, `outcome` how the last one ended."""

    __slots__ = (
        "began_at",
        "current",
        "ended_epoch",
        "epoch",
        "heard_at",
        "id",
        "last",
        "outcome",
        "timeout_ns",
        "transactional_id",
    )

    def __init__(self, stated: ProducerStated) -> None:
        self.id = stated.producer
        self.heard_at = Instant(0)
        self.current: Transaction | None = None
        self.last = 0
        self.began_at = 0
        self.outcome: Outcome | None = None
        self.ended_epoch = 0
        self.restate(stated)

    def restate(self, stated: ProducerStated) -> None:
        self.epoch = stated.epoch
        self.transactional_id = stated.transactional_id
        self.timeout_ns = stated.timeout_ns
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
        )

    def check_epoch(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise Refused(Code.PRODUCER_FENCED, epoch=epoch, current=self.epoch)
        if epoch > self.epoch:
            raise Refused(Code.REQUEST_INVALID, field="epoch", reason="it was never given")


class Producers:
    """Producers by id and by transactional id."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._named: dict[str, Producer] = {}
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

    def named(self, transactional_id: str) -> Producer | None:
        return self._named.get(transactional_id)

    # Deciding

    def find(self, producer_id: int, epoch: int, now: Now) -> Producer:
        """The producer, if its newest epoch asks; that counts as a sign of life."""
        producer = self._producers.get(producer_id)
        if producer is None:
            raise Refused(Code.PRODUCER_NOT_FOUND, producer_id=producer_id)
        producer.check_epoch(epoch)
        name = producer.transactional_id
        if name is not None and self._named.get(name) is not producer:
            # Its epochs were used up, and another producer has the name.
            raise Refused(Code.PRODUCER_FENCED, epoch=epoch)
        producer.heard_at = now.instant
        return producer

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

    def init(self, command: InitProducer, now: Now) -> ProducerStated:
        """A new producer, or the next epoch of one that is known."""
        name = command.transactional_id
        if name is not None:
            check_name(name, "transactional_id")
            if is_internal(name):
                raise Refused(Code.NAME_INVALID, field="transactional_id", reason="it is reserved")
        if not _TIMEOUT_NS_MIN <= command.timeout_ns <= _TIMEOUT_NS_MAX:
            raise Refused(
                Code.REQUEST_INVALID, field="transaction_timeout_ms", minimum=1000, maximum=900_000
            )
        known = None if name is None else self._named.get(name)
        if known is not None and known.epoch < _EPOCH_MAX:
            return ProducerStated(
                producer=known.id,
                epoch=known.epoch + 1,
                transactional_id=name,
                timeout_ns=command.timeout_ns,
            )
        self._forget_idle(now)
        if len(self._producers) >= _PRODUCERS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="producers", limit=_PRODUCERS_MAX)
        return ProducerStated(
            producer=self._next_id,
            epoch=0,
            transactional_id=name,
            timeout_ns=command.timeout_ns,
        )

    def _forget_idle(self, now: Now) -> None:
        """Make room when there are many. Nothing is journaled: after a crash they are idle anew."""
        if len(self._producers) < _PRODUCERS_MAX:
            return
        for producer in list(self._producers.values()):
            limit = _IDLE_NS if producer.transactional_id is None else _IDLE_NAMED_NS
            if producer.current is None and now.instant - producer.heard_at > limit:
                self._drop(producer)

    def _drop(self, producer: Producer) -> None:
        del self._producers[producer.id]
        name = producer.transactional_id
        if name is not None and self._named.get(name) is producer:
            del self._named[name]

    # Applying

    def apply(self, stated: ProducerStated) -> Producer:
        """The only mutator of what is durable."""
        producer = self._producers.get(stated.producer)
        if producer is None:
            producer = self._producers[stated.producer] = Producer(stated)
            self.reserve(stated.producer + 1)
        else:
            producer.restate(stated)
        if stated.transactional_id is not None:
            self._named[stated.transactional_id] = producer
        return producer

    def hear_all(self, now: Now) -> None:
        """A life of the node begins: nobody was silent in it yet."""
        for producer in self._producers.values():
            producer.heard_at = now.instant
