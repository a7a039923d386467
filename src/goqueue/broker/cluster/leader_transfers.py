"""The controller's side of transfers of leadership: nothing is lost, nobody is refused.

The controller asks a leader to hand a partition over. The leader takes no appends for a moment,
waits until the next leader has all that it has, and asks for the change; only that is committed.
Who should lead is decided elsewhere: by moves, by operators, and by the balance of leaders.

The balance: when a broker that is the preferred leader of partitions has been back for
`balance_after_ns`, it gets them back, `_TRANSFERS_MAX` at a time, so that what others led for it
is spread as it was placed. The log of the group coordinator is left where it is: with its leader
all leases end.

Invariants
- The next leader is live, sure and in the ISR of the committed image (C8).
- A leader is asked for one partition again only after `_REPEAT_NS`.

Nothing here is durable: the next controller begins anew, and leaders give up by themselves.

Cost: by the partitions that are asked for; the balance passes over all partitions once a second
while the image changes or something is out of balance.
"""

import msgspec

from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.cluster_metadata import ClusterMetadata
from goqueue.broker.cluster.level_gate import audited
from goqueue.broker.replication.handovers import Handovers
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    FEATURE_LEVEL,
    LeaderChange,
    LeadersChanged,
    MetadataChange,
    PartitionId,
    unbalanced_partitions,
    wanted_leader,
)
from goqueue.model import (
    SECOND,
    Code,
    Instant,
    Now,
    Refused,
    RequestId,
    ResignLeaderships,
    Send,
)
from goqueue.model.requests import LeaderElected, TransferLeader
from goqueue.security import FieldChange

__all__ = ["LeaderTransfers"]

_TRANSFERS_MAX = 10
_REPEAT_NS = 2 * SECOND
_BALANCE_NS = SECOND
# So often a leader is asked before a move goes on without its help.
_ATTEMPTS_MAX = 3
# So long the balance leaves a partition alone whose leader was asked as often.
_PAUSE_NS = 10 * SECOND
# So long a caller waits for a transfer.
_CALLER_NS = 5 * SECOND
_REQUESTS_MAX = 64
_WISHES_MAX = 4_096


class _Asked(msgspec.Struct, frozen=True):
    """A leader was asked to hand a partition over."""

    to: str
    epoch: int
    at: Instant
    attempts: int


class _Caller(msgspec.Struct, frozen=True):
    """Somebody waits until a broker leads a partition."""

    request: RequestId
    to: str
    until: Instant


class LeaderTransfers:
    """Lets other replicas lead, while this broker leads the metadata log."""

    def __init__(
        self,
        state: NodeState,
        metadata: ClusterMetadata,
        handovers: Handovers,
    ) -> None:
        """`handovers` are those of this broker, which may be the leader itself."""
        self._state = state
        self._metadata = metadata
        self._handovers = handovers
        self._asked: dict[PartitionId, _Asked] = {}
        self._to_tell: dict[str, dict[tuple[int, int, int], str]] = {}
        # What leaders are ready for, and what is done without them.
        self._wishes: dict[PartitionId, tuple[int, str]] = {}
        self._callers: dict[PartitionId, _Caller] = {}
        # Since when this controller knows the runs of brokers to be active.
        self._active: dict[str, tuple[int, Instant]] = {}
        self._balance_at = Instant(0)
        self._balanced: tuple[int, frozenset[str]] | None = None

    # Wishes

    def request(self, where: PartitionId, to: str, now: Now, *, is_forced: bool = False) -> None:
        """A partition should be led by `to`: ask its leader, unless it was asked a moment ago.

        With `is_forced` it is let lead in the end also if the leader does not help.
        """
        state = self._metadata.image.table.get(*where)
        if state is None or state.leader in {None, to}:
            return
        known = self._asked.get(where)
        attempts = 0
        if known is not None and (known.to, known.epoch) == (to, state.epoch):
            if now.instant - known.at < _REPEAT_NS:
                return
            attempts = known.attempts
        self._asked[where] = _Asked(to, state.epoch, now.instant, attempts + 1)
        if is_forced and attempts >= _ATTEMPTS_MAX:
            self._wishes[where] = (state.epoch, to)
        elif self._metadata.image.feature_level >= FEATURE_LEVEL:
            assert state.leader is not None
            self._to_tell.setdefault(state.leader, {})[*where, state.epoch] = to

    def want(self, sender: str, message: ResignLeaderships) -> None:
        """A leader is ready: the next one has all that it has."""
        named = zip(message.partitions[:_WISHES_MAX], message.heirs, strict=False)
        for (topic, partition, epoch), to in named:
            where = PartitionId(topic, partition)
            state = self._metadata.image.table.get(*where)
            if state is not None and (state.leader, state.epoch) == (sender, epoch):
                self._wishes[where] = (epoch, to)

    def command(self, request: RequestId, where: PartitionId, asked: TransferLeader) -> None:
        """An operator wants a replica to lead; raises Refused if it cannot."""
        image = self._metadata.image
        state = image.table.get(*where)
        if state is None:
            raise Refused(Code.PARTITION_NOT_FOUND, partition=where.partition)
        to = asked.node or state.replicas[0]
        if to not in state.copies:
            raise Refused(Code.NODE_NOT_FOUND, node=to)
        if wanted_leader((to,), state, self._active) is None:
            reason = f"{to} is not in sync"
            raise Refused(Code.LEADER_UNAVAILABLE, partition=where.partition, reason=reason)
        if where in self._callers or len(self._callers) >= _REQUESTS_MAX:
            raise Refused(Code.LOG_BUSY, reason="a transfer is under way")
        self._callers[where] = _Caller(request, to, Instant(0))

    def resign(self, refusal: Refused) -> None:
        """This broker leads no longer: leaders go on by themselves."""
        for caller in self._callers.values():
            self._state.outbox.answer(caller.request, refusal)
        self._callers.clear()
        self._asked.clear()
        self._to_tell.clear()
        self._wishes.clear()
        self._active.clear()
        self._balanced = None

    # Decisions

    def decide(self, live: frozenset[str], now: Now) -> list[MetadataChange]:
        """The transfers that leaders are ready for, as one change."""
        table = self._metadata.image.table
        self._follow_active(live, now)
        self._answer_callers(now)
        changes: list[LeaderChange] = []
        told: list[MetadataChange] = []
        wishes, self._wishes = self._wishes, {}
        for where, (epoch, to) in wishes.items():
            state = table.get(*where)
            if state is None or state.epoch != epoch:
                continue
            if wanted_leader((to,), state, live) is not None:
                changes.append(LeaderChange(where.topic, where.partition, to))
                caller = self._callers.get(where)
                if caller is not None and caller.to == to:
                    change = (FieldChange("leader", state.leader, to),)
                    told += audited(self._state, self._metadata.image, caller.request, change)
        return [LeadersChanged(changes=tuple(changes)), *told] if changes else []

    def finish(self, now: Now, balance_after_ns: int | None) -> None:
        """Restore the balance, and ask the leaders that are to be asked."""
        if balance_after_ns is not None and now.instant >= self._balance_at:
            self._balance_at = Instant(now.instant + _BALANCE_NS)
            self._balance(now, balance_after_ns)
        to_tell, self._to_tell = self._to_tell, {}
        for leader, partitions in to_tell.items():
            heirs = tuple(partitions.values())
            message = ResignLeaderships(partitions=tuple(partitions), heirs=heirs)
            if leader == self._state.node_id:
                self._handovers.request(message)
            else:
                self._state.outbox.append(Send(broker=leader, message=message))
        table = self._metadata.image.table
        for where, asked in list(self._asked.items()):
            state = table.get(*where)
            if state is None or state.epoch != asked.epoch:
                del self._asked[where]

    def _follow_active(self, live: frozenset[str], now: Now) -> None:
        brokers = self._metadata.image.brokers
        for name in [each for each in self._active if each not in live]:
            del self._active[name]
        for name, broker in brokers.items():
            known = self._active.get(name)
            if name in live and (known is None or known[0] != broker.epoch):
                self._active[name] = (broker.epoch, now.instant)

    def _balance(self, now: Now, after_ns: int) -> None:
        """Let preferred leaders that are back lead again, a few at a time."""
        image = self._metadata.image
        able = frozenset(
            name for name, (_, since) in self._active.items() if now.instant - since >= after_ns
        )
        known = (image.version, able)
        under_way = sum(now.instant - each.at < _REPEAT_NS for each in self._asked.values())
        if self._balanced == known or under_way >= _TRANSFERS_MAX:
            return
        coordinator = image.topic(COORDINATOR_LOG.topic)
        wanted, has_tried = 0, False
        for where, to in unbalanced_partitions(image.table, able):
            is_spared = coordinator is not None and where.topic == coordinator.number
            if is_spared:
                continue
            asked = self._asked.get(where)
            if asked is not None and asked.to == to and asked.attempts >= _ATTEMPTS_MAX:
                # Its leader cannot let this one lead now: others come first.
                has_tried = True
                if now.instant - asked.at < _PAUSE_NS:
                    continue
            if wanted >= _TRANSFERS_MAX - under_way:
                break
            self.request(where, to, now)
            wanted += 1
        self._balanced = None if wanted or has_tried else known

    def _answer_callers(self, now: Now) -> None:
        """Answer whoever waits for a leader that leads, or for too long; ask for the others."""
        table = self._metadata.image.table
        for where, caller in list(self._callers.items()):
            state = table.get(*where)
            if state is not None and state.leader == caller.to:
                self._state.outbox.answer(caller.request, LeaderElected(node=caller.to))
                del self._callers[where]
            elif not caller.until:
                until = Instant(now.instant + _CALLER_NS)
                self._callers[where] = msgspec.structs.replace(caller, until=until)
                self.request(where, caller.to, now)
            elif now.instant >= caller.until or state is None:
                reason = "the leader could not hand over in time"
                refusal = Refused(Code.LEADER_UNAVAILABLE, partition=where.partition, reason=reason)
                self._state.outbox.answer(caller.request, refusal)
                del self._callers[where]
            else:
                self.request(where, caller.to, now)
