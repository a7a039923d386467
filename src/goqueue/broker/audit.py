"""The audit trail: no change without its record, also after a crash.

A change and its audit record are one journal record. When that is committed the audit record goes
to the log `__audit`, and the answer to the caller waits until it is committed there, too. What a
crash leaves in between, the start appends.

Numbers rise over both journals, and records are appended in the order of their numbers, each once
its journal has it. So the last record of the audit log tells which are missing: those with higher
numbers. `AuditWritten` in the journal says the same, a little later, so that a start needs to read
the audit log only after a crash in between, and not at all after its retention emptied it.

Invariants
- A record is appended once, after its change is durable; a refused command has none.
- The answer to a recorded command leaves after its record is durable.
- A full disk delays answers. A disk that fails refuses them, and every later command that would be
  recorded, until a restart; nothing else waits for the audit log.

In a cluster the audit record of a change of the metadata is part of its record in the metadata log,
and every node appends it to its own audit log when it follows that record (`follow`). Each record
of the audit log says up to where that was done, so a start knows from the last one what to append
of the metadata log, and what it has. A log that is stated anew has no earlier changes: the
controller begins that only when its own audit log has them all.

Crash points: before the journal commits, neither change nor record exist; after it, the start finds
the record in the journal; after the audit log commits, the start finds it there by its number.
Cost: per recorded command one journal entry of some 300 bytes, one record and one more sync.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import Change, TopicChange
from goqueue.broker.outbox import AuditDurable, Outbox
from goqueue.broker.turns import Alarms, Errand
from goqueue.log import Log
from goqueue.model import (
    HOUR,
    LOCAL,
    ROOT_KEY,
    SECOND,
    Answer,
    Caller,
    Code,
    DiskEvent,
    Failed,
    Filled,
    Instant,
    KeyId,
    LogId,
    LogSettings,
    Message,
    NodeEffect,
    Now,
    Observed,
    Offset,
    Refused,
    RequestId,
    Slice,
    Timestamp,
    format_time,
)
from goqueue.model.requests import Command, Role
from goqueue.records import build, decode, walk
from goqueue.security import (
    DEFAULT_TENANT,
    AuditRecord,
    AuditRecorded,
    AuditSubject,
    AuditWritten,
    Denial,
    DenialFold,
    FieldChange,
    RecordRate,
    SecurityRegistry,
    shown,
    subject_of,
)

__all__ = ["AUDIT_LOG", "AUDIT_SETTINGS", "NO_FACTS", "AuditConfig", "AuditTrail"]

AUDIT_LOG = LogId("__audit", 0)
AUDIT_SETTINGS = LogSettings(
    segment_bytes=16 * 1024 * 1024,
    retention_ns=90 * 24 * HOUR,
    retention_bytes=1024 * 1024 * 1024,
    may_use_reserve=True,
)


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the audit log is kept, and what the record of a start says; nothing: there is none."""

    log: LogSettings = AUDIT_SETTINGS
    start_facts: tuple[FieldChange, ...] = ()


NO_FACTS = AuditConfig()
_RETRY_NS = SECOND
_BATCH_MAX = 256
# How many pairs of a key and an address are remembered, and how often the root key is recorded.
_SEEN_MAX = 10_000
_ROOT_NS = 60 * SECOND
_RECORD = msgspec.json.Decoder(AuditRecord)

_DONE = "done"
_DENIED = "denied"


class _Draft(msgspec.Struct, frozen=True):
    """A command that is recorded if it changes something."""

    caller: Caller
    subject: AuditSubject
    at: Timestamp


class _Place(NamedTuple):
    """A change in the metadata log of a cluster: the version of its record, and which one of it."""

    version: int
    part: int


class _Entry(msgspec.Struct):
    """A record on its way to the audit log; `next` is the offset behind it once it is appended."""

    record: AuditRecord
    is_durable: bool
    next: Offset = Offset(0)


class _Unwritten(msgspec.Struct, frozen=True):
    """A record that the audit log may not have; no journal: an earlier life wrote it."""

    record: AuditRecord
    journal: LogId | None


class AuditTrail:
    """Records commands, and keeps their answers until that is durable."""

    # In a cluster: the broker's own journal, whichever log a change goes to. Another broker may
    # read that log next, and has records and numbers of its own.
    home: "Callable[[], Journal[TopicChange]] | None" = None

    def __init__(
        self,
        node_id: str,
        outbox: Outbox,
        alarms: Alarms,
        security: SecurityRegistry,
        config: AuditConfig = NO_FACTS,
    ) -> None:
        self._node_id = node_id
        self._outbox = outbox
        self._alarms = alarms
        self._security = security
        self.settings = config.log
        self._start_facts = config.start_facts
        # Set while starting.
        self._log: Log | None = None
        self._drafts: dict[RequestId, _Draft] = {}
        # By number, what the journals say and the audit log is not known to have.
        self._unwritten: dict[int, _Unwritten] = {}
        # In the order of their numbers: not appended yet, and appended.
        self._waiting: deque[_Entry] = deque()
        self._appended: deque[_Entry] = deque()
        self._next_number = 1
        self._written_upto = 0
        self._stated_upto = 0
        # Up to where changes of the metadata are in the audit log, and on their way to it.
        self._written_place = self._followed = _Place(0, 0)
        # Requests whose records are part of changes of the metadata, which were not followed yet.
        self._proposed: dict[RequestId, None] = {}
        # Requests whose answers wait for a record, and those answers.
        self._awaited: dict[RequestId, int] = {}
        self._held: list[tuple[int, Answer]] = []
        self._failure: str | None = None
        self._has_begun = False
        self._denials = DenialFold()
        # Keys with the addresses that they were used from, and when that was recorded.
        self._seen: dict[tuple[KeyId, str], Instant] = {}
        self._denial_rate = RecordRate()
        self._use_rate = RecordRate()

    @property
    def is_quiet(self) -> bool:
        """Whether the audit log has all that it should."""
        return not self._waiting and not self._appended

    # Start

    def open(self, log: Log) -> Slice | None:
        """The audit log is open: where its last record is, to be read."""
        self._log = log
        if log.high_watermark == log.start:
            return None
        return log.read(Offset(log.high_watermark - 1), 1)

    def learn_last(self, data: memoryview | None) -> None:
        """The last record was read, or cannot be: then some may be written a second time."""
        for position in () if data is None else walk(data).positions:
            record = _RECORD.decode(decode(data or b"", position).value or b"")
            self._written_upto = max(self._written_upto, record.number)
            self._written_place = max(self._written_place, _place_of(record))
        self._next_number = max(self._next_number, self._written_upto + 1)

    def begin(self, now: Now) -> None:
        """A life begins: append what the journals have and the audit log has not."""
        self._has_begun = True
        self._followed = self._written_place
        self._forget_written()
        for number in sorted(self._unwritten):
            self._waiting.append(_Entry(self._unwritten[number].record, is_durable=True))
        self._append(now)
        if self._start_facts:
            subject = AuditSubject("node.start", f"node:{self._node_id}")
            self.observe(LOCAL, subject, self._start_facts, now)

    # What the journals say

    def apply(self, change: AuditRecorded | AuditWritten) -> None:
        if isinstance(change, AuditWritten):
            self._written_upto = max(self._written_upto, change.upto)
            place = _Place(change.version, change.part)
            self._written_place = max(self._written_place, place)
            number = change.upto
        else:
            number = change.record.number
            self._unwritten[number] = _Unwritten(change.record, None)
        self._next_number = max(self._next_number, number + 1)

    def state(self, journal: LogId) -> list[AuditRecorded]:
        """What a journal is to say again: the records that the audit log may not have."""
        if self.home is not None and journal != self.home().id:
            return []
        return [
            AuditRecorded(record=each.record)
            for each in self._unwritten.values()
            if each.journal is None or each.journal == journal
        ]

    @property
    def written(self) -> AuditWritten:
        """Up to which record the audit log is known to be complete."""
        version, part = self._written_place
        return AuditWritten(upto=self._written_upto, version=version, part=part)

    def take_written(self) -> AuditWritten | None:
        """What the journal does not know yet of the audit log."""
        if self._stated_upto == self._written_upto:
            return None
        self._stated_upto = self._written_upto
        return self.written

    def _forget_written(self) -> None:
        for number in [each for each in self._unwritten if each <= self._written_upto]:
            del self._unwritten[number]

    # Commands

    def expect(self, request: RequestId, caller: Caller, command: Command, now: Now) -> None:
        """A command has come: `record` it if it changes something."""
        subject = subject_of(command)
        if subject is None:
            return
        if self._failure is not None:
            raise self._refusal()
        self._drafts[request] = _Draft(caller, subject, now.wall)

    def cancel(self, request: RequestId) -> None:
        """Nothing comes of a command: it was refused, or its caller left before it began."""
        self._drafts.pop(request, None)

    def record(
        self,
        request: RequestId | None,
        journal: "Journal[TopicChange] | Journal[Change]",
        changes: Sequence[FieldChange] = (),
    ) -> None:
        """A command changes something in this turn: its record goes beside that, or `home`."""
        draft = None if request is None else self._drafts.pop(request, None)
        if draft is None or request is None:
            return
        record = self._build(draft.caller, draft.subject, _DONE, draft.at)
        record = msgspec.structs.replace(record, changes=tuple(changes))
        number = record.number
        if self.home is not None:
            journal = self.home()
        self._waiting.append(_Entry(record, is_durable=False))
        self._unwritten[number] = _Unwritten(record, journal.id)
        self._awaited[request] = number
        journal.note([AuditRecorded(record=record)], [AuditDurable(number)])

    def propose(
        self, request: RequestId, changes: Sequence[FieldChange] = ()
    ) -> AuditRecorded | None:
        """What the metadata log is to say beside the change of a command: see `follow`."""
        draft = self._drafts.pop(request, None)
        if draft is None:
            return None
        self._proposed[request] = None
        record = self._describe(draft.caller, draft.subject, _DONE, draft.at)
        record = msgspec.structs.replace(record, changes=tuple(changes))
        return AuditRecorded(record=record, request=request)

    def follow(self, recorded: Sequence[AuditRecorded], version: int) -> None:
        """A record of the metadata log was followed, with these changes; it may come again.

        `resume` appends them, when all records of this turn were followed.
        """
        for part, each in enumerate(recorded):
            place = _Place(version, part)
            if place <= self._followed or self._failure is not None:
                continue
            self._followed = place
            number = self._take_number()
            record = msgspec.structs.replace(each.record, number=number, version=version, part=part)
            self._waiting.append(_Entry(record, is_durable=True))
            request = RequestId(each.request)
            if record.node == self._node_id and request in self._proposed:
                del self._proposed[request]
                self._awaited[request] = number

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _build(
        self, caller: Caller, subject: AuditSubject, outcome: str, at: Timestamp
    ) -> AuditRecord:
        record = self._describe(caller, subject, outcome, at)
        return msgspec.structs.replace(record, number=self._take_number())

    def _describe(
        self, caller: Caller, subject: AuditSubject, outcome: str, at: Timestamp
    ) -> AuditRecord:
        """A record without a number."""
        key = self._security.keys.get(caller.key)
        tenant = name = ""
        roles: tuple[Role, ...] = ()
        if key is not None:
            tenant, name, roles = key.tenant, key.name, tuple(sorted(key.roles))
        elif caller.key == LOCAL.key:
            tenant, roles = DEFAULT_TENANT, (Role.ADMIN,)
        return AuditRecord(
            number=0,
            time=format_time(at),
            node=self._node_id,
            action=subject.action,
            resource=subject.resource,
            outcome=outcome,
            key=caller.key,
            key_name=name,
            tenant=tenant,
            roles=tuple(role.value for role in roles),
            address=caller.address,
            gateway=caller.gateway,
            request_id=shown(caller.request_id),
        )

    # What changes nothing

    def deny(self, caller: Caller, subject: AuditSubject, code: Code, now: Now) -> None:
        """A command was not allowed: the first of its kind is written, others are counted.

        Of a key with too many kinds all are one kind, from wherever they come.
        """
        denial = Denial(caller.key, caller.address, *subject, code)
        if not self._denial_rate.has_room(caller.key, now.instant):
            if code is not Code.UNAUTHENTICATED:
                code = Code.PERMISSION_DENIED
            denial = Denial(caller.key, "*", "denied", "*", code)
        for folded in self._denials.record(denial, now.instant):
            self._write_denial(folded.denial, folded.count, caller.gateway, now)

    def expire_denials(self, now: Now) -> None:
        """Write the counts of denials whose time is over."""
        for folded in self._denials.expire(now.instant):
            self._write_denial(folded.denial, folded.count, "", now)

    def _write_denial(self, denial: Denial, count: int, gateway: str, now: Now) -> None:
        self._denial_rate.charge(denial.key, now.instant)
        caller = Caller(KeyId(denial.key), gateway=gateway, address=denial.address)
        subject = AuditSubject(denial.action, denial.resource)
        record = self._build(caller, subject, _DENIED, now.wall)
        record = msgspec.structs.replace(record, code=denial.code.value, count=count)
        self._write(record, now)

    def record_use(self, caller: Caller, now: Now) -> None:
        """A key was used: the first time from an address, and the root key once a minute.

        What was seen is memory: after a restart every address is new. Probes have no key. Of a key
        with too many addresses the next is recorded when it is used later.
        """
        if caller.key != ROOT_KEY and self._security.keys.get(caller.key) is None:
            return
        seen = (caller.key, caller.address)
        last = self._seen.get(seen)
        if last is not None and (caller.key != ROOT_KEY or now.instant - last < _ROOT_NS):
            return
        if not self._use_rate.has_room(caller.key, now.instant):
            return
        self._use_rate.charge(caller.key, now.instant)
        self._seen.pop(seen, None)
        if len(self._seen) >= _SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[seen] = now.instant
        self.observe(caller, AuditSubject("key.use", f"key:{caller.key}"), (), now)

    def observe(
        self, caller: Caller, subject: AuditSubject, changes: Sequence[FieldChange], now: Now
    ) -> None:
        """Something happened that is no change of a journal: a start, a first use of a key."""
        record = self._build(caller, subject, _DONE, now.wall)
        self._write(msgspec.structs.replace(record, changes=tuple(changes)), now)

    def observe_shell(self, event: Observed, now: Now) -> None:
        """Record what the shell says that it did; before `begin` no number is known for it."""
        if not self._has_begun:
            return
        changes = [FieldChange(name, new=shown(text)) for name, text in event.facts.items()]
        self.observe(LOCAL, AuditSubject(event.action, shown(event.resource)), changes, now)

    def _write(self, record: AuditRecord, now: Now) -> None:
        if self._failure is None:
            self._waiting.append(_Entry(record, is_durable=True))
            self._append(now)

    # The audit log

    def durable(self, number: int, now: Now) -> None:
        """The journal has a record, and all before it that are its own."""
        for entry in self._waiting:
            if entry.record.number == number:
                entry.is_durable = True
                break
        self._append(now)

    def _append(self, now: Now) -> None:
        """Append what may be appended: in order, and not before its journal has it."""
        while self._log is not None:
            batch: list[_Entry] = []
            while self._waiting and self._waiting[0].is_durable and len(batch) < _BATCH_MAX:
                batch.append(self._waiting.popleft())
            if not batch:
                return
            place = _place_of(self._appended[-1].record) if self._appended else self._written_place
            for each in batch:
                place = max(place, _place_of(each.record))
                each.record = msgspec.structs.replace(
                    each.record, version=place.version, part=place.part
                )
            messages = [Message(value=msgspec.json.encode(each.record)) for each in batch]
            try:
                appended = self._log.append(build(messages), now)
            except Refused:
                # No space, or too much on its way: again in a second.
                self._waiting.extendleft(reversed(batch))
                self._alarms.bring_forward(Errand.AUDIT, Instant(now.instant + _RETRY_NS))
                return
            self._outbox.extend(appended.effects)
            for index, entry in enumerate(batch):
                entry.next = Offset(appended.first + index + 1)
            self._appended.extend(batch)

    def resume(self, now: Now) -> None:
        """Append what waits: changes that were followed, or what a full disk did not take."""
        self._append(now)

    def handle(self, event: DiskEvent, now: Now) -> None:
        """Learn what the disk did to the audit log."""
        assert self._log is not None
        self._outbox.extend(self._log.handle(event, now))
        if isinstance(event, Failed):
            self._fail(event.reason)
            return
        if isinstance(event, Filled):
            while self._appended and self._appended[-1].next > event.offset:
                self._waiting.appendleft(self._appended.pop())
            self._alarms.bring_forward(Errand.AUDIT, Instant(now.instant + _RETRY_NS))
        committed = self._log.high_watermark
        while self._appended and self._appended[0].next <= committed:
            written = self._appended.popleft().record
            self._written_upto = max(self._written_upto, written.number)
            self._written_place = max(self._written_place, _place_of(written))
            self._unwritten.pop(written.number, None)
        self._release()

    def maintain(self, now: Now) -> None:
        """Retention, once in a while."""
        if self._log is not None and self._failure is None:
            self._outbox.extend(self._log.maintain(now))

    def _release(self) -> None:
        """Answers whose records are durable leave."""
        if not self._awaited:
            return
        upto = self._written_upto
        for request in [each for each, number in self._awaited.items() if number <= upto]:
            del self._awaited[request]
        held, self._held = self._held, []
        for number, answer in held:
            if number <= upto:
                self._outbox.append(answer)
            else:
                self._held.append((number, answer))

    def _fail(self, reason: str) -> None:
        """What is recorded in the journals stays there until a start can write it."""
        self._failure = reason
        self._waiting.clear()
        self._appended.clear()
        self._awaited.clear()
        held, self._held = self._held, []
        for _, answer in held:
            self._outbox.append(Answer(request=answer.request, reply=self._refusal()))

    # Answers

    def hold_back(self, effects: list[NodeEffect]) -> list[NodeEffect]:
        """The effects of a turn without answers whose records are not durable."""
        if not self._drafts and not self._awaited and not self._proposed:
            return effects
        released: list[NodeEffect] = []
        for effect in effects:
            if isinstance(effect, Answer):
                # What is answered now changed nothing, if it was not recorded.
                self._drafts.pop(effect.request, None)
                number = self._awaited.get(effect.request)
                if number is not None:
                    self._held.append((number, effect))
                    continue
                if self._failure is not None and effect.request in self._proposed:
                    effect = Answer(request=effect.request, reply=self._refusal())
                self._proposed.pop(effect.request, None)
            released.append(effect)
        return released

    def _refusal(self) -> Refused:
        return Refused(Code.STORAGE_FAILED, reason=f"the audit log failed: {self._failure}")


def _place_of(record: AuditRecord) -> _Place:
    return _Place(record.version, record.part)
