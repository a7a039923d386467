"""Holders of transactional ids, and what each sends to a partition with sequence numbers.

Each holder believes that it is the only one. For each producer, epoch and partition this module
knows which answer a sequence number must get: accepted, duplicate, or out of order.
"""

from collections.abc import Callable

from goqueue.model import Code, Instant, Refused
from goqueue.model.requests import Owner, ProducerGranted, ProducerStamp, Publish, Published, Reply
from goqueue.records import build
from goqueue.sim.clients.publishers import Sender, SentBatch, built
from goqueue.sim.history import Began, Ended, Fenced
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import MessageTruth, TopicTruth
from goqueue.sim.truth.transactions import IdentityTruth, TransactionTruth

__all__ = ["Batch", "Holder", "Holders", "SequencedSends"]

_WINDOW = 5
After = Callable[[Reply | Refused | None], None]


class Batch:
    """Messages with one sequence number, as their producer knows them."""

    def __init__(
        self, sequence: int, messages: list[MessageTruth], transaction: TransactionTruth | None
    ) -> None:
        self.sequence = sequence
        self.messages = messages
        self.transaction = transaction
        self.is_taken = False
        self.is_repeated = False
        # Times that it is on its way.
        self.pending = 0

    @property
    def following(self) -> int:
        return self.sequence + len(self.messages)


class SequencedSends:
    """What one producer and epoch sent to one partition."""

    def __init__(
        self, world: World, process: str, stamp: ProducerStamp, topic: TopicTruth, partition: int
    ) -> None:
        self._world = world
        self._process = process
        self._age, self._life = world.ages, world.life
        self._stamp = stamp
        self.topic = topic
        self.partition = partition
        self.batches: list[Batch] = []
        # It cannot be known any more what the next sequence is.
        self.is_broken = False

    @property
    def is_usable(self) -> bool:
        # What was sent before days passed may be forgotten, and would be taken once more. So may
        # be, after a restart, what went with its segment.
        is_forgotten = self._age != self._world.ages
        is_forgotten |= self.topic.retires and self._life != self._world.life
        is_broken = self.is_broken or is_forgotten
        return not (is_broken or self.topic.is_gone or self.topic.is_leaving)

    @property
    def next_sequence(self) -> int:
        return self.batches[-1].following if self.batches else 0

    @property
    def pending(self) -> int:
        return sum(batch.pending for batch in self.batches)

    @property
    def missing(self) -> Batch | None:
        """The first batch that is neither accepted nor in flight: later ones wait for it."""
        untaken = (batch for batch in self.batches if not batch.is_taken and not batch.pending)
        return next(untaken, None)

    @property
    def _is_certain(self) -> bool:
        """Whether the node must agree with what the producer knows."""
        return all(batch.is_taken for batch in self.batches) and self.keeps_all

    @property
    def keeps_all(self) -> bool:
        """Whether the log still holds every sent batch: else a restart may forget some."""
        return not self.topic.is_loose and not self.topic.retires

    # Sending

    def send(
        self, messages: list[MessageTruth], after: After, transaction: TransactionTruth | None
    ) -> None:
        """Send the next batch."""
        is_certain = self._is_certain
        batch = Batch(self.next_sequence, messages, transaction)
        self.batches.append(batch)

        def judge(reply: Published | Refused) -> None:
            is_out = isinstance(reply, Refused) and reply.code is Code.SEQUENCE_OUT_OF_ORDER
            if is_certain and is_out:
                raise Violation("sequence-refused", f"{self._name(batch)}: {reply}")
            is_alone = is_certain and not batch.is_repeated
            if is_alone and isinstance(reply, Published) and reply.placed[0].is_duplicate:
                raise Violation("new-batch-taken-for-old", f"{self._name(batch)}: {reply}")

        self._send(batch, judge, after)

    def send_again(
        self, batch: Batch, after: After, current: TransactionTruth | None = None
    ) -> None:
        """Send a batch again: its answer was lost, or there is no reason.

        It counts as a duplicate only within the transaction in which it was first sent.
        """
        was_taken = batch.is_taken
        batch.is_repeated = True
        later = len(self.batches) - 1 - self.batches.index(batch)
        is_same = batch.transaction is current and self.keeps_all
        is_known = was_taken and later < _WINDOW and is_same

        def judge(reply: Published | Refused) -> None:
            if isinstance(reply, Refused):
                if is_known and reply.code is Code.SEQUENCE_OUT_OF_ORDER:
                    raise Violation("retry-refused", f"{self._name(batch)}: {reply}")
            elif reply.placed[0].refused is None and was_taken and self.keeps_all:
                if not reply.placed[0].is_duplicate:
                    raise Violation("retry-taken-again", f"{self._name(batch)}: {reply}")

        self._send(batch, judge, after)

    def send_with_gap(self, messages: list[MessageTruth]) -> None:
        """Send a batch that skips sequence numbers: it must be refused."""
        batch = Batch(self.next_sequence + 1, messages, None)

        def judge(reply: Published | Refused) -> None:
            is_taken = isinstance(reply, Published) and reply.placed[0].refused is None
            if is_taken:
                raise Violation("gap-taken", f"{self._name(batch)}: {reply}")

        self._send(batch, judge, lambda _: None)

    def _send(
        self, batch: Batch, judge: Callable[[Published | Refused], None], after: After
    ) -> None:
        sender = Sender(
            process=self._process,
            transaction=batch.transaction,
            sequence=batch.sequence,
            partition=self.partition,
        )
        sending = SentBatch(self._world, self.topic, batch.messages, sender)
        batch.pending += 1
        if batch.transaction is not None:
            batch.transaction.sending += 1

        def done(reply: Reply | Refused | None) -> None:
            batch.pending -= 1
            if batch.transaction is not None:
                batch.transaction.sending -= 1
            is_there = not self.topic.is_gone and not self.topic.is_leaving
            if is_there and isinstance(reply, Published | Refused):
                judge(reply)
            sending.answered(reply)
            if isinstance(reply, Published) and reply.placed[0].refused is None:
                batch.is_taken = True
            after(reply)

        stamp = ProducerStamp(
            producer_id=self._stamp.producer_id,
            epoch=self._stamp.epoch,
            sequence=batch.sequence,
        )
        command = Publish(
            topic=self.topic.name,
            batch=build([built(each) for each in batch.messages]),
            targets=[self.partition] * len(batch.messages),
            producer=stamp,
        )
        self._world.ask(command, done)

    def _name(self, batch: Batch) -> str:
        place = f"{self.topic.name}#{self.topic.number}-{self.partition}"
        return f"{self._process} {place} sequence {batch.sequence}"


class Holder:
    """One client with an epoch of a transactional id."""

    def __init__(
        self, world: World, identity: IdentityTruth, granted: ProducerGranted, timeout_ns: int
    ) -> None:
        self._world = world
        self.identity = identity
        self.epoch = granted.epoch
        self.timeout_ns = timeout_ns
        self.stamp = ProducerStamp(producer_id=granted.producer_id, epoch=granted.epoch)
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
        self.by_partition: list[SequencedSends] = []
        # Members for which it copies, with their groups.
        self.busy: list[tuple[GroupTruth, MemberTruth]] = []

    def speak(self) -> "Question":
        """Record what is known as this holder sends a request."""
        self.spoke_at = self._world.now.instant
        return Question(self._world, self)

    def takes_more(self, transaction: TransactionTruth) -> bool:
        """Whether a transaction is the current one and nobody has asked to end it."""
        is_ending = transaction.commits or transaction.is_prepared or transaction.is_spoiled
        return self.current is transaction and transaction.outcome is None and not is_ending

    def knows_whole(self, transaction: TransactionTruth) -> bool:
        """Whether everything sent in a transaction is certainly part of it."""
        batches = [batch for sends in self.by_partition for batch in sends.batches]
        is_whole = all(each.is_taken for each in batches if each.transaction is transaction)
        return is_whole and not transaction.is_spoiled and not transaction.pending

    def sends_to(self, topic: TopicTruth, partition: int) -> SequencedSends:
        for sends in self.by_partition:
            if sends.topic is topic and sends.partition == partition:
                return sends
        sends = SequencedSends(self._world, self.process, self.stamp, topic, partition)
        self.by_partition.append(sends)
        return sends


class Question:
    """What was known when a holder sent a request."""

    def __init__(self, world: World, holder: Holder) -> None:
        self._holder = holder
        self._asked_at: Instant = world.now.instant
        self._was_fenced = holder.epoch < holder.identity.epoch

    def judge(self, reply: Reply | Refused | None) -> None:
        """Judge an answer: fenced holders are refused, and only a newer holder fences."""
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
            if holder.current is not None:
                holder.current.hear(holder.heard_at, self._asked_at)
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
        """A producer id was assigned: check that it was never assigned before."""
        known = self._producers.get(producer_id)
        if producer_id in self._producers and (known != name or not name):
            raise Violation("producer-id-given-twice", f"{producer_id}: {known!r}, {name!r}")
        self._producers[producer_id] = name

    def granted(self, identity: IdentityTruth, reply: ProducerGranted, at_least: int) -> None:
        """A holder got a new epoch: older ones are fenced, their open transactions aborted."""
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
        """A transaction was requested."""
        self._transactions += 1
        begun = TransactionTruth(
            self._transactions, holder.process, holder.epoch, self._world.now.instant
        )
        begun.timeout_ns = holder.timeout_ns
        holder.identity.transactions.append(begun)
        self._world.history.note(Began(transaction=begun.number, process=holder.process))
        return begun

    def name(self, transaction: TransactionTruth, identity: str) -> None:
        """The node returned the id of a transaction."""
        if identity in self._ids:
            raise Violation("transaction-id-given-twice", identity)
        self._ids[identity] = None
        transaction.transaction_id = identity
        transaction.told_at = self._world.now.instant

    def end(self, transaction: TransactionTruth, *, is_commit: bool) -> None:
        """The outcome of a transaction is certain."""
        if transaction.end(is_commit=is_commit):
            ended = Ended(transaction=transaction.number, is_commit=is_commit)
            self._world.history.note(ended)
