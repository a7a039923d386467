"""What is written to the audit log: which commands, under which name, with which facts.

Recorded is every command that changes keys, ACLs, tenants, quotas, topics, groups, positions by
reset, schedules, schemas, backups, the nodes of a cluster, or the data of a topic; not what
publishes, reads, polls or settles.
Denials are folded: the first of a kind is written at once, the others of the same ten seconds as
one count.

A caller must not push the records of others out of a log that is bounded in size, so each key may
cause so many records only that are no changes (`RecordRate`). What is above that is counted.

Never records a secret: verifiers are `***`. Text of users is cut, and escaped where it would not be
shown as it is, so that a name cannot forge a second line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from goqueue.model import (
    SECOND,
    Code,
    DeleteSchema,
    DeleteSubject,
    Instant,
    RegisterSchema,
    ResetCompatibility,
    SetCompatibility,
)
from goqueue.model.requests import (
    AlterQuotas,
    AlterSchedule,
    AlterTenant,
    AlterTopic,
    CancelReassignment,
    Command,
    CreateAcl,
    CreateBackup,
    CreateKey,
    CreateSchedule,
    CreateTenant,
    CreateTopic,
    DeleteAcl,
    DeleteBackup,
    DeleteGroup,
    DeleteRecords,
    DeleteSchedule,
    DeleteTenant,
    DeleteTopic,
    ElectLeader,
    ForgetBroker,
    PauseSchedule,
    ResetOffsets,
    ResetUsage,
    RestoreBackup,
    ResumeSchedule,
    RevokeKey,
    RotateKey,
    SetTenantStatus,
    StartReassignment,
    TransferLeader,
)
from goqueue.security.changes import FieldChange

__all__ = [
    "AuditSubject",
    "Denial",
    "DenialFold",
    "FoldedDenials",
    "RecordRate",
    "field_changes",
    "recorded_commands",
    "shown",
    "subject_of",
]

_TEXT_MAX = 256
_MASK = "***"
_SECRET = frozenset(("verifiers", "previous"))
# What says nothing to a reader of the log: it is elsewhere in the record, or follows from it.
_SKIPPED = frozenset(("id", "number", "created_at", "updated_at", "previous_until"))
_FOLD_NS = 10 * SECOND
_FOLDS_MAX = 4096
# A key that causes as many as it may, day and night, fills a gibibyte in a hundred days.
_BURST_MAX = 50
_REFILL_NS = 5 * SECOND
_KEYS_MAX = 10_000


class AuditSubject(NamedTuple):
    """The name of a command in the audit log, and what the command is about."""

    action: str
    resource: str


C = TypeVar("C", bound=Command)


class _Subjects:
    def __init__(self) -> None:
        self.by_type: dict[type, Callable[[Command], AuditSubject]] = {}

    def __call__(self, kind: type[C], action: str, resource: Callable[[C], str]) -> None:
        def subject(command: Command) -> AuditSubject:
            return AuditSubject(action, shown(resource(command)))  # type: ignore[arg-type]  # by type

        self.by_type[kind] = subject


def _subjects() -> Mapping[type, Callable[[Command], AuditSubject]]:
    audit = _Subjects()
    audit(CreateKey, "key.create", lambda command: f"key:{command.id}")
    audit(RevokeKey, "key.revoke", lambda command: f"key:{command.id}")
    audit(RotateKey, "key.rotate", lambda command: f"key:{command.id}")
    audit(CreateAcl, "acl.create", lambda command: f"acl:{command.id}")
    audit(DeleteAcl, "acl.delete", lambda command: f"acl:{command.id}")
    audit(CreateTenant, "tenant.create", lambda command: f"tenant:{command.id}")
    audit(AlterTenant, "tenant.alter", lambda command: f"tenant:{command.id}")
    audit(DeleteTenant, "tenant.delete", lambda command: f"tenant:{command.id}")
    audit(SetTenantStatus, "tenant.status", lambda command: f"tenant:{command.id}")
    audit(AlterQuotas, "quota.alter", lambda command: f"tenant:{command.tenant}")
    audit(ResetUsage, "usage.reset", lambda command: f"tenant:{command.tenant}")
    audit(CreateTopic, "topic.create", lambda command: f"topic:{command.name}")
    audit(AlterTopic, "topic.alter", lambda command: f"topic:{command.name}")
    audit(DeleteTopic, "topic.delete", lambda command: f"topic:{command.name}")
    audit(DeleteRecords, "topic.purge", lambda command: f"topic:{command.topic}")
    audit(
        ElectLeader,
        "partition.elect",
        lambda command: f"partition:{command.topic}-{command.partition}",
    )
    audit(ForgetBroker, "node.forget", lambda command: f"node:{command.node}")
    audit(
        TransferLeader,
        "partition.transfer",
        lambda command: f"partition:{command.topic}-{command.partition}",
    )
    audit(StartReassignment, "reassignment.start", lambda _: "reassignment")
    audit(CancelReassignment, "reassignment.cancel", lambda command: f"reassignment:{command.id}")
    audit(DeleteGroup, "group.delete", lambda command: f"group:{command.group}")
    audit(ResetOffsets, "group.reset", lambda command: f"group:{command.group}")
    audit(CreateSchedule, "schedule.create", lambda command: f"schedule:{command.spec.name}")
    audit(AlterSchedule, "schedule.alter", lambda command: f"schedule:{command.name}")
    audit(PauseSchedule, "schedule.pause", lambda command: f"schedule:{command.name}")
    audit(ResumeSchedule, "schedule.resume", lambda command: f"schedule:{command.name}")
    audit(DeleteSchedule, "schedule.delete", lambda command: f"schedule:{command.name}")
    audit(RegisterSchema, "schema.register", lambda command: f"subject:{command.subject}")
    audit(DeleteSubject, "schema.delete", lambda command: f"subject:{command.subject}")
    audit(DeleteSchema, "schema.delete", lambda command: f"subject:{command.subject}")
    audit(SetCompatibility, "schema.level", lambda command: f"subject:{command.subject}")
    audit(ResetCompatibility, "schema.level", lambda command: f"subject:{command.subject}")
    audit(CreateBackup, "backup.create", lambda _: "backup")
    audit(DeleteBackup, "backup.delete", lambda command: f"backup:{command.backup}")
    audit(RestoreBackup, "backup.restore", lambda command: f"backup:{command.backup}")
    return audit.by_type


def shown(text: str) -> str:
    """A text of a user as a log may carry it: short, and on one line."""
    cut = text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut
    )


_SUBJECTS = _subjects()


def subject_of(command: Command) -> AuditSubject | None:
    """Under which name a command is recorded; None: it is not."""
    subject = _SUBJECTS.get(type(command))
    return None if subject is None else subject(command)


def recorded_commands() -> Iterable[type]:
    """The commands that are recorded."""
    return _SUBJECTS.keys()


def field_changes(
    old: msgspec.Struct | None, new: msgspec.Struct | None, prefix: str = ""
) -> tuple[FieldChange, ...]:
    """The fields in which two values of one type differ; of a new or a removed one, all of them."""
    some = new if new is not None else old
    found: list[FieldChange] = []
    for field in () if some is None else some.__struct_fields__:
        if field in _SKIPPED:
            continue
        before, after = _value(old, field), _value(new, field)
        if before == after:
            continue
        if isinstance(before or after, msgspec.Struct) and field not in _SECRET:
            found += field_changes(_struct(before), _struct(after), f"{prefix}{field}.")
        else:
            is_secret = field in _SECRET
            found.append(
                FieldChange(
                    f"{prefix}{field}",
                    None if before is None else _MASK if is_secret else _text(before),
                    None if after is None else _MASK if is_secret else _text(after),
                )
            )
    return tuple(found)


def _value(struct: msgspec.Struct | None, field: str) -> object:
    """The value of a field; None where it says nothing."""
    value: object = None if struct is None else getattr(struct, field)
    return None if value in ("", (), {}, msgspec.UNSET) else value


def _struct(value: object) -> msgspec.Struct | None:
    return value if isinstance(value, msgspec.Struct) else None


def _text(value: object) -> str:
    if isinstance(value, str):
        return shown(value)
    return shown(msgspec.json.encode(value).decode())


# Denials


class Denial(NamedTuple):
    """What makes two denials the same."""

    key: str
    address: str
    action: str
    resource: str
    code: Code


class FoldedDenials(msgspec.Struct, frozen=True):
    """So many denials of one kind, to be written as one record."""

    denial: Denial
    count: int


class _Fold(msgspec.Struct):
    until: Instant
    count: int = 0


class DenialFold:
    """Counts denials that need no record of their own.

    Invariant: every denial is in exactly one record, at once or when its ten seconds are over.
    Of more than `_FOLDS_MAX` kinds at once the oldest is written early.
    """

    def __init__(self) -> None:
        self._folds: dict[Denial, _Fold] = {}

    def record(self, denial: Denial, now: Instant) -> list[FoldedDenials]:
        """What is to be written now that this was denied."""
        fold = self._folds.get(denial)
        if fold is not None and now < fold.until:
            fold.count += 1
            return []
        written = []
        if fold is not None:
            del self._folds[denial]
        elif len(self._folds) >= _FOLDS_MAX:
            written = self._flush(next(iter(self._folds)))
        self._folds[denial] = _Fold(Instant(now + _FOLD_NS))
        count = 1 if fold is None else 1 + fold.count
        return [*written, FoldedDenials(denial, count)]

    def expire(self, now: Instant) -> Iterator[FoldedDenials]:
        """Counts whose ten seconds are over, oldest first."""
        while self._folds:
            oldest = next(iter(self._folds))
            if self._folds[oldest].until > now:
                return
            yield from self._flush(oldest)

    def _flush(self, denial: Denial) -> list[FoldedDenials]:
        fold = self._folds.pop(denial)
        return [FoldedDenials(denial, fold.count)] if fold.count else []


class RecordRate:
    """How many records each key may cause: some at once, and then one each few seconds."""

    def __init__(self) -> None:
        # By key, when all of its burst is there again; the key that was charged last comes last.
        self._full_at: dict[str, Instant] = {}

    def has_room(self, key: str, now: Instant) -> bool:
        """Whether a key may cause one more record."""
        return self._full_at.get(key, now) - now <= (_BURST_MAX - 1) * _REFILL_NS

    def charge(self, key: str, now: Instant) -> None:
        """A key has caused a record, also one above its rate."""
        full_at = self._full_at.pop(key, now)
        if len(self._full_at) >= _KEYS_MAX:
            del self._full_at[next(iter(self._full_at))]
        self._full_at[key] = Instant(max(full_at, now) + _REFILL_NS)
