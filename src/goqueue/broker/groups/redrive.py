"""Redrive: dead letters that are put back into their topic.

The position of redrives in a dead-letter topic is kept like that of a group, so a dead letter that
was put back is settled there for ever. The partitions are scanned first; then each dead letter that
was chosen is moved.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.disk_reads import RedriveFetch
from goqueue.broker.groups.dead_letter_mover import DeadLetterMover
from goqueue.broker.groups.dead_letters import DEAD_LETTERS_GROUP, messages_in, read_dead_letter
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import Steps
from goqueue.delivery import Position
from goqueue.model import Answer, Code, LogId, Now, Offset, Refused, RequestId
from goqueue.model.requests import Redrive, Redriven, Reliability

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


class _Job(msgspec.Struct):
    """One redrive command on its way."""

    request: RequestId
    command: Redrive
    # The partitions with dead letters that are still to be looked through, the present one first.
    logs: deque[LogId]
    chosen: list[_Chosen]
    # How many were found in the present partition.
    found: int = 0
    # How many are on their way, and how many were put back.
    under_way: int = 0
    moved: int = 0

    @property
    def limit(self) -> int:
        return min(self.command.messages_max, _MESSAGES_MAX)


class Redriver:
    """Takes redrive commands."""

    def __init__(self, state: NodeState, mover: DeadLetterMover) -> None:
        self._state = state
        self._mover = mover
        self._jobs: dict[RequestId, _Job] = {}

    def redrive(self, request: RequestId, command: Redrive, now: Now) -> None:
        state = self._state
        state.groups_journal.check_room()
        if command.messages_max < 1:
            raise Refused(Code.REQUEST_INVALID, field="max", minimum=1)
        origin = state.catalog.find_for_writing(command.topic)
        if command.to_topic is not None:
            target = state.catalog.find_for_writing(command.to_topic)
            if state.catalog.holds_dead_letters(target.name):
                raise Refused(Code.DEAD_LETTER_LOOP, topic=target.name)
        dead_letters = state.catalog.get(origin.config.dead_letter_topic)
        logs = [] if dead_letters is None or not dead_letters.is_open else dead_letters.logs
        if command.dead_letters is not None:
            logs = [log for log in logs if log.partition in command.dead_letters]
        if not logs:
            state.outbox.answer(request, Redriven(moved=0))
            return
        job = _Job(request, command, deque(logs), [])
        self._jobs[request] = job
        self._state.stepwise.begin(None, self._scan_next(job, now), now)

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
            partition = self._state.partitions.get(job.logs[0])
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
        partition = self._state.partitions.get(purpose.log)
        if partition is None or data is None or not self._choose(job, partition, purpose, data):
            job.logs.popleft()
            self._state.stepwise.begin(None, self._scan_next(job, now), now)

    def _choose(
        self, job: _Job, partition: Partition, purpose: RedriveFetch, data: memoryview
    ) -> bool:
        """Note the dead letters that are wanted; whether more are read."""
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
                dead_letter = (partition.log_id, Offset(record.offset))
                job.chosen.append(_Chosen(record.timestamp, *dead_letter, target))
                job.found += 1
        if records:
            following = Offset(records[-1].offset + 1)
        if len(job.chosen) >= 2 * _MESSAGES_MAX:
            _keep_oldest(job)
        return self._scan(job, partition, following)

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
        return LogId(topic.name, dead_letter.partition % topic.stated.partitions)

    # Moving

    def _move_all(self, job: _Job, now: Now) -> Steps:
        _keep_oldest(job)
        # Until all are begun, none that has ended is the last.
        job.under_way = 1
        for chosen in job.chosen:
            yield 1
            dead_letters = self._state.partitions.get(chosen.dead_letter)
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
            answer = Answer(request=job.request, reply=Redriven(moved=job.moved))
            self._state.groups_journal.note([], [answer])

    # Counting

    def reliability(self, request: RequestId, now: Now) -> None:
        self._state.stepwise.begin(request, self._answer_reliability(request), now)

    def _answer_reliability(self, request: RequestId) -> Steps:
        tally = self._state.tally
        in_flight = 0
        for group in self._state.group_partitions.polling_groups:
            queues = self._state.group_partitions.queues_of(group)
            in_flight += sum(queue.in_flight for _, queue in queues)
            yield 1 + len(queues) // 8
        dead_letters = {}
        for topic, kept in self.dead_letters_kept():
            dead_letters[topic] = kept
            yield 1
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

    def dead_letters_kept(self) -> Iterator[tuple[str, int]]:
        """Dead letters that are there and were not put back, by the topic that keeps them.

        Turns may be taken between any two: a topic that goes meanwhile has none.
        """
        for topic in list(self._state.catalog):
            if self._state.catalog.holds_dead_letters(topic.name):
                partitions = map(self._state.partitions.get, topic.logs)
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


def _keep_oldest(job: _Job) -> None:
    """Of the dead letters that were found, those that are put back: so many, the oldest first."""
    job.chosen.sort()
    del job.chosen[job.limit :]
