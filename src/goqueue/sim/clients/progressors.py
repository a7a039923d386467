"""Clients that commit offsets and acks in transactions, or commit many prepared ones at once.

Progress of a group must take effect with its transaction and not otherwise; a decision about many
prepared transactions takes effect once under its key.
"""

from collections.abc import Callable

from goqueue.model import Code, Instant, LogId, Offset, Refused
from goqueue.model.requests import (
    AddOffsets,
    CommitGroup,
    Done,
    GroupCommitted,
    PrepareTransaction,
    Reply,
    TransactionPrepared,
)
from goqueue.sim.clients.holders import Holder, Holders
from goqueue.sim.clients.members import Members
from goqueue.sim.clients.settlers import Settlers, Use
from goqueue.sim.clients.transactors import Transactors
from goqueue.sim.history import Added, Asked, Grouped
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.deliveries import Delivery, QueueTruth
from goqueue.sim.truth.groups import GroupTruth, MemberTruth
from goqueue.sim.truth.ledger import TopicTruth, log_name
from goqueue.sim.truth.transactions import KeyTruth, TransactionTruth

__all__ = ["Committers", "Progressors"]


class Progressors:
    """Adds receipts and offsets to transactions."""

    def __init__(self, world: World, members: Members, settlers: Settlers) -> None:
        self._world = world
        self._random = world.random
        self._members = members
        self._settlers = settlers

    # Receipts

    def add_any(self, holder: Holder, current: TransactionTruth) -> None:
        """Add receipts of a group whose messages others also ack."""
        found = self._settlers.choose()
        if found is None or found[0].is_copied or current is not holder.current:
            return
        group, delivery = found
        deliveries = [delivery]
        if self._random.random() < 0.4:
            more = [self._settlers.choose() for _ in range(2)]
            deliveries += [each[1] for each in more if each is not None and each[0] is group]
        self.add(holder, group, deliveries)

    def add(self, holder: Holder, group: GroupTruth, deliveries: list[Delivery]) -> None:
        """Ack messages of a group when a holder's transaction commits."""
        current = holder.current
        assert current is not None
        unique = list({each.handed.receipt: each for each in deliveries}.values())
        again = [each for each in unique if current.holds(each.handed.receipt)]
        uses = [Use(self._world, group, each) for each in unique]
        question = holder.speak()
        asked = [self._asked(current, use) for use in uses if group.is_copied]
        for use in uses:
            use.ask()
            # What is held does not run out, so nobody knows when its lease is over.
            use.delivery.over_at = None
        current.pending += 1
        was_over = current.outcome is not None

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            current.pending -= 1
            current.is_spoiled |= not isinstance(reply, Done)
            if isinstance(reply, Done):
                if was_over:
                    raise Violation("added-outside", f"{holder.process}: {unique}")
                for time in asked:
                    self._world.history.note(Added(transaction=current.number, asked=time))
                self._added(current, uses, again)
            elif isinstance(reply, Refused):
                for use in uses:
                    use.answer(is_settled=False)
                if len(uses) == 1 and not again:
                    uses[0].check_refused(reply.code)

        receipts = tuple(each.handed.receipt for each in unique)
        command = AddOffsets(owner=holder.owner, group=group.name, receipts=receipts)
        self._world.ask(command, done)

    def _asked(self, current: TransactionTruth, use: Use) -> int:
        handed = use.delivery.handed
        asked = Asked(
            transaction=current.number,
            group=use.group.name,
            log=log_name(handed.topic, handed.partition),
            offsets=(handed.offset,),
        )
        return self._world.history.note(asked)

    def _added(self, current: TransactionTruth, uses: list[Use], again: list[Delivery]) -> None:
        for use in uses:
            if use.delivery not in again and not use.is_shared_in(uses):
                use.check_accepted()
            current.hold(use.delivery.handed.receipt)
            current.when_ended(_settlement(use))

    # Offsets

    def move(
        self,
        holder: Holder,
        owner: tuple[GroupTruth, MemberTruth],
        topic: TopicTruth,
        goal: tuple[LogId, int],
    ) -> None:
        """Commit an offset of a group when a holder's transaction commits."""
        group, member = owner
        log, offset = goal
        current = holder.current
        assert current is not None
        generation = member.generation
        is_stale = generation < group.generation and not group.is_cooperative
        is_out = self._world.is_surely_out(member)
        asked_at, question = self._members.speak(member), holder.speak()
        queue = group.queue(topic, log.partition)
        queue.commit_asked(offset)
        asked = Asked(
            transaction=current.number,
            group=group.name,
            log=log_name(topic, log.partition),
            floor=offset,
        )
        time = self._world.history.note(asked)
        current.pending += 1

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            self._heard(group, member, reply, asked_at)
            current.pending -= 1
            current.is_spoiled |= not isinstance(reply, Done)
            if isinstance(reply, Done):
                if is_out or is_stale:
                    raise Violation("outsider-moved", f"{group.name} {member.member_id} {log}")
                self._world.history.note(Added(transaction=current.number, asked=time))
                current.when_ended(_advance(queue, offset))

        command = AddOffsets(
            owner=holder.owner,
            group=group.name,
            offsets={log: Offset(offset)},
            member_id=member.member_id,
            generation=generation,
        )
        self._world.ask(command, done)

    def _heard(
        self,
        group: GroupTruth,
        member: MemberTruth,
        reply: Reply | Refused | None,
        asked_at: Instant,
    ) -> None:
        """Learn about the member, unless the refusal was about the holder."""
        if isinstance(reply, Refused) and reply.code is not Code.MEMBER_NOT_FOUND:
            return
        self._members.heard(group, member, reply, asked_at)


def _settlement(use: Use) -> Callable[[bool], None]:
    losses = use.queue.losses

    def ended(is_commit: bool) -> None:
        # What a log has lost since then nobody settles.
        is_there = use.queue.losses == losses
        if (use.is_clear and is_there) or not is_commit:
            use.answer(is_settled=is_commit)

    return ended


def _advance(queue: QueueTruth, offset: int) -> Callable[[bool], None]:
    losses = queue.losses

    def ended(is_commit: bool) -> None:
        if is_commit and queue.losses == losses:
            queue.committed(offset)

    return ended


_TOGETHER_MAX = 3


class Committers:
    """Clients that prepare transactions and commit several together."""

    def __init__(self, world: World, holders: Holders, transactors: Transactors) -> None:
        self._world = world
        self._random = world.random
        self._holders = holders
        self._transactors = transactors
        self._prepared: list[TransactionTruth] = []
        self._keys: list[KeyTruth] = []

    def prepare(self, holder: Holder, current: TransactionTruth) -> None:
        """Prepare the transaction; a strict one only if everything in it is known to be stored."""
        is_fit = not current.is_strict or holder.knows_whole(current)
        if current.commits or current.transaction_id is None or not is_fit:
            return
        question = holder.speak()
        current.is_prepared = True

        def done(reply: Reply | Refused | None) -> None:
            question.judge(reply)
            if isinstance(reply, TransactionPrepared):
                if current.transaction_id not in {None, reply.transaction_id}:
                    raise Violation("prepared-another", f"{current.transaction_id}: {reply}")
                current.is_closed = True
                if current not in self._prepared:
                    self._prepared.append(current)

        self._world.ask(PrepareTransaction(owner=holder.owner), done)

    def wait(self, holder: Holder, current: TransactionTruth) -> None:
        """After a prepare: repeat it, abort, or try to publish more, which must be refused."""
        chance = self._random.random()
        if chance < 0.2:
            self.prepare(holder, current)
        elif chance < 0.23:
            self._transactors.end(holder, current, is_commit=False)
        elif chance < 0.35 and current in self._prepared:
            self._write_late(holder, current)

    def _write_late(self, holder: Holder, current: TransactionTruth) -> None:
        was_spoiled = current.is_spoiled
        self._transactors.publish(holder, current)
        current.is_spoiled = was_spoiled

    def commit_group(self) -> None:
        """Commit some prepared transactions together, under a new key or a used one."""
        random = self._random
        self._prepared = [each for each in self._prepared if each.outcome is None]
        ready = [each for each in self._prepared if each.transaction_id is not None]
        if not ready or (len(ready) == 1 and random.random() < 0.7):
            return
        group = random.sample(ready, min(len(ready), random.randint(1, _TOGETHER_MAX)))
        # A key is remembered for a week.
        remembered = [each for each in self._keys if each.age == self._world.ages]
        if remembered and random.random() < 0.4:
            key = random.choice(remembered)
        else:
            key = KeyTruth(f"key-{len(self._keys)}", self._world.ages)
            self._keys.append(key)
        self._commit(key, group)

    def _commit(self, key: KeyTruth, group: list[TransactionTruth]) -> None:
        was_won = key.winner is not None
        key.asked.append(group)
        if not was_won:
            self._world.history.note(Grouped(transactions=tuple(each.number for each in group)))
            for each in group:
                each.commits += 1

        def done(reply: Reply | Refused | None) -> None:
            if isinstance(reply, GroupCommitted) and not reply.is_repeat:
                key.won(group)
                if was_won:
                    raise Violation("key-forgotten", key.key)
                for each in group:
                    self._holders.end(each, is_commit=True)
            elif reply is not None:
                self._not_committed(key, group, reply, is_counted=not was_won)

        ids = tuple(each.transaction_id or "" for each in group)
        self._world.ask(CommitGroup(key=key.key, transaction_ids=ids), done)

    def _not_committed(
        self,
        key: KeyTruth,
        group: list[TransactionTruth],
        reply: Reply | Refused,
        *,
        is_counted: bool,
    ) -> None:
        """The group commit was refused, or another one used the key before."""
        if isinstance(reply, GroupCommitted) and not key.may_be_used_before(group):
            raise Violation("key-made-up", f"{key.key}: {reply}")
        key.asked.remove(group)
        for each in group:
            each.commits -= is_counted
            is_elsewhere = any(each in other for other in key.asked)
            if isinstance(reply, GroupCommitted) and not each.commits and not is_elsewhere:
                self._holders.end(each, is_commit=False)
