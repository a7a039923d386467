"""Batches of transactional ids, at the leader of their partitions: each waits for its transaction.

Which transaction a producer has open, and that a partition takes part in it, says the coordinator,
and that is committed before the first batch is appended. What is asked once is then in the log: as
long as the log of a partition has the transaction open, its batches wait for nobody. So there is
nothing here that can be older than the log, and the next leader knows the same.

Invariants
- A batch is appended only after its partition is a committed participant of its transaction.
- Batches of one producer are appended in the order in which they came.

Bounds: 1,000 batches with 32 MiB wait; more is refused at once.
Cost: one question to the coordinator for each transaction and each group of partitions that are
written together.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.cluster.cluster_config import COORDINATOR_LOG
from goqueue.broker.cluster.forward_parts import OneReply, Part, Request, RequestNumbers
from goqueue.broker.cluster.forwarder import Forwarder
from goqueue.broker.publish import Publisher
from goqueue.broker.state import NodeState
from goqueue.model import LOCAL, Code, LogId, Now, Refused, RequestId, TransactionKey
from goqueue.model.requests import (
    AddParticipants,
    ProducerStamp,
    Publish,
    Reply,
    TransactionAdmitted,
)
from goqueue.transactions import Admission, Transaction

__all__ = ["TransactionAdmissions"]

_WAITING_MAX = 1_000
_BYTES_MAX = 32 * 1024 * 1024
# They are about the log of the coordinator: whoever publishes must not follow them.
_OF_COORDINATOR = frozenset({Code.NOT_LEADER, Code.NOT_CONTROLLER})


class _WaitingBatch(msgspec.Struct, frozen=True, eq=False):
    request: RequestId
    command: Publish
    stamp: ProducerStamp
    tenant: str


class TransactionAdmissions:
    """Asks the coordinator for the first batch of each transaction."""

    def __init__(
        self,
        state: NodeState,
        publisher: Publisher,
        check: Callable[[RequestId, Now], Refused | None],
        heard: Callable[[LogId, ProducerStamp, Now], None],
    ) -> None:
        """`check` says why a request may not go on; `heard` learns who writes to which log."""
        self._state = state
        self._publisher = publisher
        self._check = check
        self._heard = heard
        self._waiting: dict[int, deque[_WaitingBatch]] = {}
        self._count = 0
        self._bytes = 0
        # Questions to the coordinator, each for the first batch of a producer.
        self._asked: dict[RequestId, _WaitingBatch] = {}
        self._forwarder: Forwarder
        self._numbers: RequestNumbers

    def connect(self, forwarder: Forwarder, numbers: RequestNumbers) -> None:
        """Questions go out by the forwarder."""
        self._forwarder = forwarder
        self._numbers = numbers

    @property
    def waiting_count(self) -> int:
        return self._count

    def admit(
        self, request: RequestId, command: Publish, topic: Topic, now: Now
    ) -> Admission | None:
        """The transaction of a batch; None if it waits, and is published later. Raises Refused."""
        stamp = command.producer
        assert stamp is not None
        if stamp.epoch < 0 or (stamp.sequence is not None and stamp.sequence < 0):
            raise Refused(Code.REQUEST_INVALID, field="producer", minimum=0)
        targets = _targets(command, topic)
        self._check_led(topic, targets)
        if stamp.producer_id not in self._waiting:
            admission = self._admission(stamp, topic, targets, now)
            if admission is not None:
                return admission
        size = len(command.batch)
        if self._count >= _WAITING_MAX or self._bytes + size > _BYTES_MAX:
            reason = "too many batches wait for the transaction coordinator"
            raise Refused(Code.BROKER_UNAVAILABLE, reason=reason)
        tenant = self._state.access.tenant
        self._state.access.note_principal()
        batch = _WaitingBatch(request, command, stamp, tenant)
        self._count += 1
        self._bytes += size
        queue = self._waiting.setdefault(stamp.producer_id, deque())
        queue.append(batch)
        if len(queue) == 1:
            self._ask(batch, topic, targets, now)
        return None

    def _check_led(self, topic: Topic, targets: list[int]) -> None:
        cluster = self._state.cluster
        assert cluster is not None
        for number in targets:
            cluster.check_leads(topic.number, number, LogId(topic.name, number))

    def _admission(
        self, stamp: ProducerStamp, topic: Topic, targets: list[int], now: Now
    ) -> Admission | None:
        """The transaction that is open in all of these partitions, if it is one."""
        numbers: dict[int | None, None] = {}
        for target in targets:
            partition = self._state.partitions.get(LogId(topic.name, target))
            producers = None if partition is None else partition.log.producers
            found = None if producers is None else producers.open_number(*_who(stamp))
            numbers[found] = None
        (number, *others) = numbers or (None,)
        if number is None or others:
            return None
        return self._admitted(stamp, topic, targets, number, now)

    def _admitted(
        self, stamp: ProducerStamp, topic: Topic, targets: list[int], number: int, now: Now
    ) -> Admission:
        for target in targets:
            self._heard(LogId(topic.name, target), stamp, now)
        transaction = Transaction(TransactionKey(stamp.producer_id, number), stamp.epoch, now.wall)
        return Admission(stamp.producer_id, stamp.epoch, stamp.sequence, transaction)

    # Asking

    def _ask(self, batch: _WaitingBatch, topic: Topic, targets: list[int], now: Now) -> None:
        question = AddParticipants(
            producer_id=batch.stamp.producer_id,
            producer_epoch=batch.stamp.epoch,
            topic=topic.number,
            partitions=tuple(targets),
            tenant=batch.tenant,
        )
        number = self._numbers.take_here()
        self._asked[number] = batch
        whole = Request(number, question, LOCAL, OneReply(), now.instant)
        part = Part(whole, question, COORDINATOR_LOG, is_repeatable=True)
        try:
            self._forwarder.begin(whole, [part], now)
        except Refused as refused:
            self._state.outbox.answer(number, refused)

    def take_answer(self, request: RequestId, reply: Reply | Refused, now: Now) -> bool:
        """The coordinator answered; False if nobody here asked for that."""
        batch = self._asked.pop(request, None)
        if batch is None:
            return False
        queue = self._waiting.get(batch.stamp.producer_id)
        if queue is not None and queue[0] is batch:
            self._drop_first(batch.stamp.producer_id)
            self._continue(batch, reply, now)
        self._resume(batch.stamp.producer_id, now)
        return True

    def _continue(self, batch: _WaitingBatch, reply: Reply | Refused, now: Now) -> None:
        refusal = self._check(batch.request, now)
        if refusal is None and isinstance(reply, TransactionAdmitted):
            self._publish(batch, reply.transaction, now)
            return
        if refusal is None:
            refusal = reply if isinstance(reply, Refused) else Refused(Code.LEADER_UNAVAILABLE)
            if refusal.code in _OF_COORDINATOR:
                reason = "the transaction coordinator is being elected"
                refusal = Refused(Code.LEADER_UNAVAILABLE, reason=reason)
        self._state.outbox.answer(batch.request, refusal)

    def _publish(self, batch: _WaitingBatch, number: int, now: Now) -> None:
        topic = self._state.catalog.get(batch.command.topic)
        if topic is None:
            self._state.outbox.answer(batch.request, Refused(Code.TOPIC_NOT_FOUND))
            return
        targets = _targets(batch.command, topic)
        admission = self._admitted(batch.stamp, topic, targets, number, now)
        self._publisher.publish_admitted(batch.request, batch.command, admission, now)

    def _resume(self, producer: int, now: Now) -> None:
        """Go on with the batches that came behind, as far as nobody has to be asked."""
        while producer in self._waiting:
            batch = self._waiting[producer][0]
            try:
                topic = self._state.catalog.find_for_writing(batch.command.topic)
                targets = _targets(batch.command, topic)
                self._check_led(topic, targets)
                admission = self._admission(batch.stamp, topic, targets, now)
            except Refused as refused:
                self._drop_first(producer)
                self._state.outbox.answer(batch.request, refused)
                continue
            if admission is None or admission.transaction is None:
                self._ask(batch, topic, targets, now)
                return
            self._drop_first(producer)
            admitted = TransactionAdmitted(transaction=admission.transaction.number)
            self._continue(batch, admitted, now)

    def _drop_first(self, producer: int) -> None:
        queue = self._waiting[producer]
        self._forget(queue.popleft())
        if not queue:
            del self._waiting[producer]

    def _forget(self, batch: _WaitingBatch) -> None:
        self._count -= 1
        self._bytes -= len(batch.command.batch)

    def cancel(self, request: RequestId) -> bool:
        """The caller of a batch is gone; False if it does not wait here."""
        for producer, queue in self._waiting.items():
            for batch in queue:
                if batch.request == request:
                    self._remove(producer, queue, batch)
                    return True
        return False

    def _remove(self, producer: int, queue: deque[_WaitingBatch], batch: _WaitingBatch) -> None:
        is_first = queue[0] is batch
        if is_first and len(queue) > 1:
            # Its answer is still to come: the others wait for that.
            return
        queue.remove(batch)
        self._forget(batch)
        if not queue:
            del self._waiting[producer]

    def end_all(self) -> None:
        """The node stops: nothing of these was written."""
        for queue in self._waiting.values():
            for batch in queue:
                refusal = Refused(Code.LEADER_UNAVAILABLE, reason="the node stops")
                self._state.outbox.answer(batch.request, refusal)
        self._waiting.clear()
        self._asked.clear()
        self._count = self._bytes = 0


def _who(stamp: ProducerStamp) -> tuple[int, int]:
    return stamp.producer_id, stamp.epoch


def _targets(command: Publish, topic: Topic) -> list[int]:
    """The partitions that a batch goes to, as the receiving broker chose them."""
    if command.targets is None:
        assert topic.stated.partitions == 1, "the edge chooses partitions"
        return [0]
    return sorted({each for each in command.targets if 0 <= each < topic.stated.partitions})
