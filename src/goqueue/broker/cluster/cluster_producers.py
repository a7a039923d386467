"""Producer ids in a cluster: for producers without transactions, and which are which.

Each run of a broker gives out ids from blocks that the controller allocated to it, so an id is
given once in the life of the cluster. Whether a batch is a repeat is decided by the partition that
has it, from its log; nothing else of such a producer is kept anywhere.

Ids with a transactional id begin at `TRANSACTIONAL_FROM`: the transaction coordinator numbers
those, in its own log. So the id says who is to be asked about a producer.

Invariant: an id that was given out is in a block of the committed image.
An id that the image here lacks may be known to the broker that gave it out: whoever uses it waits
until this image is as new, two seconds at most.
Cost: one record of the metadata log for each thousand producers of a broker.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Protocol

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Errand
from goqueue.cluster import ProducerIdsAllocated
from goqueue.model import (
    SECOND,
    AllocateProducerIds,
    Code,
    Instant,
    Now,
    PartitionMessage,
    Refused,
    RequestId,
)
from goqueue.model.requests import (
    Done,
    HeartbeatProducer,
    InitProducer,
    ProducerGranted,
    ProducerStamp,
    Publish,
)
from goqueue.transactions import Admission

__all__ = ["TRANSACTIONAL_FROM", "ClusterProducers", "is_transactional"]

TRANSACTIONAL_FROM = 1 << 40

_WAITING_MAX = 1_000
_WAIT_NS = 5 * SECOND
_REPEAT_NS = SECOND // 2
# For so long a heartbeat waits for the image to have its id.
_IMAGE_WAIT_NS = 2 * SECOND


def is_transactional(producer_id: int) -> bool:
    """Whether a producer has a transactional id: it writes in transactions only."""
    return producer_id >= TRANSACTIONAL_FROM


class _IdWait(msgspec.Struct, frozen=True):
    request: RequestId
    until: Instant


class _HeartbeatWait(msgspec.Struct, frozen=True):
    """A heartbeat with an id that the image of this broker does not have, perhaps not yet."""

    request: RequestId
    producer_id: int
    until: Instant


class TransactionGate(Protocol):
    """Who knows which transaction a batch belongs to: see `ClusterTransactions`."""

    def admit(
        self, request: RequestId, command: Publish, topic: Topic, now: Now
    ) -> Admission | None: ...


class ClusterProducers:
    """Gives out producer ids, and admits batches of producers."""

    def __init__(
        self, state: NodeState, ask_controller: Callable[[PartitionMessage], None]
    ) -> None:
        self._state = state
        self._ask_controller = ask_controller
        self._blocks: deque[range] = deque()
        self._waiting: deque[_IdWait] = deque()
        self._heartbeats: deque[_HeartbeatWait] = deque()
        self._transactions: TransactionGate
        self._epoch = 0
        # Every id below was allocated to somebody.
        self._next_id = 1
        self._asked_at: Instant | None = None

    def init(self, request: RequestId, command: InitProducer, now: Now) -> None:
        """A producer wants an id; answered when there is one."""
        assert command.transactional_id is None, "the coordinator knows transactional ids"
        if len(self._waiting) >= _WAITING_MAX:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many producers wait for an id")
        self._waiting.append(_IdWait(request, Instant(now.instant + _WAIT_NS)))
        self._answer()
        self.wake(now)

    def heartbeat(self, request: RequestId, command: HeartbeatProducer, now: Now) -> None:
        """Nothing of a producer without transactions expires here.

        Another broker may have given out an id that the image here lacks: it is waited for.
        """
        producer_id = command.producer_id
        if producer_id < self._next_id:
            self._check_id(producer_id)
            self._state.outbox.answer(request, Done())
            return
        if len(self._heartbeats) >= _WAITING_MAX:
            raise Refused(Code.BROKER_UNAVAILABLE, reason="too many producers wait for metadata")
        until = Instant(now.instant + _IMAGE_WAIT_NS)
        self._heartbeats.append(_HeartbeatWait(request, producer_id, until))
        self._state.alarms.bring_forward(Errand.CLUSTER, until)

    def _check_id(self, producer_id: int) -> None:
        if not 0 < producer_id < self._next_id:
            raise _not_found(producer_id)

    def connect(self, transactions: TransactionGate) -> None:
        """Batches of transactional ids are admitted elsewhere."""
        self._transactions = transactions

    def admit_batch(
        self, request: RequestId, command: Publish, topic: Topic, now: Now
    ) -> Admission | None:
        """A batch of any producer; None if it has to wait, and is published later."""
        assert command.producer is not None
        if is_transactional(command.producer.producer_id):
            return self._transactions.admit(request, command, topic, now)
        return self.admit(command.producer)

    def admit(self, stamp: ProducerStamp) -> Admission:
        """A batch of a producer without a transactional id: its partition decides the rest."""
        self._check_id(stamp.producer_id)
        if stamp.epoch < 0:
            raise Refused(Code.REQUEST_INVALID, field="epoch", minimum=0)
        if stamp.sequence is not None and stamp.sequence < 0:
            raise Refused(Code.REQUEST_INVALID, field="sequence", minimum=0)
        return Admission(stamp.producer_id, stamp.epoch, stamp.sequence, None)

    def registered(self, epoch: int, next_id: int) -> None:
        """The image has this run of the broker in this epoch; ids below `next_id` are allocated."""
        self._epoch = epoch
        self._next_id = max(self._next_id, next_id)
        self._answer_heartbeats()

    def allocated(self, change: ProducerIdsAllocated) -> None:
        """A block was committed."""
        self._next_id = max(self._next_id, change.first + change.count)
        self._answer_heartbeats()
        if change.broker == self._state.node_id and change.epoch == self._epoch:
            self._blocks.append(range(change.first, change.first + change.count))
            self._asked_at = None
            self._answer()

    def _answer(self) -> None:
        while self._waiting and self._blocks:
            block = self._blocks[0]
            granted = ProducerGranted(producer_id=block.start, epoch=0)
            self._state.outbox.answer(self._waiting.popleft().request, granted)
            if len(block) > 1:
                self._blocks[0] = block[1:]
            else:
                self._blocks.popleft()

    def _answer_heartbeats(self) -> None:
        waiting, self._heartbeats = self._heartbeats, deque()
        for wait in waiting:
            if wait.producer_id < self._next_id:
                self._state.outbox.answer(wait.request, Done())
            else:
                self._heartbeats.append(wait)

    def next_deadline(self) -> Instant | None:
        deadlines = [wait.until for wait in islice(self._heartbeats, 1)]
        if self._waiting and self._asked_at is not None:
            deadlines += [self._waiting[0].until, Instant(self._asked_at + _REPEAT_NS)]
        return min(deadlines, default=None)

    def wake(self, now: Now) -> None:
        """Ask again for what did not come, and let nobody wait for ever."""
        while self._waiting and self._waiting[0].until <= now.instant:
            refusal = Refused(Code.NOT_CONTROLLER)
            self._state.outbox.answer(self._waiting.popleft().request, refusal)
        while self._heartbeats and self._heartbeats[0].until <= now.instant:
            wait = self._heartbeats.popleft()
            self._state.outbox.answer(wait.request, _not_found(wait.producer_id))
        is_due = self._asked_at is None or now.instant >= self._asked_at + _REPEAT_NS
        if self._waiting and is_due:
            self._asked_at = now.instant
            self._ask_controller(AllocateProducerIds(broker_epoch=self._epoch))


def _not_found(producer_id: int) -> Refused:
    return Refused(Code.PRODUCER_NOT_FOUND, producer_id=producer_id)
