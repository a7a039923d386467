"""Publish: route a batch to its partitions, append, answer when all of it is committed.

Never looks at a single message: routing is a compiled pass of `records`, appending stamps a batch.
A message without a key that comes alone goes where others of these milliseconds went.
Cost per batch: one route pass, then per partition one stamp pass, one write and one shared sync.
A batch for more than 250 partitions is appended over several turns; it is answered as one.
"""

from collections import Counter
from collections.abc import Callable
from typing import NoReturn

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.delayed.delays import DelayedMessages
from goqueue.broker.outbox import PublishAnnounced
from goqueue.broker.partitions import (
    ClusterGate,
    InTransaction,
    Partition,
    Publication,
    Unconfirmed,
    check_copies,
)
from goqueue.broker.schema_validation import SchemaValidation, Violations
from goqueue.broker.state import NodeState
from goqueue.broker.sticky_partitioner import StickyPartitioner
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import Steps
from goqueue.log import BatchMark
from goqueue.model import (
    GIVEN_HEADERS_BYTES_MAX,
    NONCONFORMING,
    Code,
    LogId,
    Now,
    Offset,
    Priority,
    Refused,
    RequestId,
)
from goqueue.model.requests import Acks, Publish, Published, TopicConfig
from goqueue.records import Routed, Unroutable, attach_traceparent, find_delayed, route, walk
from goqueue.transactions import Admission

__all__ = ["PARTS_AT_ONCE", "REFUSALS", "Publisher"]

# So many partitions get their part of a batch in one turn.
PARTS_AT_ONCE = 250
_NORMAL = int(Priority.NORMAL)

# The target of a record that does not conform to the schema of its topic, beside `Unroutable`.
REFUSALS: dict[int, Code] = {
    NONCONFORMING: Code.SCHEMA_VIOLATION,
    Unroutable.TOO_LARGE: Code.MESSAGE_TOO_LARGE,
    Unroutable.NO_KEY: Code.MESSAGE_INVALID,
    Unroutable.NO_PARTITION: Code.PARTITION_NOT_FOUND,
    Unroutable.BAD_PARTITION: Code.PARTITION_INVALID,
    Unroutable.RESERVED: Code.MESSAGE_INVALID,
    Unroutable.HEADERS: Code.MESSAGE_INVALID,
}

PublishFn = Callable[[RequestId, Publish, Now], None]


class _Routed(msgspec.Struct, frozen=True):
    """A batch whose parts are being appended."""

    command: Publish
    topic: Topic
    admission: Admission | None
    routed: Routed
    publication: Publication
    # How many records each partition gets, if the log is to say so.
    counts: dict[int, int]


class Publisher:
    """Takes publish commands."""

    def __init__(
        self,
        state: NodeState,
        delayed_messages: DelayedMessages,
        quotas: TenantQuotas,
        validation: SchemaValidation,
    ) -> None:
        self._state = state
        self._validation = validation
        self._quotas = quotas
        self._delayed_messages = delayed_messages

    def publish(self, request: RequestId, command: Publish, now: Now) -> None:
        if command.producer is not None and command.acks is Acks.NONE:
            # Its answer is how a producer knows which number comes next.
            reason = "must be `leader` or `all` for a producer with an id"
            raise Refused(Code.REQUEST_INVALID, field="acks", reason=reason)
        topic = self._state.catalog.find_for_writing(command.topic)
        if self.needs_validation(command, topic.config):
            if command.producer is not None:
                self._state.require_producer(command.producer.producer_id)
            self.validate(request, command, self.publish, now)
        else:
            self._begin(request, command, topic, now)

    def needs_validation(self, command: Publish, config: TopicConfig) -> bool:
        """Whether it is to be found out which values of a batch conform."""
        return config.schema_validation and bool(command.batch) and not command.is_validated

    def validate(self, request: RequestId, command: Publish, then: PublishFn, now: Now) -> None:
        """Find out which values conform, now or in a later turn; then go on with them."""

        def go_on(request: RequestId, command: Publish, found: Violations, now: Now) -> None:
            then(request, _validated(command, found), now)

        self._validation.submit(request, command, go_on, now)

    def _begin(self, request: RequestId, command: Publish, topic: Topic, now: Now) -> None:
        self._quotas.check_publish(topic.name, len(command.batch), command.dues, now)
        if command.dues:
            self._delayed_messages.check_room(command.dues, now)
        admission = None
        cluster = self._state.cluster
        if command.producer is not None and cluster is not None:
            admission = cluster.admit(request, command, topic, now)
            if admission is None:
                # It waits for its transaction: see `TransactionAdmissions`.
                return
        elif command.producer is not None:
            self._state.require_producer(command.producer.producer_id)
            admission = self._state.transactions.admit(command.producer, now)
        is_marked = admission is not None and admission.is_marked
        is_new = (command.dues and not topic.may_delay) or (is_marked and not topic.may_mark)
        if is_new or (is_marked and topic.announcing):
            self._announce(request, command, topic, admission)
        else:
            self._publish(request, command, topic, admission, now)

    def publish_announced(
        self, announced: PublishAnnounced, now: Now, refusal: Refused | None = None
    ) -> None:
        """That the topic has delays or producers is committed: go on with the first of it.

        With a `refusal` its caller may no longer publish.
        """
        admission = announced.admission
        transaction = None if admission is None else admission.transaction
        topic = self._state.catalog.numbered(announced.topic)
        if topic is not None:
            topic.announcing -= 1
            topic.may_delay |= announced.has_delays
            topic.may_mark |= announced.has_producers
        try:
            if refusal is not None:
                raise refusal
            self._publish_first(announced, topic, now)
        except Refused as refused:
            self._state.refuse(announced.request, refused)
        if transaction is not None:
            self._state.transactions.publication_ended(transaction.key)

    def publish_admitted(
        self, request: RequestId, command: Publish, admission: Admission, now: Now
    ) -> None:
        """It is known which transaction a batch belongs to: go on with it."""
        try:
            topic = self._state.catalog.find_for_writing(command.topic)
            self._publish(request, command, topic, admission, now)
        except Refused as refused:
            self._state.outbox.answer(request, refused)

    def _publish_first(self, announced: PublishAnnounced, topic: Topic | None, now: Now) -> None:
        name = announced.command.topic
        if topic is None or not topic.is_open:
            raise Refused(Code.TOPIC_NOT_FOUND, topic=name)
        admission = announced.admission
        transaction = None if admission is None else admission.transaction
        if transaction is not None and transaction.outcome is not None:
            raise Refused(Code.TRANSACTION_STATE_INVALID, state=transaction.state)
        self._publish(announced.request, announced.command, topic, admission, now)

    def _publish(
        self,
        request: RequestId,
        command: Publish,
        topic: Topic,
        admission: Admission | None,
        now: Now,
    ) -> None:
        has_sequence = admission is not None and admission.sequence is not None
        transaction = None if admission is None else admission.transaction
        if transaction is not None and command.acks is not Acks.ALL:
            command = msgspec.structs.replace(command, acks=Acks.ALL)
        routed = self._route(command, topic, now, has_sequence=has_sequence)
        if self._state.cluster is not None:
            self._check_led(self._state.cluster, command, topic, routed)
        self._quotas.charge_publish(topic.name, len(routed.targets), len(command.batch), now)
        topic.turn = routed.turn
        self._count_priorities(topic, routed)
        waits = command.acks is not Acks.NONE
        waiting = request if waits else None
        purpose: InTransaction | Unconfirmed | None = None if waits else Unconfirmed(request)
        if transaction is not None:
            purpose = InTransaction(transaction.key)
        trace = self._state.traces.start(topic, now)
        publication = Publication(
            waiting, routed.targets, len(routed.parts), now.wall, purpose=purpose, trace=trace
        )
        publication.violations = command.violations or {}
        if transaction is not None and routed.parts:
            transaction.in_flight += 1
            transaction.updated_at = now.wall
        is_marked = admission is not None and admission.is_marked
        counts = _counts(routed) if is_marked else {}
        appending = _Routed(command, topic, admission, routed, publication, counts)
        if len(routed.parts) <= PARTS_AT_ONCE:
            for number, part in routed.parts.items():
                self._append_part(appending, number, part, now)
        else:
            # Nobody can call it back: some of it may be durable already.
            self._state.stepwise.begin(None, self._append_in_turns(appending, now), now)
        if not routed.parts or not waits:
            self._state.outbox.answer(request, publication.published())

    def _check_led(
        self, cluster: ClusterGate, command: Publish, topic: Topic, routed: Routed
    ) -> None:
        """In a cluster: refuse, before anything is appended, what this broker cannot commit."""
        for number in routed.parts:
            led = cluster.check_leads(topic.number, number, LogId(topic.name, number))
            if led.is_handing_over:
                raise Refused(Code.LEADER_UNAVAILABLE, partition=number)
            if command.acks is Acks.ALL:
                check_copies(led, number)

    def _append_in_turns(self, appending: _Routed, now: Now) -> Steps:
        topic = appending.topic.number
        for number, part in appending.routed.parts.items():
            if self._state.catalog.numbered(topic) is not None:
                self._append_part(appending, number, part, now)
            else:
                self._refuse(appending.publication, number, Code.TOPIC_NOT_FOUND)
            yield 2

    def _append_part(self, appending: _Routed, number: int, part: bytearray, now: Now) -> None:
        """Append what goes to one partition."""
        command, topic, admission = appending.command, appending.topic, appending.admission
        transaction = None if admission is None else admission.transaction
        batch = part if not command.trace else attach_traceparent(part, command.trace)
        try:
            partition = self._state.partition(topic, number)
        except Refused as refused:
            # Another broker leads it since the batch was routed.
            self._refuse(appending.publication, number, refused.code)
            return
        mark = None
        if admission is not None and admission.is_marked:
            mark = _mark(admission, appending.counts[number], now)
            if transaction is not None:
                transaction.touches(topic.number, number)
        is_held = command.acks is Acks.LEADER and partition.leader is not None
        first = self._append(partition, batch, mark, appending.publication, now, is_held=is_held)
        delayed = None
        if first is not None and command.dues is not None:
            # The records say themselves when they are due.
            holder = None if transaction is None else transaction.key
            delayed = find_delayed(batch, first)
            self._delayed_messages.expect(partition, delayed, now, holder)
        trace = appending.publication.trace
        if trace is not None and first is not None:
            traces = self._state.traces
            traces.add_part(trace, partition.log_id, batch, first, delayed)

    def route(self, command: Publish, now: Now, *, has_sequence: bool) -> Routed:
        """Take a batch apart for the leaders of its partitions; raises Refused."""
        topic = self._state.catalog.find_for_writing(command.topic)
        routed = self._route(command, topic, now, has_sequence=has_sequence)
        topic.turn = routed.turn
        return routed

    def _route(self, command: Publish, topic: Topic, now: Now, *, has_sequence: bool) -> Routed:
        config = topic.config
        bytes_max = self._quotas.message_bytes_max(topic.name, config.max_message_bytes)
        if has_sequence and command.targets is None and topic.stated.partitions > 1:
            _check_keyed(command.batch)
        conforming = command if not command.violations else _without_violations(command)
        routed = route(
            conforming.batch,
            topic.stated.partitions,
            topic.turn,
            conforming.targets,
            body_bytes_max=bytes_max,
            needs_key=config.cleanup_policy.compacts,
            may_delay=command.dues is not None,
        )
        if command.violations:
            routed = _with_violations(routed, command.violations)
        count = len(routed.targets)
        if routed.lanes[_NORMAL] != count and sum(routed.lanes) != count:
            self._record_refused(command, topic, routed, now)
            if command.is_whole or has_sequence:
                _refuse_whole(routed.targets, topic.stated.partitions, bytes_max)
        if has_sequence and len(routed.parts) != 1:
            raise Refused(
                Code.REQUEST_INVALID, field="partition", reason="is missing: a `sequence` needs it"
            )
        if len(routed.targets) == 1 and routed.turn != topic.turn:
            return _stick(routed, topic, now)
        return routed

    def _record_refused(self, command: Publish, topic: Topic, routed: Routed, now: Now) -> None:
        codes = {
            index: REFUSALS[target] for index, target in enumerate(routed.targets) if target < 0
        }
        self._state.traces.refused(topic, command.batch, codes, now)

    def _append(
        self,
        partition: Partition,
        batch: bytearray,
        mark: BatchMark | None,
        publication: Publication,
        now: Now,
        *,
        is_held: bool = False,
    ) -> Offset | None:
        """The offset of the first record, or None if none was appended.

        With `is_held` it is answered when this broker's own copy has it, and it is sure to lead.
        """
        number = partition.log_id.partition
        published = None
        first = None
        try:
            appended = self._state.append(partition, batch, now, mark)
        except Refused as refused:
            if mark is not None and mark.sequence >= 0:
                self._release(publication)
                _check_current(partition, refused, now)
                raise
            self._refuse(publication, number, refused.code)
        else:
            if appended.is_repeat:
                published = partition.expect_repeat(appended.first, appended.next, publication)
            else:
                first = appended.first
                if is_held:
                    size, at = len(batch), now.instant
                    partition.expect_held(first, appended.next, publication, size, at)
                    if partition.leader is not None:
                        # Others are asked now, if need be, and not when the own copy is durable.
                        partition.leader.is_confirmed(at)
                else:
                    partition.expect(first, appended.next, publication, batch, at=now.instant)
        self._end(publication, published)
        return first

    def _refuse(self, publication: Publication, partition: int, code: Code) -> None:
        self._end(publication, publication.place(partition, Offset(0), 0, code))

    def _end(self, publication: Publication, published: Published | None) -> None:
        """Answer if every partition has decided."""
        if published is not None:
            if publication.request is not None:
                self._state.outbox.answer(publication.request, published)
            self._release(publication)

    def _release(self, publication: Publication) -> None:
        """A publication is over: its transaction need not wait for it."""
        if isinstance(publication.purpose, InTransaction):
            self._state.transactions.publication_ended(publication.purpose.transaction)

    def _count_priorities(self, topic: Topic, routed: Routed) -> None:
        counted, lanes = self._state.tally.published, self._state.counts.topic(topic.name).lanes
        normal = routed.lanes[_NORMAL]
        if normal == len(routed.targets) or normal == sum(routed.lanes):
            counted[_NORMAL] += normal
            lanes[_NORMAL] += normal
            return
        for lane, count in enumerate(routed.lanes):
            counted[lane] += count
            lanes[lane] += count
        self._state.record_lanes(topic)

    def _announce(
        self, request: RequestId, command: Publish, topic: Topic, admission: Admission | None
    ) -> None:
        """The first message of its kind waits until it is committed that the topic has such.

        Otherwise a crash could leave something in a log that no start looks through.
        """
        self._state.metadata.check_room()
        is_marked = admission is not None and admission.is_marked
        stated = msgspec.structs.replace(
            topic.stated,
            has_delays=topic.stated.has_delays or bool(command.dues),
            has_producers=topic.stated.has_producers or is_marked,
        )
        changes = [] if stated == topic.stated else [stated]
        if admission is not None and admission.transaction is not None:
            admission.transaction.in_flight += 1
        topic.announcing += 1
        announced = PublishAnnounced(
            request, command, admission, topic.number, stated.has_delays, stated.has_producers
        )
        self._state.metadata.propose(changes, [announced])


def _validated(command: Publish, violations: Violations) -> Publish:
    """The same with what is known of its values; refuses what must be taken whole."""
    if violations:
        has_sequence = command.producer is not None and command.producer.sequence is not None
        if command.is_whole or has_sequence:
            index = min(violations)
            found = violations[index]
            raise Refused(found.code, index=index, path=found.path, reason=found.reason)
    return msgspec.structs.replace(command, violations=dict(violations), is_validated=True)


def _without_violations(command: Publish) -> Publish:
    """The same with the records that conform, and no others."""
    refused, batch = command.violations or {}, command.batch
    positions = [*walk(batch).positions, len(batch)]
    kept = bytearray()
    for index in range(len(positions) - 1):
        if index not in refused:
            kept += batch[positions[index] : positions[index + 1]]
    targets = command.targets
    if targets is not None:
        targets = [each for index, each in enumerate(targets) if index not in refused]
    return msgspec.structs.replace(command, batch=kept, targets=targets)


def _with_violations(routed: Routed, violations: Violations) -> Routed:
    """The same with the targets of all records, also of those that do not conform."""
    conforming = iter(routed.targets)
    count = len(routed.targets) + len(violations)
    targets = [NONCONFORMING if each in violations else next(conforming) for each in range(count)]
    return Routed(routed.parts, targets, routed.turn, routed.lanes)


def _check_current(partition: Partition, refused: Refused, now: Now) -> None:
    """What a log lacks proves nothing if another broker may lead: refuse so that it is retried."""
    led = partition.leader
    is_doubtful = refused.code in {Code.SEQUENCE_OUT_OF_ORDER, Code.PRODUCER_FENCED}
    if is_doubtful and led is not None and not led.is_confirmed(now.instant):
        raise Refused(Code.LEADER_UNAVAILABLE, partition=partition.log_id.partition) from refused


def _stick(routed: Routed, topic: Topic, now: Now) -> Routed:
    """The same with the partition that messages without a key go to now, where one comes alone."""
    if topic.sticky is None:
        topic.sticky = StickyPartitioner()
    number = topic.sticky.choose(topic.stated.partitions, now.instant)
    (part,) = routed.parts.values()
    return Routed({number: part}, [number], topic.turn, routed.lanes)


def _counts(routed: Routed) -> dict[int, int]:
    """How many records each partition gets."""
    if len(routed.parts) == 1:
        (number,) = routed.parts
        return {number: routed.targets.count(number)}
    return Counter(routed.targets)


def _mark(admission: Admission, count: int, now: Now) -> BatchMark:
    """What the log is to say of a batch of so many records."""
    transaction = admission.transaction
    return BatchMark(
        producer=admission.producer,
        epoch=admission.epoch,
        sequence=-1 if admission.sequence is None else admission.sequence,
        count=count,
        transaction=0 if transaction is None else transaction.number,
        at=now.wall,
    )


def _refuse_whole(targets: list[int], partitions: int, limit: int) -> NoReturn:
    """Refuse everything, since one record cannot be taken; the facts name the first."""
    index = next(index for index, target in enumerate(targets) if target < 0)
    code = REFUSALS[targets[index]]
    match code:
        case Code.MESSAGE_TOO_LARGE:
            raise Refused(code, index=index, limit=limit)
        case Code.PARTITION_NOT_FOUND | Code.PARTITION_INVALID:
            raise Refused(code, index=index, partitions=partitions)
        case _ if targets[index] == Unroutable.HEADERS:
            raise Refused(code, index=index, part="headers", limit=GIVEN_HEADERS_BYTES_MAX)
        case _:
            raise Refused(code, index=index)


def _check_keyed(batch: bytearray) -> None:
    """Refuse numbered messages that would go to any partition: a repeat would go to another."""
    if not all(walk(batch).key_lengths):
        reason = "is missing: messages with a `sequence` need a key or a partition"
        raise Refused(Code.REQUEST_INVALID, field="partition", reason=reason)
