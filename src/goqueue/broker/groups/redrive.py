"""Redrive: dead letters that are put back into their topic.

The position of redrives in a dead-letter topic is kept like that of a group, so a dead letter that
was put back is settled there for ever. The partitions are scanned first; then each dead letter that
was chosen is moved.

If the target validates, what a scan read is checked before anything of it is chosen. A dead letter
whose value is refused stays where it is, is counted and neither charged nor tried again by this
redrive; it takes nobody's place among those that are wanted. The verdict is of the time of the
scan: a schema that changes before the move is not asked again.
Cost per 32 KiB that were read: one pass of validation, over as many turns as it needs.
"""

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.disk_reads import RedriveFetch
from goqueue.broker.groups.dead_letter_mover import DeadLetterMover
from goqueue.broker.groups.dead_letters import (
    DEAD_LETTERS_GROUP,
    Cause,
    messages_in,
    read_dead_letter,
)
from goqueue.broker.partitions import Partition
from goqueue.broker.schema_validation import SchemaValidation, Violations
from goqueue.broker.state import NodeState, Tally
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import Steps
from goqueue.delivery import Position
from goqueue.model import (
    Code,
    DeadLettersRefused,
    LogId,
    Now,
    Offset,
    Refused,
    Report,
    RequestId,
)
from goqueue.model.requests import (
    Operation,
    Redrive,
    Redriven,
    RefusedDeadLetter,
    Reliability,
    ResourceType,
)
from goqueue.records import walk
from goqueue.security import Admitted, NameFilter

__all__ = ["Redriver"]

# A turn's work: dead letters are small, and each is taken apart.
_SIFT_BYTES = 32 * 1024
_MESSAGES_MAX = 10_000


class _Chosen(msgspec.Struct, frozen=True, order=True):
    """A dead letter to be put back; the oldest comes first."""

    timestamp: int
    dead_letter: LogId
    offset: Offset
    target: LogId
    size: int


class _Job(msgspec.Struct):
    """One redrive command on its way."""

    request: RequestId
    command: Redrive
    admitted: Admitted | None
    # The number of the topic with the dead letters: another may get its name meanwhile.
    topic: int
    # The partitions with dead letters that are still to be looked through, the present one first.
    logs: deque[LogId]
    chosen: list[_Chosen]
    # How many were found in the present partition.
    found: int = 0
    # How many are on their way, and how many were put back.
    under_way: int = 0
    moved: int = 0
    # How many stay because their topic refuses their values, and the first of them.
    refused: int = 0
    first_refused: RefusedDeadLetter | None = None

    @property
    def limit(self) -> int:
        return min(self.command.messages_max, _MESSAGES_MAX)


class Redriver:
    """Takes redrive commands."""

    def __init__(
        self,
        state: NodeState,
        mover: DeadLetterMover,
        quotas: TenantQuotas,
        validation: SchemaValidation,
    ) -> None:
        self._state = state
        self._validation = validation
        self._mover = mover
        self._quotas = quotas
        self._jobs: dict[RequestId, _Job] = {}

    def redrive(self, request: RequestId, command: Redrive, now: Now) -> None:
        state = self._state
        state.journals.of_groups.check_room()
        if command.messages_max < 1:
            raise Refused(Code.REQUEST_INVALID, field="max", minimum=1)
        self._require_targets(command)
        origin = state.catalog.find_for_writing(command.topic)
        dead_letters_name = state.dead_letters_of(origin)
        state.access.require(ResourceType.TOPIC, dead_letters_name, Operation.READ)
        if command.to_topic is not None:
            target = state.catalog.find_for_writing(command.to_topic)
            if state.catalog.holds_dead_letters(target.name):
                raise Refused(Code.DEAD_LETTER_LOOP, topic=target.name)
        dead_letters = state.catalog.get(dead_letters_name)
        logs = [] if dead_letters is None or not dead_letters.is_open else dead_letters.logs
        if command.dead_letters is not None:
            logs = [log for log in logs if log.partition in command.dead_letters]
        if dead_letters is None or not logs:
            state.outbox.answer(request, Redriven(moved=0))
            return
        admitted = state.access.note_command()
        job = _Job(request, command, admitted, dead_letters.number, deque(logs), [])
        self._jobs[request] = job
        self._state.stepwise.begin(None, self._scan_next(job, now), now)

    def _require_targets(self, command: Redrive) -> None:
        """Refuse to put messages where the caller may not write, or into another tenant."""
        access, target = self._state.access, command.to_topic or command.topic
        access.require_owner(command.topic, Refused(Code.TOPIC_NOT_FOUND, topic=command.topic))
        access.require(ResourceType.TOPIC, target, Operation.WRITE)
        access.require_same_tenant(command.topic, target)

    def _partition(self, job: _Job, log: LogId) -> Partition | None:
        """A partition that the job reads; None if its topic was deleted meanwhile."""
        topic = self._state.catalog.numbered(job.topic)
        return None if topic is None or not topic.is_open else self._state.partitions.get(log)

    def _position(self, dead_letters: Partition) -> Position:
        place = self._state.group_partitions.open(
            DEAD_LETTERS_GROUP, dead_letters.log_id, dead_letters.log.start
        )
        return place.position

    # Scanning

    def _scan_next(self, job: _Job, now: Now) -> Steps:
        """Go on at the next partition with dead letters; the last was the last to look at."""
        while job.logs:
            yield 1
            job.found = 0
            partition = self._partition(job, job.logs[0])
            if partition is not None:
                if self._scan(job, partition, self._position(partition).floor):
                    return
            job.logs.popleft()
        yield from self._move_all(job, now)

    def _scan(self, job: _Job, partition: Partition, offset: Offset) -> bool:
        """Read dead letters from here on; False if there is nothing more to read or to find."""
        if job.found >= job.limit:
            return False
        log = partition.log
        try:
            wanted = log.read(log.readable_from(offset), _SIFT_BYTES, below=log.watermarks.stable)
        except Refused:
            return False
        if wanted is None:
            return False
        self._state.fetch(wanted, RedriveFetch(job.request, partition.log_id, wanted.below))
        return True

    def records_fetched(self, purpose: RedriveFetch, data: memoryview | None, now: Now) -> None:
        job = self._jobs.get(purpose.request)
        if job is None:
            return
        partition = self._partition(job, purpose.log)
        if partition is None or data is None:
            self._leave(job, now)
            return
        wanted, following = self._sift(job, partition, purpose, data)
        target = self._state.catalog.get(job.command.to_topic or job.command.topic)
        if not wanted or target is None or not target.config.schema_validation:
            self._choose(job, purpose.log, wanted, following, now)
            return

        def choose(violations: Violations, now: Now) -> None:
            self._note_refused(job, wanted, violations)
            conforming = [each for index, each in enumerate(wanted) if index not in violations]
            self._choose(job, purpose.log, conforming, following, now)

        self._validation.check(target.name, _records(data, wanted), choose, now)

    def _leave(self, job: _Job, now: Now) -> None:
        """There is nothing more to find in the present partition."""
        job.logs.popleft()
        self._state.stepwise.begin(None, self._scan_next(job, now), now)

    def _sift(
        self, job: _Job, partition: Partition, purpose: RedriveFetch, data: memoryview
    ) -> tuple[list[_Chosen], Offset]:
        """The dead letters that are wanted, and where to read on."""
        wanted: list[_Chosen] = []
        following = purpose.upto
        position = self._position(partition)
        records = list(messages_in(data)) if len(data) else []
        self._state.budget.spend(len(records))
        aborted = partition.log.producers.aborted
        meant = job.command.dead_letters
        for record in records:
            is_meant = meant is None or record.offset in meant[purpose.log.partition]
            if record.offset in aborted or not is_meant:
                continue
            if position.is_over(record.offset):
                continue
            target = self._target(job.command, record.headers)
            if target is not None:
                log, offset = partition.log_id, Offset(record.offset)
                size = len(record.value or b"") + len(record.key)
                wanted.append(_Chosen(record.timestamp, log, offset, target, size))
        if records:
            following = Offset(records[-1].offset + 1)
        return wanted, following

    def _choose(
        self, job: _Job, log: LogId, wanted: list[_Chosen], following: Offset, now: Now
    ) -> None:
        """Note what is to be put back, and read on."""
        job.chosen += wanted
        job.found += len(wanted)
        if len(job.chosen) >= 2 * _MESSAGES_MAX:
            _keep_oldest(job)
        # It may have been deleted while values were validated.
        partition = self._partition(job, log)
        if partition is None or not self._scan(job, partition, following):
            self._leave(job, now)

    def _note_refused(self, job: _Job, wanted: list[_Chosen], violations: Violations) -> None:
        job.refused += len(violations)
        if violations and job.first_refused is None:
            index = min(violations)
            found, place = violations[index], wanted[index]
            job.first_refused = RefusedDeadLetter(
                log=place.dead_letter,
                offset=place.offset,
                code=found.code,
                path=found.path,
                reason=found.reason,
            )

    def _target(self, command: Redrive, headers: tuple[tuple[str, bytes], ...]) -> LogId | None:
        """Where a dead letter goes; None if it is not one of those that are wanted."""
        dead_letter = read_dead_letter(headers)
        if dead_letter is None or dead_letter.topic != command.topic:
            return None
        reasons = {dead_letter.cause, dead_letter.reason}
        if command.reason is not None and command.reason not in reasons:
            return None
        topic: Topic | None = self._state.catalog.get(command.to_topic or dead_letter.topic)
        if topic is None or not topic.is_open:
            return None
        # A tenant may have been made since the message died: it never gets that of another.
        if self._state.access.owner(topic.name) != self._state.access.owner(command.topic):
            return None
        return LogId(topic.name, dead_letter.partition % topic.stated.partitions)

    # Moving

    def _move_all(self, job: _Job, now: Now) -> Steps:
        _keep_oldest(job)
        if job.chosen and not self._may_move(job, now):
            return
        version = self._state.security.version
        # Until all are begun, none that has ended is the last.
        job.under_way = 1
        for chosen in job.chosen:
            yield 1
            if version != self._state.security.version:
                version = self._state.security.version
                if self._refusal(job, now) is not None:
                    # What has begun to move is there; no more of it does.
                    break
            dead_letters = self._partition(job, chosen.dead_letter)
            if dead_letters is None:
                # They were deleted while they were scanned.
                continue
            position = self._position(dead_letters)
            if position.is_over(chosen.offset):
                # Another redrive took it meanwhile.
                continue
            job.under_way += 1
            self._mover.redrive(chosen.dead_letter, chosen.offset, chosen.target, job.request, now)
        job.chosen.clear()
        self._ended(job, 1)

    def _may_move(self, job: _Job, now: Now) -> bool:
        """Whether the caller may still move what was chosen, and its tenant store it.

        Otherwise the redrive is refused.
        """
        target = job.command.to_topic or job.command.topic
        size = sum(each.size for each in job.chosen)
        refused = self._refusal(job, now)
        if refused is None:
            try:
                self._quotas.check_publish(target, size, None, now)
            except Refused as over:
                refused = over
        if refused is not None:
            del self._jobs[job.request]
            self._state.refuse(job.request, refused)
            return False
        self._quotas.charge_publish(target, len(job.chosen), size, now)
        return True

    def _refusal(self, job: _Job, now: Now) -> Refused | None:
        """Why the redrive would be refused if it came now."""
        state = self._state
        topic = state.catalog.numbered(job.topic)
        try:
            with state.access.resuming(job.admitted, now):
                self._require_targets(job.command)
                if topic is not None:
                    state.access.require(ResourceType.TOPIC, topic.name, Operation.READ)
        except Refused as refused:
            return refused
        return None

    def finish_turn(self) -> None:
        """Moves may have ended: answer the redrives that waited for them."""
        moved, unmoved = self._mover.take_redriven()
        for request, count in moved.items():
            job = self._jobs[request]
            job.moved += count
            self._ended(job, count)
        for request, count in unmoved.items():
            self._ended(self._jobs[request], count)

    def _ended(self, job: _Job, count: int) -> None:
        job.under_way -= count
        if not job.under_way:
            del self._jobs[job.request]
            first = job.first_refused
            reply = Redriven(moved=job.moved, refused=job.refused, first_refused=first)
            self._state.journals.answer(job.request, reply, [self._state.journals.of_groups])
            if first is not None:
                self._report(job, first)

    def _report(self, job: _Job, first: RefusedDeadLetter) -> None:
        refused = DeadLettersRefused(
            topic=job.command.to_topic or job.command.topic,
            dead_letter_topic=first.log.topic,
            count=job.refused,
            partition=first.log.partition,
            offset=first.offset,
            code=first.code.value,
            path=first.path,
            reason=first.reason,
        )
        self._state.outbox.append(Report(report=refused))

    # Counting

    def reliability(self, request: RequestId, now: Now) -> None:
        sees = self._state.access.visible_topics()
        self._state.stepwise.begin(request, self._answer_reliability(request, sees), now)

    def _answer_reliability(self, request: RequestId, sees: NameFilter) -> Steps:
        in_flight = 0
        for group in self._state.group_partitions.polling_groups:
            queues = self._state.group_partitions.queues_of(group)
            in_flight += sum(
                queue.in_flight for log, queue in queues if sees is None or sees(log.topic)
            )
            yield 1 + len(queues) // 8
        dead_letters = {}
        for topic, kept in self.dead_letters_kept():
            if sees is None or sees(topic):
                dead_letters[topic] = kept
            yield 1
        tally = self._state.tally if sees is None else self._tally_of(sees)
        reply = Reliability(
            acks=tally.acks,
            nacks=tally.nacks,
            rejects=tally.rejects,
            dead_letters=sum(dead_letters.values()),
            extensions=tally.extensions,
            redeliveries=tally.redeliveries,
            expirations=tally.expirations,
            in_flight=in_flight,
            rejected_dead_letters=tally.rejected_dead_letters,
            exhausted_dead_letters=tally.exhausted_dead_letters,
            dead_letters_by_topic=dead_letters,
            releases=tally.releases,
        )
        self._state.outbox.answer(request, reply)

    def _tally_of(self, sees: Callable[[str], bool]) -> Tally:
        """What was counted on topics that a caller sees, and that are still there."""
        counts = self._state.counts
        tally = Tally()
        for (topic, _), pair in counts.pairs():
            if sees(topic):
                tally.acks += pair.acked
                tally.nacks += pair.nacked
                tally.rejects += pair.rejected
                tally.releases += pair.released
                tally.extensions += pair.extended
                tally.redeliveries += pair.redelivered
                tally.expirations += pair.expired
        for topic, counted in counts.topics():
            if sees(topic):
                tally.rejected_dead_letters += counted.moved.get(Cause.REJECTED, 0)
                tally.exhausted_dead_letters += counted.moved.get(Cause.MAX_DELIVERIES, 0)
        return tally

    def dead_letters_kept(self, *, is_scrape: bool = False) -> Iterator[tuple[str, int]]:
        """Dead letters that are there and were not put back, by the topic that keeps them.

        Turns may be taken between any two: a topic that goes meanwhile has none. A scrape has no
        copies made of partitions that this broker does not keep.
        """
        find = self._state.partitions.present if is_scrape else self._state.partitions.get
        for topic in list(self._state.catalog):
            if self._state.catalog.holds_dead_letters(topic.name):
                partitions = map(find, topic.logs)
                yield (
                    topic.name,
                    sum(self._count_kept(each) for each in partitions if each is not None),
                )

    def _count_kept(self, dead_letters: Partition) -> int:
        position = self._position(dead_letters)
        floor = max(position.floor, dead_letters.log.start)
        end = dead_letters.log.watermarks.stable
        hidden = self._state.hidden_within(dead_letters.log_id, floor, end)
        return max(0, end - floor - position.settled_within(floor, end) - hidden)


def _records(data: memoryview, wanted: list[_Chosen]) -> bytearray:
    """The records of these dead letters, one behind the other."""
    columns = walk(data)
    meant = {each.offset for each in wanted}
    ends = [*columns.positions[1:], len(data)]
    records = bytearray()
    for offset, start, end in zip(columns.offsets, columns.positions, ends, strict=True):
        if offset in meant:
            records += data[start:end]
    return records


def _keep_oldest(job: _Job) -> None:
    """Of the dead letters that were found, those that are put back: so many, the oldest first."""
    job.chosen.sort()
    del job.chosen[job.limit :]
