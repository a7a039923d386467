"""Those who hold a transactional id, each believing to be the only one."""

from goqueue.model import Code, Instant, Refused
from goqueue.model.requests import Author, Owner, ProducerGranted, Reply
from goqueue.sim.history import Began, Ended, Fenced
from goqueue.sim.node.clients.transacting.lanes import Lane
from goqueue.sim.node.truth import (
    GroupTruth,
    IdentityTruth,
    MemberTruth,
    TopicTruth,
    TransactionTruth,
)
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Holder", "Holders"]


class Holder:
    """One client: it was given an epoch of a transactional id."""

    def __init__(
        self, world: World, identity: IdentityTruth, granted: ProducerGranted, timeout_ns: int
    ) -> None:
        self._world = world
        self.identity = identity
        self.epoch = granted.epoch
        self.timeout_ns = timeout_ns
        self.author = Author(producer_id=granted.producer_id, epoch=granted.epoch)
        self.owner = Owner(
            producer_id=granted.producer_id,
            epoch=granted.epoch,
            transactional_id=identity.name,
        )
        self.process = f"{granted.producer_id}/{granted.epoch}"
        self.heard_at = world.now.instant
        self.spoke_at = world.now.instant
        self.is_fenced = False
        self.current: TransactionTruth | None = None
        self.lanes: list[Lane] = []
        # Members for which it copies, with their groups.
        self.busy: list[tuple[GroupTruth, MemberTruth]] = []

    def speak(self) -> "Question":
        """It asks something."""
        self.spoke_at = self._world.now.instant
        return Question(self._world, self)

    def takes_more(self, transaction: TransactionTruth) -> bool:
        """Whether a transaction is the present one, and nobody wants it to end."""
        is_ending = transaction.commits or transaction.is_prepared or transaction.is_spoiled
        return self.current is transaction and transaction.outcome is None and not is_ending

    def knows_whole(self, transaction: TransactionTruth) -> bool:
        """Whether all that was to be part of a transaction surely is."""
        batches = [batch for lane in self.lanes for batch in lane.batches]
        is_whole = all(each.is_taken for each in batches if each.transaction is transaction)
        return is_whole and not transaction.is_spoiled and not transaction.pending

    def lane(self, topic: TopicTruth, partition: int) -> Lane:
        for lane in self.lanes:
            if lane.topic is topic and lane.partition == partition:
                return lane
        lane = Lane(self._world, self.process, self.author, topic, partition)
        self.lanes.append(lane)
        return lane


class Question:
    """What was known when a holder asked something."""

    def __init__(self, world: World, holder: Holder) -> None:
        self._holder = holder
        self._asked_at: Instant = world.now.instant
        self._was_fenced = holder.epoch < holder.identity.epoch

    def judge(self, reply: Reply | Refused | None) -> None:
        """Nobody who was fenced is heard, and nobody is fenced without another holder."""
        holder = self._holder
        if reply is None:
            return
        if isinstance(reply, Refused):
            if reply.code is Code.PRODUCER_FENCED:
                holder.is_fenced = True
                if not holder.identity.has_newer(holder.epoch):
                    raise Violation("fenced-by-nobody", f"{holder.process}: {reply}")
            if reply.code is Code.PRODUCER_NOT_FOUND:
                raise Violation("producer-forgotten", f"{holder.process}: {reply}")
        else:
            holder.heard_at = max(holder.heard_at, self._asked_at)
            if self._was_fenced:
                raise Violation("fenced-producer-heard", f"{holder.process}: {reply}")


class Holders:
    """Every transactional id, every producer id, every transaction."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.identities: dict[str, IdentityTruth] = {}
        self._producers: dict[int, str] = {}
        self._transactions = 0
        self._ids: dict[str, None] = {}

    def identity(self, name: str) -> IdentityTruth:
        return self.identities.setdefault(name, IdentityTruth(name))

    def note_producer(self, producer_id: int, name: str) -> None:
        """A producer id was given: to one transactional id, or to nobody else ever."""
        known = self._producers.get(producer_id)
        if producer_id in self._producers and (known != name or not name):
            raise Violation("producer-id-given-twice", f"{producer_id}: {known!r}, {name!r}")
        self._producers[producer_id] = name

    def granted(self, identity: IdentityTruth, reply: ProducerGranted, at_least: int) -> None:
        """The older holders are out, and what they had not asked to be committed was aborted."""
        self.note_producer(reply.producer_id, identity.name)
        before = list(identity.epochs)
        ended = identity.granted(reply.producer_id, reply.epoch, at_least)
        for epoch in before:
            if epoch < reply.epoch:
                self._world.history.note(Fenced(process=f"{reply.producer_id}/{epoch}"))
        for transaction in ended:
            if not transaction.may_commit:
                self.end(transaction, is_commit=False)

    def begin(self, holder: Holder) -> TransactionTruth:
        """Somebody asks for a transaction."""
        self._transactions += 1
        begun = TransactionTruth(
            self._transactions, holder.process, holder.epoch, self._world.now.instant
        )
        begun.timeout_ns = holder.timeout_ns
        holder.identity.transactions.append(begun)
        self._world.history.note(Began(transaction=begun.number, process=holder.process))
        return begun

    def name(self, transaction: TransactionTruth, identity: str) -> None:
        """The id of a transaction is told."""
        if identity in self._ids:
            raise Violation("transaction-id-given-twice", identity)
        self._ids[identity] = None
        transaction.transaction_id = identity
        transaction.told_at = self._world.now.instant

    def end(self, transaction: TransactionTruth, *, is_commit: bool) -> None:
        """It is certain how a transaction ended."""
        if transaction.end(is_commit=is_commit):
            ended = Ended(transaction=transaction.number, is_commit=is_commit)
            self._world.history.note(ended)
