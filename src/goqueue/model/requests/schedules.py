"""Schedules: recurring messages, what may be asked about them, and what is answered.

`ScheduleSpec` is also what the journal stores: a released field keeps its name and its unit, and a
new one has a default.
"""

import enum

import msgspec

from goqueue.model.ids import HOUR, MILLISECOND, SECOND, LogId, Offset, Timestamp
from goqueue.model.limits import KIB, MIB
from goqueue.model.messages import Header, Priority

__all__ = [
    "EVERY_NS_MAX",
    "EVERY_NS_MIN",
    "GRACE_NS_DEFAULT",
    "GRACE_NS_MAX",
    "GRACE_NS_MIN",
    "MISSED_COUNT_MAX",
    "SCHEDULES_BYTES_MAX",
    "SCHEDULES_MAX",
    "SCHEDULE_MESSAGE_BYTES_MAX",
    "AlterSchedule",
    "CreateSchedule",
    "DeleteSchedule",
    "DescribeSchedule",
    "ListSchedules",
    "MissedPolicy",
    "PauseSchedule",
    "ResumeSchedule",
    "RunSchedule",
    "ScheduleChanges",
    "ScheduleDescription",
    "ScheduleList",
    "ScheduleRan",
    "ScheduleSpec",
    "ScheduleState",
    "ScheduledMessage",
]

EVERY_NS_MIN = 100 * MILLISECOND
EVERY_NS_MAX = 366 * 24 * HOUR
GRACE_NS_MIN = SECOND
GRACE_NS_MAX = 7 * 24 * HOUR
GRACE_NS_DEFAULT = 60 * SECOND
MISSED_COUNT_MAX = 100
SCHEDULES_MAX = 100_000
SCHEDULE_MESSAGE_BYTES_MAX = 256 * KIB
# Of all messages together: they are kept in memory.
SCHEDULES_BYTES_MAX = 64 * MIB


class MissedPolicy(enum.StrEnum):
    """What to do with ticks that are later than the grace: see `Schedule.due`."""

    LATEST = "latest"
    SKIP = "skip"
    ALL = "all"


class ScheduledMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule publishes. Without a partition the key chooses one, or each in turn."""

    value: bytes | None
    key: bytes = b""
    headers: tuple[Header, ...] = ()
    priority: int = Priority.NORMAL
    partition: int | None = None

    @property
    def size(self) -> int:
        """Its bytes, as far as callers chose them."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.value or b"") + len(self.key) + headers


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When to publish what, and where to. Exactly one of `every_ns` and `cron` is given."""

    name: str
    topic: str
    message: ScheduledMessage
    every_ns: int | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    start: Timestamp | None = None
    end: Timestamp | None = None
    missed: MissedPolicy = MissedPolicy.LATEST
    missed_max: int = MISSED_COUNT_MAX
    grace_ns: int = GRACE_NS_DEFAULT


# Commands


class CreateSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `ScheduleDescription`. May replace a schedule of the same name."""

    spec: ScheduleSpec
    may_replace: bool = False
    is_paused: bool = False


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a schedule to change; None leaves a field as it is.

    To give one of `every_ns` and `cron` takes the other away.
    """

    topic: str | None = None
    message: ScheduledMessage | None = None
    every_ns: int | None = None
    cron: str | None = None
    time_zone: str | None = None
    start: Timestamp | None = None
    end: Timestamp | None = None
    missed: MissedPolicy | None = None
    missed_max: int | None = None
    grace_ns: int | None = None

    def applied_to(self, spec: ScheduleSpec) -> ScheduleSpec:
        """The schedule with these changes."""
        given = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value is not None
        }
        if self.every_ns is not None:
            given = {"cron": None, "time_zone": "UTC", **given}
        elif self.cron is not None:
            given["every_ns"] = None
        return msgspec.structs.replace(spec, **given)


class AlterSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `ScheduleDescription`."""

    name: str
    changes: ScheduleChanges


class DescribeSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """Answered by `ScheduleDescription`."""

    name: str


class ListSchedules(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules by name; answered by `ScheduleList`."""

    limit: int = 100
    skip: int = 0


class PauseSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """No tick is sent after the answer, which is a `ScheduleDescription`."""

    name: str


class ResumeSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """Tick from now on; answered by `ScheduleDescription`."""

    name: str


class RunSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """Publish the message now, beside the ticks; answered by `ScheduleRan`."""

    name: str


class DeleteSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """No tick is sent after the answer, which is `Done`."""

    name: str


# Replies


class ScheduleState(enum.StrEnum):
    """Whether a schedule ticks. Ended: there is no tick after the last. Failed: see `problem`."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    FAILED = "failed"


class ScheduleDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule, the tick that comes next, and what became of the ticks before.

    `sent` counts ticks that were published; `problem` says why they are not, while that is so.
    """

    spec: ScheduleSpec
    state: ScheduleState
    created_at: Timestamp
    sent: int
    next_tick: Timestamp | None = None
    last_tick: Timestamp | None = None
    problem: str | None = None
    is_new: bool = False


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the schedules, by name."""

    schedules: tuple[ScheduleDescription, ...]
    total: int


class ScheduleRan(msgspec.Struct, frozen=True, kw_only=True):
    """Where the message of a run now is."""

    log: LogId
    offset: Offset
    timestamp: Timestamp
