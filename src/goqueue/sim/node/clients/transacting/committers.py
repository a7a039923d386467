"""Those who prepare transactions, and those who commit many of them by one decision under a key."""

from goqueue.model import Refused
from goqueue.model.requests import (
    CommitGroup,
    GroupCommitted,
    PrepareTransaction,
    Reply,
    TransactionPrepared,
)
from goqueue.sim.history import Grouped
from goqueue.sim.node.clients.transacting.holder import Holder, Holders
from goqueue.sim.node.clients.transacting.transactors import Transactors
from goqueue.sim.node.truth import KeyTruth, TransactionTruth
from goqueue.sim.node.world import World
from goqueue.sim.oracle import Violation

__all__ = ["Committers"]

_TOGETHER_MAX = 3


class Committers:
    """Prepares, and commits in groups."""

    def __init__(self, world: World, holders: Holders, transactors: Transactors) -> None:
        self._world = world
        self._random = world.random
        self._holders = holders
        self._transactors = transactors
        self._prepared: list[TransactionTruth] = []
        self._keys: list[KeyTruth] = []

    def prepare(self, holder: Holder, current: TransactionTruth) -> None:
        """Take no more; only what is known to be whole, if that matters."""
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
        """Whoever has prepared asks again, gives up, or tries to go on, which is refused."""
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
        """Commit some that are prepared, under a new key or one that was used."""
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
        """The whole was refused, or another group was committed under the key before."""
        if isinstance(reply, GroupCommitted) and not key.may_be_used_before(group):
            raise Violation("key-made-up", f"{key.key}: {reply}")
        key.asked.remove(group)
        for each in group:
            each.commits -= is_counted
            is_elsewhere = any(each in other for other in key.asked)
            if isinstance(reply, GroupCommitted) and not each.commits and not is_elsewhere:
                self._holders.end(each, is_commit=False)
