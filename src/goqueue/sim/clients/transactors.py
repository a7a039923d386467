"""Holders of transactional ids: they begin, write, add progress, end, fall silent and die.

An honest holder commits only what it knows to be complete. All of them may be fenced, and some
continue to send after that.
"""

from collections.abc import Callable

from goqueue.model import SECOND, Code, LogId, Refused
from goqueue.model.requests import (
    AddPartition,
    BeginTransaction,
    EndTransaction,
    HeartbeatProducer,
    InitProducer,
    ProducerGranted,
    Publish,
    Published,
    Reply,
    TransactionBegan,
    TransactionEnded,
)
from goqueue.records import build
from goqueue.sim.clients.holders import Holder, Holders
from goqueue.sim.clients.publishers import Publishers, Sender, SentBatch, built, dues_of
from goqueue.sim.history import EndAsked
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import MessageTruth, TopicTruth
from goqueue.sim.truth.transactions import TransactionTruth

__all__ = ["Transactors"]

_NAMES = ("x0", "x1", "x2", "x3")
_HOLDERS_MAX = 6
_TIMEOUTS_NS = (SECOND, 3 * SECOND, 10 * SECOND)
_LONG_NS = 600 * SECOND
_Write = Callable[[Holder, TransactionTruth], None]


class Transactors:
    """Clients that write in transactions."""

    def __init__(self, world: World, publishers: Publishers, holders: Holders) -> None:
        self._world = world
        self._random = world.random
        self._publishers = publishers
        self._holders = holders
        self.living: list[Holder] = []
        # What else can be done within a transaction, and with one that takes no more.
        self.writes: list[_Write] = [self.publish, self.publish_numbered] * 3
        self.waits: list[_Write] = []

    # Coming and going

    def init_any(self) -> None:
        """Start a client; without zombies the previous one has stopped."""
        name = self._random.choice(_NAMES)
        rivals = [each for each in self.living if each.identity.name == name]
        if len(self.living) >= _HOLDERS_MAX:
            self.leave(self._random.choice(self.living))
        if not self._world.swarm.zombies:
            for rival in rivals:
                self.leave(rival)
        is_short = self._world.swarm.silence and self._random.random() < 0.7
        timeout_ns = self._random.choice(_TIMEOUTS_NS) if is_short else _LONG_NS
        self.init(name, timeout_ns, self.living.append)

    def init(self, name: str, timeout_ns: int, ready: Callable[[Holder], None]) -> None:
        """Request the next epoch of a transactional id."""
        identity = self._holders.identity(name)
        at_least = identity.epoch
        identity.doubts += 1

        def done(reply: Reply | Refused | None) -> None:
            if reply is not None:
                identity.doubts -= 1
            if isinstance(reply, ProducerGranted):
                self._holders.granted(identity, reply, at_least)
                ready(Holder(self._world, identity, reply, timeout_ns))

        self._world.ask(InitProducer(transactional_id=name, timeout_ns=timeout_ns), done)

    def leave(self, holder: Holder) -> None:
        """Stop a client without ending its transaction."""
        if holder in self.living:
            self.living.remove(holder)
        for group, member in holder.busy:
            if member.is_busy:
                group.retire(member)

    # Stepping

    def step(self) -> None:
        """Let one client act."""
        random = self._random
        if not self.living:
            self.init_any()
            return
        holder = random.choice(self.living)
        chance = random.random()
        if (holder.is_fenced and chance < 0.5) or chance < 0.02:
            self.leave(holder)
        elif chance < 0.06:
            self._heartbeat(holder)
        elif holder.current is None:
            self._go_on_without(holder)
        elif holder.current.outcome is not None:
            self._go_on_after(holder, holder.current)
        else:
            self._go_on_within(holder, holder.current)

    def _go_on_without(self, holder: Holder) -> None:
        chance = self._random.random()
        if chance < 0.9:
            self.begin(holder)
        elif chance < 0.95:
            self._end_nothing(holder)
        else:
            self._write_outside(holder)

    def _go_on_within(self, holder: Holder, current: TransactionTruth) -> None:
        random = self._random
        chance = random.random()
        if current.is_prepared and self.waits:
            random.choice(self.waits)(holder, current)
        elif chance < 0.75 and not current.commits:
            random.choice(self.writes)(holder, current)
            is_loose = not current.is_strict and not current.is_prepared
            if is_loose and current.transaction_id is not None and random.random() < 0.15:
                # What is on its way belongs to it.
                self.end(holder, current, is_commit=True)
        elif current.is_strict and random.random() < 0.5:
            # It takes its time: others may come by.
            return
        elif chance < 0.95 and current.transaction_id is not None:
            is_honest = not current.is_strict or holder.knows_whole(current)
            is_commit = is_honest and (current.commits > 0 or random.random() < 0.8)
            self.end(holder, current, is_commit=is_commit)

    def _go_on_after(self, holder: Holder, current: TransactionTruth) -> None:
        chance = self._random.random()
        assert current.outcome is not None
        if chance < 0.2:
            self._end_again(holder, current, is_commit=current.outcome)
        elif chance < 0.25:
            self._write_outside(holder)
        else:
            holder.current = None
            self.begin(holder)

    def _heartbeat(self, holder: Holder) -> None:
        question = holder.speak()
        stamp = holder.stamp
        command = HeartbeatProducer(producer_id=stamp.producer_id, epoch=stamp.epoch)
        self._world.ask(command, question.judge)

    # Beginning

    def begin(self, holder: Holder) -> None:
        question = holder.speak()
        begun = holder.current = self._holders.begin(holder)

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            if isinstance(reply, TransactionBegan):
                self._holders.name(begun, reply.transaction_id)
            elif isinstance(reply, Refused):
                self._holders.end(begun, is_commit=False)
                holder.current = None if holder.current is begun else holder.current
            else:
                # Whether there is one is unknown: the next holder begins with an init.
                self.leave(holder)

        self._world.ask(BeginTransaction(owner=holder.owner), done)

    # Writing

    def publish(self, holder: Holder, current: TransactionTruth) -> None:
        """Publish some messages to one topic."""
        topic = self._publishers.choose_topic()
        if topic is None or current is not holder.current:
            return
        if self._random.random() < 0.1:
            self._add_partition(holder, topic)
        count = self._random.randint(1, 3)
        messages = [self._publishers.message(topic) for _ in range(count)]
        self._publishers.dues(messages)
        self.send(holder, topic, messages)

    def send(
        self,
        holder: Holder,
        topic: TopicTruth,
        messages: list[MessageTruth],
        after: Callable[[bool], None] | None = None,
    ) -> None:
        """Publish without sequence numbers; `after` receives whether everything was stored."""
        current = holder.current
        question = holder.speak()
        was_over = current is None or current.outcome is not None or current.is_closed
        sender = Sender(process=holder.process, transaction=current)
        sending = SentBatch(self._world, topic, messages, sender)
        if current is not None:
            current.pending += 1
            # What is sent when it is over is refused: no commit waits for it.
            current.sending += not was_over
        targets = None
        if self._random.random() < 0.5:
            targets = [self._random.randrange(topic.partitions) for _ in messages]

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            if current is not None:
                current.pending -= 1
                current.sending -= not was_over
                current.is_spoiled |= not _is_whole(reply)
            if was_over and _is_whole(reply):
                raise Violation("written-outside", f"{holder.process}: {reply}")
            sending.answered(reply)
            if after is not None:
                after(_is_whole(reply))

        command = Publish(
            topic=topic.name,
            batch=build([built(each) for each in messages]),
            targets=targets,
            dues=dues_of(messages),
            producer=holder.stamp,
        )
        self._world.ask(command, done)

    def publish_numbered(self, holder: Holder, current: TransactionTruth) -> None:
        """Publish a numbered batch, or repeat one."""
        topic = self._publishers.choose_topic()
        if topic is None:
            return
        sends = holder.sends_to(topic, self._random.randrange(topic.partitions))
        missing = sends.missing
        if not sends.is_usable or (missing is not None and missing.transaction is not current):
            # What was meant for a transaction that ended must not get into another.
            sends.is_broken = True
            return
        question = holder.speak()
        after = question.judge
        # What a log has forgotten with its end, or its start, would get into another, too.
        taken = [
            batch
            for batch in sends.batches
            if batch.is_taken and (batch.transaction is current or sends.keeps_all)
        ]
        if missing is not None:
            sends.send_again(missing, after, current)
        elif taken and self._random.random() < 0.3:
            sends.send_again(self._random.choice(taken[-5:]), after, current)
        else:
            count = self._random.randint(1, 3)
            messages = [self._publishers.message(topic) for _ in range(count)]
            sends.send(messages, after, current)

    def _write_outside(self, holder: Holder) -> None:
        """Publish without a transaction, which must be refused."""
        topic = self._publishers.choose_topic()
        if topic is not None:
            self.send(holder, topic, [self._publishers.message(topic)])

    def _add_partition(self, holder: Holder, topic: TopicTruth) -> None:
        question = holder.speak()
        log = LogId(topic.name, self._random.randrange(topic.partitions))
        self._world.ask(AddPartition(owner=holder.owner, log=log), question.judge)

    # Ending

    def end(self, holder: Holder, current: TransactionTruth, *, is_commit: bool) -> None:
        world = self._world
        now = world.now.instant
        is_over = current.is_surely_over(world.served_at, holder.spoke_at, now)
        question = holder.speak()
        world.history.note(EndAsked(transaction=current.number, is_commit=is_commit))
        is_first = not current.commits
        current.commits += is_commit

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            if isinstance(reply, TransactionEnded):
                if is_over and is_first and reply.is_commit and not current.is_prepared:
                    raise Violation("committed-too-late", f"{holder.process} {current.number}")
                if reply.is_commit != is_commit:
                    raise Violation("ended-otherwise", f"{holder.process}: {reply}")
                if is_commit and current.sending:
                    raise Violation("committed-before-its-messages", f"{holder.process}: {reply}")
                self._holders.end(current, is_commit=is_commit)
            elif isinstance(reply, Refused):
                current.commits -= is_commit
                self._refused(holder, current, reply)

        # Some say which one they mean.
        identity = current.transaction_id if self._random.random() < 0.5 else None
        command = EndTransaction(owner=holder.owner, is_commit=is_commit, transaction_id=identity)
        world.ask(command, done)

    def _refused(self, holder: Holder, current: TransactionTruth, reply: Refused) -> None:
        if reply.code is Code.TRANSACTION_TIMEOUT:
            now = self._world.now.instant
            is_in_time = current.is_surely_in_time(holder.heard_at, now)
            if is_in_time and not self._world.swarm.clock_jumps:
                raise Violation("timed-out-early", f"{holder.process} {current.number}")
            self._holders.end(current, is_commit=False)
        elif reply.code is Code.TRANSACTION_STATE_INVALID:
            # Somebody ended it otherwise: the next question tells how.
            current.is_spoiled = True

    def _end_nothing(self, holder: Holder) -> None:
        """Commit without a begin: refused, or the outcome of the previous transaction again."""
        question = holder.speak()
        may_be = any(each.may_commit for each in holder.identity.transactions)

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            if isinstance(reply, TransactionEnded) and not may_be:
                raise Violation("committed-nothing", f"{holder.process}: {reply}")

        self._world.ask(EndTransaction(owner=holder.owner, is_commit=True), done)

    def _end_again(self, holder: Holder, current: TransactionTruth, *, is_commit: bool) -> None:
        """Repeat the end of a transaction: the answer must be the same."""
        question = holder.speak()

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            if isinstance(reply, TransactionEnded) and reply.is_commit != is_commit:
                raise Violation("ended-otherwise", f"{holder.process}: {reply}")
            is_refused = isinstance(reply, Refused) and reply.code in {
                Code.TRANSACTION_STATE_INVALID,
                Code.TRANSACTION_TIMEOUT,
            }
            if is_refused and holder.current is current:
                raise Violation("not-ended-again", f"{holder.process}: {reply}")

        self._world.ask(EndTransaction(owner=holder.owner, is_commit=is_commit), done)


def _is_whole(reply: Reply | Refused | None) -> bool:
    """Whether everything that was sent is stored."""
    return (
        isinstance(reply, Published)
        and min(reply.targets, default=0) >= 0
        and all(each.refused is None for each in reply.placed)
    )
