"""The messages of schedules: sent when a tick is due, exactly once.

A tick is a transaction of the broker. The messages of schedules that are due and go to the same
partition are appended together, unseen; when they are committed, one record of the journal decides
that they count and up to when each of these schedules has ticked; a marker shows them. So after a
crash a tick was sent or is due, never both and never neither (docs/adr/0032-schedules.md).

Invariants
- A schedule waits for its next tick, or is in one batch, or waits to be tried again.
- So many batches are under way at most, and together hold no more messages than a turn may visit.
- A tick that a schema or the state of its tenant refuses stays due, and the schedule says so.

Cost per tick: its message is built once; an append, a journal record and a marker are shared by the
batch. Nothing runs while nothing is due.
"""

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.journal_changes import TopicStated
from goqueue.broker.outbox import CarryOver
from goqueue.broker.partitions import ForTick, Publication
from goqueue.broker.schedule_validation import ScheduleValidation
from goqueue.broker.schema_validation import SchemaValidation
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.copies import Copies
from goqueue.broker.turns import Errand
from goqueue.log import BatchMark
from goqueue.model import (
    MILLISECOND,
    SCHEDULE_HEADER,
    SECOND,
    TICK_HEADER,
    Answer,
    Code,
    Header,
    Instant,
    LogId,
    Message,
    Now,
    Offset,
    Priority,
    Refused,
    RequestId,
    Timestamp,
    TransactionKey,
    Violation,
    format_time,
)
from goqueue.model.requests import (
    Operation,
    Placed,
    RunSchedule,
    ScheduleRan,
    ScheduleSpec,
)
from goqueue.records import Routed, Unroutable, build, route
from goqueue.schedules import Schedule, ScheduleTicked
from goqueue.transactions import Outcome

__all__ = ["TICK_UNITS", "TickSender"]

# As in `DeadLetterMover`: one sync may end the wait of all batches.
_BATCHES_MAX = 8
_BATCH_BYTES = 1024 * 1024
_RETRY_NS = SECOND
# A topic that is gone may be created again, which is noticed; the rest needs somebody's hand.
_PROBLEM_RETRY_NS = 30 * SECOND
# Schedules whose messages are being validated at once.
_CHECKS_MAX = 64
# Commands that wait for the tick of one schedule.
_WAITING_MAX = 100
# To compute a next tick costs about as much as so many other units.
TICK_UNITS = 10


class _Entry(msgspec.Struct, frozen=True):
    """A part of a batch: ticks of a schedule, or a message that somebody asked for."""

    schedule: Schedule
    ticks: tuple[Timestamp, ...]
    upto: Timestamp | None = None
    request: RequestId | None = None

    @property
    def count(self) -> int:
        return len(self.ticks)


class _Target(msgspec.Struct, frozen=True):
    """Where the message of a schedule goes, found for these definitions of both."""

    topic: TopicStated
    spec: ScheduleSpec
    bytes_max: int
    partition: int

    def is_of(self, topic: TopicStated, spec: ScheduleSpec, bytes_max: int) -> bool:
        """Whether it was found for these very definitions."""
        return self.topic is topic and self.spec is spec and self.bytes_max == bytes_max


class _Batch:
    """Messages that go to one partition together."""

    __slots__ = ("count", "entries", "first", "log", "number", "records", "size", "topic")

    def __init__(self, log: LogId, topic: int) -> None:
        self.log = log
        # The topic's number: another of the same name may be there later.
        self.topic = topic
        self.entries: list[_Entry] = []
        # How many messages it has.
        self.count = 0
        self.records = bytearray()
        # Of its records, once they are appended.
        self.size = 0
        self.number = 0
        self.first = Offset(0)


class TickSender:
    """Sends what is due, and what somebody asks for."""

    def __init__(
        self,
        state: NodeState,
        coordinator: TransactionCoordinator,
        copies: Copies,
        quotas: TenantQuotas,
        validation: SchemaValidation,
    ) -> None:
        self._state = state
        self._copies = copies
        self.validation = ScheduleValidation(state, validation)
        # How many schedules wait until their messages are validated.
        self._checking = 0
        self._quotas = quotas
        self._schedules = state.schedules
        self._coordinator = coordinator
        self._gathered: dict[LogId, _Batch] = {}
        self._batches: dict[int, _Batch] = {}
        # Schedules whose next tick is still to be computed after a start.
        self._unarmed: deque[int] = deque()
        self._routes: dict[int, _Target] = {}
        # When schedules that could not send are tried again.
        self._stalled: list[tuple[Instant, int]] = []
        # Schedules and runs that wait until a topic is announced, by its number.
        self._announcing: dict[int, list[_Entry]] = {}
        # Commands by the number of the schedule whose tick they wait for.
        self._waiting: dict[int, deque[Callable[[Now], None]]] = {}

    def when_idle(
        self, request: RequestId, schedule: Schedule, change: Callable[[Now], None], now: Now
    ) -> None:
        """Change a schedule now, or when the tick that is on its way is decided."""
        self._state.journals.of_groups.check_room()
        if not schedule.is_busy:
            change(now)
            self.begin_arming(schedule, now)
            return
        waiting = self._waiting.setdefault(schedule.number, deque())
        if len(waiting) >= _WAITING_MAX:
            raise Refused(Code.LOG_BUSY, reason="many changes of the schedule wait for its tick")
        admitted = self._state.access.note_command()

        def change_later(now: Now) -> None:
            try:
                with self._state.access.resuming(admitted, now):
                    self._schedules.check(schedule)  # a command that waited may have deleted it
                    self._state.find_schedule(schedule.spec.name, Operation.WRITE)
                    change(now)
            except Refused as refused:
                self._state.journals.of_groups.note([], [Answer(request=request, reply=refused)])

        waiting.append(change_later)

    def forget(self, schedule: Schedule) -> None:
        """A schedule was deleted."""
        self._routes.pop(schedule.number, None)
        self.validation.forget(schedule)

    # Running now

    def run(self, request: RequestId, command: RunSchedule, now: Now) -> None:
        schedule = self._state.find_schedule(command.name, Operation.WRITE)
        self.check_target(schedule.spec)
        self._begin_run(request, schedule, now)

    def _begin_run(self, request: RequestId, schedule: Schedule, now: Now) -> None:
        spec = schedule.spec

        def run(now: Now) -> None:
            self._schedules.check(schedule)
            if schedule.spec is spec:
                self._run(request, schedule, now)
            else:
                # It was changed while its message was validated.
                self._begin_run(request, schedule, now)

        self.validation.require(request, spec, run, now)

    def _run(self, request: RequestId, schedule: Schedule, now: Now) -> None:
        self._state.journals.of_groups.check_room()
        entry = _Entry(schedule, (now.wall,), request=request)
        self._check_quotas(entry, now)
        target = self._target(entry)
        if target is None:
            # It was deleted while the message was validated.
            raise Refused(Code.TOPIC_NOT_FOUND, topic=schedule.spec.topic)
        self._gather(entry, target)
        self._append_gathered(now)

    def check_target(self, spec: ScheduleSpec) -> None:
        """Refuse a message that its topic would not take, or that is for another tenant."""
        self._state.access.require_same_tenant(spec.name, spec.topic)
        topic = self._state.catalog.find_for_writing(spec.topic)
        wanted = spec.message.partition
        if wanted is not None and wanted < 0:
            raise Refused(Code.PARTITION_INVALID, found=wanted)
        routed = self._route(spec, topic, 0)
        target = routed.targets[0]
        if target >= 0:
            return
        limit = self._bytes_max(topic)
        match Unroutable(target):
            case Unroutable.TOO_LARGE:
                raise Refused(Code.MESSAGE_TOO_LARGE, limit=limit)
            case Unroutable.NO_PARTITION | Unroutable.BAD_PARTITION:
                code = Code.PARTITION_NOT_FOUND
                raise Refused(code, partitions=topic.stated.partitions)
            case Unroutable.NO_KEY:
                reason = "a message of a compacted topic needs a key"
                raise Refused(Code.MESSAGE_INVALID, reason=reason)
            case _:
                raise Refused(Code.MESSAGE_INVALID, reason="its headers are too large")

    def _check_quotas(self, entry: _Entry, now: Now) -> None:
        """Refuse messages that are above a quota of the tenant that would store them."""
        spec = entry.schedule.spec
        # Without its headers: built is the message when it is sent.
        size = entry.count * (len(spec.message.value or b"") + len(spec.message.key or b""))
        self._quotas.check_publish(spec.topic, size, None, now)

    def _bytes_max(self, topic: Topic) -> int:
        return self._quotas.message_bytes_max(topic.name, topic.config.max_message_bytes)

    def _route(self, spec: ScheduleSpec, topic: Topic, turn: int) -> Routed:
        message = spec.message
        batch = build([_message(spec, ())])
        return route(
            batch,
            topic.stated.partitions,
            turn % topic.stated.partitions,
            None if message.partition is None else [message.partition],
            body_bytes_max=self._bytes_max(topic),
            needs_key=topic.config.cleanup_policy.compacts,
        )

    # Time

    def begin(self, now: Now) -> None:
        """A life begins: every schedule waits for its next tick."""
        self._unarmed.extend(each.number for each in self._schedules)
        if self._unarmed:
            self._state.alarms.set(Errand.SCHEDULES, now.instant)

    def begin_arming(self, schedule: Schedule, now: Now) -> None:
        """Let it wait for its next tick; to compute that is left to a turn that has the time."""
        if schedule.knows_following:
            self._state.budget.spend()
            self._schedules.arm(schedule)
            self.look_at_clock(now)
        else:
            self._unarmed.append(schedule.number)
            self._state.alarms.bring_forward(Errand.SCHEDULES, now.instant)

    def look_at_clock(self, now: Now) -> None:
        """Wake when the first schedule is due, by the wall clock as it is now."""
        alarms = self._state.alarms
        deadline = self._schedules.next_deadline()
        if deadline is not None and self._has_room:
            wait_ns = max(0, deadline - now.wall)
            alarms.bring_forward(Errand.SCHEDULES, Instant(now.instant + wait_ns))
        if self._stalled:
            alarms.bring_forward(Errand.SCHEDULES, max(now.instant, self._stalled[0][0]))
        if self._unarmed:
            alarms.bring_forward(Errand.SCHEDULES, now.instant)

    def wake(self, now: Now) -> None:
        """Send what is due, as much of it as the turn allows."""
        budget = self._state.budget
        while self._stalled and self._stalled[0][0] <= now.instant and not budget.is_spent:
            budget.spend(TICK_UNITS)
            self._try_again(heappop(self._stalled)[1])
        while self._unarmed and not budget.is_spent:
            schedule = self._schedules.numbered(self._unarmed.popleft())
            budget.spend(TICK_UNITS)
            if schedule is not None and not schedule.is_busy and schedule.next_tick is None:
                self._schedules.arm(schedule)
        while not budget.is_spent and self._has_room:
            schedule = self._schedules.pop_due(now.wall)
            if schedule is None:
                break
            self._fire(schedule, now)
        self._append_gathered(now)
        self.look_at_clock(now)

    @property
    def _has_room(self) -> bool:
        under_way = len(self._batches) + len(self._gathered) + len(self._announcing)
        announcing = sum(map(len, self._announcing.values()))
        is_open = under_way < _BATCHES_MAX and self._checking < _CHECKS_MAX
        return is_open and announcing < self._messages_max

    @property
    def _messages_max(self) -> int:
        return max(1, self._state.budget.units // _BATCHES_MAX)

    def _try_again(self, number: int) -> None:
        schedule = self._schedules.numbered(number)
        if schedule is not None and not schedule.is_busy:
            self._schedules.arm(schedule)

    # Sending

    def _fire(self, schedule: Schedule, now: Now) -> None:
        """Put the ticks of a schedule that are due into a batch."""
        due = schedule.due(now.wall, self._messages_max)
        self._state.budget.spend(TICK_UNITS * max(1, len(due.ticks)))
        counts = self._state.counts.schedules
        counts.skips += due.has_skipped
        if not due.ticks:
            self._state.journals.of_groups.note([self._ticked(schedule, due.upto, ())])
            self._release(schedule, now)
            return
        entry = _Entry(schedule, due.ticks, due.upto)
        if self.validation.is_good(schedule):
            self._send(entry, now)
            return
        self._checking += 1
        self.validation.check(schedule, lambda found, now: self._checked(entry, found, now), now)

    def _checked(self, entry: _Entry, found: Violation | None, now: Now) -> None:
        """It is known whether the topic takes the message of a tick."""
        self._checking -= 1
        if found is None:
            self._send(entry, now)
        else:
            self.validation.note_refused(entry.schedule, found)
            self._stall(entry.schedule, now, _PROBLEM_RETRY_NS)
        # What was gathered, and what waited for room, goes on in the next turn.
        self._state.alarms.bring_forward(Errand.SCHEDULES, now.instant)

    def _send(self, entry: _Entry, now: Now) -> None:
        schedule = entry.schedule
        target = self._target(entry)
        if target is None:
            self._stall(schedule, now, _PROBLEM_RETRY_NS)
            return
        try:
            self._quotas.check_active(schedule.spec.name)
            self._check_quotas(entry, now)
        except Refused as refused:
            schedule.problem = f"its message was refused: {refused.code}"
            wait_ns = refused.facts.get("retry_after_ms", 0) * MILLISECOND
            self._stall(schedule, now, max(wait_ns, _RETRY_NS) if wait_ns else _PROBLEM_RETRY_NS)
            return
        self._gather(entry, target)
        if self._gathered.get(target) and self._is_full(self._gathered[target]):
            self._append(self._gathered.pop(target), now)

    def _is_full(self, batch: _Batch) -> bool:
        return batch.count >= self._messages_max or len(batch.records) >= _BATCH_BYTES

    def _target(self, entry: _Entry) -> LogId | None:
        """Where messages of a schedule go now; None if nowhere, and the schedule says why."""
        schedule, spec = entry.schedule, entry.schedule.spec
        topic = self._state.catalog.get(spec.topic)
        if topic is None or not topic.is_open:
            schedule.problem = f"there is no topic {spec.topic}"
            return None
        if self._state.access.owner(spec.name) != self._state.access.owner(spec.topic):
            # A tenant was made for one of the two names after the schedule.
            schedule.problem = f"the topic {spec.topic} belongs to another tenant"
            return None
        target = self._routes.get(schedule.number)
        bytes_max = self._bytes_max(topic)
        if target is None or not target.is_of(topic.stated, spec, bytes_max):
            partition = self._route(spec, topic, 0).targets[0]
            target = _Target(topic.stated, spec, bytes_max, partition)
            self._routes[schedule.number] = target
        if target.partition < 0:
            schedule.problem = f"the topic {spec.topic} does not take the message"
            return None
        partition = target.partition
        if spec.message.partition is None and not spec.message.key:
            partition = (schedule.number + schedule.stated.sent) % topic.stated.partitions
        if not topic.may_mark:
            self._announce(topic)
        return LogId(topic.name, partition)

    def _gather(self, entry: _Entry, log: LogId) -> None:
        topic = self._state.catalog.find(log.topic)
        if not topic.may_mark:
            self._announcing[topic.number].append(entry)
            return
        batch = self._gathered.get(log)
        if batch is None:
            batch = self._gathered[log] = _Batch(log, topic.number)
        batch.entries.append(entry)
        batch.count += entry.count
        spec = entry.schedule.spec
        batch.records += build([_message(spec, _headers(entry, tick)) for tick in entry.ticks])

    def _announce(self, topic: Topic) -> None:
        """A start must look through the topic for messages that do not count."""
        if topic.number not in self._announcing:
            self._announcing[topic.number] = []
            stated = msgspec.structs.replace(topic.stated, has_producers=True)
            changes = [] if stated == topic.stated else [stated]
            self._state.metadata.propose(changes, [CarryOver(topic.number)])

    def announced(self, later: CarryOver, now: Now) -> None:
        """That the topic has such messages is committed: go on."""
        for entry in self._announcing.pop(later.topic, ()):
            topic = self._state.catalog.numbered(later.topic)
            target = self._target(entry) if topic is not None else None
            if target is None:
                self._give_up(entry, Code.TOPIC_NOT_FOUND, now)
            else:
                self._gather(entry, target)
        self._append_gathered(now)
        self.look_at_clock(now)

    def _append_gathered(self, now: Now) -> None:
        gathered, self._gathered = self._gathered, {}
        for batch in gathered.values():
            self._append(batch, now)

    def _append(self, batch: _Batch, now: Now) -> None:
        """Append messages as a transaction of the broker."""
        topic = self._state.catalog.numbered(batch.topic)
        if topic is None:
            self._give_up_all(batch, Code.TOPIC_NOT_FOUND, now)
            return
        number = self._state.next_move
        key = TransactionKey.of_move(number)
        mark = BatchMark(
            producer=key.producer,
            epoch=0,
            sequence=-1,
            count=batch.count,
            transaction=key.number,
            at=now.wall,
        )
        publication = Publication(None, [], 1, now.wall, purpose=ForTick(number))
        try:
            first = self._copies.append(batch.log, batch.records, mark, publication, now)
        except Refused as refused:
            self._give_up_all(batch, refused.code, now)
            return
        self._state.next_move += 1
        batch.number, batch.size = number, len(batch.records)
        self._quotas.charge_publish(batch.log.topic, batch.count, batch.size, now)
        self._batches[number] = batch
        if any(each.schedule.spec.message.priority != Priority.NORMAL for each in batch.entries):
            self._state.record_lanes(topic)
        if first is not None:
            publication.trace = self._state.traces.start(topic, now)
        if first is not None and publication.trace is not None:
            self._state.traces.add_part(publication.trace, batch.log, batch.records, first, None)
        batch.records = bytearray()

    # Deciding

    def appended(self, number: int, placed: Placed, now: Now) -> None:
        """The messages of a batch are committed, or were taken back by the disk."""
        batch = self._batches[number]
        topic, refused = self._state.catalog.numbered(batch.topic), placed.refused
        if refused is not None or topic is None:
            del self._batches[number]
            self._coordinator.abort_move(number, self._state.journals.of_groups)
            self._give_up_all(batch, refused or Code.TOPIC_NOT_FOUND, now)
            return
        batch.first = placed.first
        self._state.budget.spend(batch.count)
        ticked = [
            self._ticked(entry.schedule, entry.upto, entry.ticks)
            for entry in batch.entries
            if entry.upto is not None
        ]
        place = (batch.topic, batch.log.partition)
        journal = self._state.journals.of_groups
        self._coordinator.decide_move(number, Outcome.COMMITTED, place, journal, ticked)
        for entry in batch.entries:
            if entry.upto is not None:
                entry.schedule.problem = None
                self._release(entry.schedule, now)

    def _ticked(
        self, schedule: Schedule, upto: Timestamp, ticks: tuple[Timestamp, ...]
    ) -> ScheduleTicked:
        stated = schedule.stated
        change = ScheduleTicked(
            number=schedule.number,
            upto=upto,
            sent=stated.sent + len(ticks),
            last_tick=ticks[-1] if ticks else stated.last_tick,
        )
        self._schedules.apply(change)
        return change

    def completed(self, numbers: Iterable[int], now: Now) -> None:
        """Readers see the messages of these batches, if they are ours."""
        for number in numbers:
            batch = self._batches.pop(number, None)
            if batch is not None:
                self._complete(batch, now)
                self.look_at_clock(now)

    def _complete(self, batch: _Batch, now: Now) -> None:
        counts = self._state.counts.schedules
        self._state.meter(batch.log.topic).count_published(batch.count, batch.size)
        offset = batch.first
        for entry in batch.entries:
            if entry.request is None:
                counts.ticks += entry.count
                for tick in entry.ticks:
                    counts.lateness.observe(max(0, now.wall - tick))
            else:
                counts.runs += 1
                ran = ScheduleRan(log=batch.log, offset=offset, timestamp=entry.ticks[0])
                self._state.outbox.answer(entry.request, ran)
            offset = Offset(offset + entry.count)

    # Giving up for now

    def _give_up_all(self, batch: _Batch, code: Code, now: Now) -> None:
        for entry in batch.entries:
            self._give_up(entry, code, now)

    def _give_up(self, entry: _Entry, code: Code, now: Now) -> None:
        """What could not be appended is due again; a run is refused."""
        if entry.request is not None:
            refused = Refused(code, topic=entry.schedule.spec.topic)
            self._state.outbox.answer(entry.request, refused)
            return
        entry.schedule.problem = f"its message was refused: {code}"
        is_gone = code is Code.TOPIC_NOT_FOUND
        self._stall(entry.schedule, now, _PROBLEM_RETRY_NS if is_gone else _RETRY_NS)

    def _stall(self, schedule: Schedule, now: Now, wait_ns: int) -> None:
        self._state.counts.schedules.failures += 1
        schedule.is_busy = False
        schedule.next_tick = None
        heappush(self._stalled, (Instant(now.instant + wait_ns), schedule.number))
        self._run_waiting(schedule, now)
        self.look_at_clock(now)

    def _release(self, schedule: Schedule, now: Now) -> None:
        """A tick was decided: wait for the next, and do what waited for that."""
        schedule.is_busy = False
        self._run_waiting(schedule, now)
        self.begin_arming(schedule, now)

    def _run_waiting(self, schedule: Schedule, now: Now) -> None:
        for change in self._waiting.pop(schedule.number, ()):
            self._state.budget.spend()
            change(now)

    def topic_opened(self, now: Now) -> None:
        """A topic was created: some may have waited for it."""
        stalled, self._stalled = self._stalled, []
        self._unarmed.extend(number for _, number in stalled)
        self.look_at_clock(now)


def _message(spec: ScheduleSpec, headers: tuple[Header, ...]) -> Message:
    message = spec.message
    return Message(
        value=message.value,
        key=message.key,
        headers=(*message.headers, *headers),
        priority=message.priority,
    )


def _headers(entry: _Entry, tick: Timestamp) -> tuple[Header, ...]:
    """What a message says of the schedule; one that was run by hand has no tick."""
    name = (SCHEDULE_HEADER, entry.schedule.spec.name.encode())
    if entry.request is not None:
        return (name,)
    return (name, (TICK_HEADER, format_time(tick).encode()))
