"""Partitions that transactions write to, as the leaders of these partitions ask for them.

A leader appends the first batch of a transaction when its partition is committed here as a
participant: from then on somebody knows where a marker has to go. It reports what stays open.

Cost: one change for all the partitions of a question that are new; one pass over a report.
"""

from goqueue.broker.state import NodeState
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.model import Answer, Code, LogId, Now, Refused, RequestId, TransactionKey
from goqueue.model.requests import (
    AddParticipants,
    AddPartition,
    Done,
    Reply,
    ReportTransactions,
    TransactionAdmitted,
)
from goqueue.transactions import Transaction

__all__ = ["Participants"]


class Participants:
    """Answers leaders; see `TransactionCoordinator` for what follows a decision."""

    def __init__(self, state: NodeState, coordinator: TransactionCoordinator) -> None:
        self._state = state
        self._coordinator = coordinator

    def add(self, request: RequestId, command: AddParticipants, now: Now) -> None:
        """A leader has a batch: which transaction it belongs to, once that may be written."""
        state = self._state
        state.journals.of_producers.check_room()
        producers = state.transactions.producers
        known = producers.get(command.producer_id)
        if known is None or known.tenant != command.tenant:
            raise Refused(Code.PRODUCER_NOT_FOUND, producer_id=command.producer_id)
        producer = producers.find(command.producer_id, command.producer_epoch, now)
        transaction = state.transactions.writable(producer)
        topic = state.catalog.numbered(command.topic)
        if topic is None or max(command.partitions, default=0) >= topic.stated.partitions:
            # It was deleted, or the image here is older than that of the leader.
            raise Refused(Code.LEADER_UNAVAILABLE, reason="the metadata are on their way")
        transaction.updated_at = now.wall
        places = [(topic.number, number) for number in command.partitions if number >= 0]
        admitted = TransactionAdmitted(transaction=transaction.number)
        self._add(request, transaction, places, admitted)

    def add_partition(self, request: RequestId, command: AddPartition, now: Now) -> None:
        """A client names a partition that it will write to."""
        state = self._state
        state.journals.of_producers.check_room()
        producer = state.find_owner(command.owner, now)
        transaction = state.transactions.writable(producer)
        topic = state.catalog.find_for_writing(command.log.topic)
        number = command.log.partition
        if not 0 <= number < topic.stated.partitions:
            count = topic.stated.partitions
            raise Refused(Code.PARTITION_NOT_FOUND, partition=number, partitions=count)
        transaction.updated_at = now.wall
        self._add(request, transaction, [(topic.number, number)], Done())

    def _add(
        self,
        request: RequestId,
        transaction: Transaction,
        places: list[tuple[int, int]],
        reply: Reply,
    ) -> None:
        journal = self._coordinator.add_participants(transaction, places)
        if journal is None:
            self._state.journals.answer_current(request, reply)
        else:
            journal.note([], [Answer(request=request, reply=reply)])

    def report(self, request: RequestId, command: ReportTransactions, now: Now) -> None:
        """Leaders tell who published, and what is open in their partitions."""
        state = self._state
        producers = state.transactions.producers
        for heard in command.heard:
            producer = producers.get(heard.producer_id)
            if producer is not None and producer.epoch == heard.epoch:
                producers.hear(producer, now)
        state.budget.spend(len(command.heard) // 10 + len(command.open))
        for each in command.open:
            topic = state.catalog.numbered(each.topic)
            if topic is not None and 0 <= each.partition < topic.stated.partitions:
                key = TransactionKey(each.producer, each.transaction)
                log = LogId(topic.name, each.partition)
                self._coordinator.end_reported(key, log, topic.number, now)
        state.outbox.answer(request, Done())
