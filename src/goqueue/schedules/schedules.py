"""The schedules of a node: what each is, up to when it has ticked, and which is due.

Durable state changes only in `apply`, by what the journal says: a definition, and the time `upto`
which every tick was sent or skipped. The next tick follows from the rule. While the message of a
tick is on its way to the log the schedule is *busy*: it is not due again, and what would change it
waits for the outcome.

Invariants
- `upto` never falls while the definition stays, so no tick is sent twice.
- A schedule is in the heap by its next tick, or busy, or paused, or has no next tick.

Memory: the message and about a kilobyte for each schedule, within the limits of
`model/requests/schedules.py`. Cost of a tick: O(log n) in the heap, and one search by its rule.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from goqueue.model import Code, Refused, Timestamp, check_name
from goqueue.model.requests import (
    EVERY_NS_MAX,
    EVERY_NS_MIN,
    GRACE_NS_MAX,
    GRACE_NS_MIN,
    MISSED_COUNT_MAX,
    SCHEDULE_MESSAGE_BYTES_MAX,
    SCHEDULES_BYTES_MAX,
    SCHEDULES_MAX,
    MissedPolicy,
    ScheduleDescription,
    ScheduleSpec,
    ScheduleState,
)
from goqueue.schedules.cron import parse_cron
from goqueue.schedules.rules import CronRule, IntervalRule, Ticks
from goqueue.schedules.zones import UTC, Zone, Zones

__all__ = [
    "DueTicks",
    "OnlyUtc",
    "Schedule",
    "ScheduleChange",
    "ScheduleDeleted",
    "ScheduleStated",
    "ScheduleTicked",
    "Schedules",
]


class ScheduleStated(msgspec.Struct, frozen=True, kw_only=True, tag="schedule", omit_defaults=True):
    """A schedule in full, after a change of any kind."""

    number: int
    spec: ScheduleSpec
    created_at: int
    upto: int
    is_paused: bool = False
    sent: int = 0
    last_tick: int | None = None


class ScheduleTicked(msgspec.Struct, frozen=True, kw_only=True, tag="schedule_ticked"):
    """Every tick up to a time was sent or skipped; so many were sent since the creation."""

    number: int
    upto: int
    sent: int
    last_tick: int | None


class ScheduleDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="schedule_deleted"):
    """A schedule is gone."""

    number: int


ScheduleChange = ScheduleStated | ScheduleTicked | ScheduleDeleted


class OnlyUtc:
    """The zones of a node that was handed none."""

    def find(self, name: str) -> Zone | None:
        """UTC, if it is asked for."""
        return UTC if name == "UTC" else None


class DueTicks(msgspec.Struct, frozen=True):
    """Ticks to send now, in order, and up to when that settles the schedule.

    `has_skipped` says that ticks before the first were missed and are not sent.
    """

    ticks: tuple[Timestamp, ...]
    upto: Timestamp
    has_skipped: bool


class Schedule:
    """One schedule."""

    __slots__ = (
        "_following",
        "_following_upto",
        "_is_resolved",
        "_resolve",
        "_ticks",
        "is_busy",
        "next_tick",
        "problem",
        "stated",
    )

    def __init__(
        self, stated: ScheduleStated, resolve: Callable[[ScheduleSpec], Ticks | None]
    ) -> None:
        self.stated = stated
        # To read rules takes longer than all the rest of a replay: it is done when they are used.
        self._resolve = resolve
        self._ticks: Ticks | None = None
        self._is_resolved = False
        # The tick that comes after a time, where it was found on the way.
        self._following: Timestamp | None = None
        self._following_upto: Timestamp | None = None
        self.next_tick: Timestamp | None = None
        self.is_busy = False
        # Why its last tick could not be sent.
        self.problem: str | None = None

    @property
    def number(self) -> int:
        return self.stated.number

    @property
    def ticks(self) -> Ticks | None:
        """When it ticks; None: the zone is not known, so nobody can say."""
        if not self._is_resolved:
            self._ticks = self._resolve(self.spec)
            self._is_resolved = True
        return self._ticks

    def restate(self, stated: ScheduleStated) -> None:
        """Another definition takes the place of this one."""
        self.stated = stated
        self.next_tick = None
        self._is_resolved = False
        self._following_upto = None

    @property
    def knows_following(self) -> bool:
        """Whether it costs nothing to tell the tick after the last."""
        return self._following_upto == self.stated.upto

    def following(self) -> Timestamp | None:
        """The tick after the last; None if there is none, or nobody can say."""
        if self.knows_following:
            return self._following
        ticks = self.ticks
        return None if ticks is None else ticks.next_after(Timestamp(self.stated.upto))

    @property
    def spec(self) -> ScheduleSpec:
        return self.stated.spec

    def due(self, now: Timestamp, limit: int) -> DueTicks:
        """What to send of a schedule whose next tick is due, at most `limit` ticks.

        Looks at no more ticks than it returns, and at `missed_max` of those that were missed.
        """
        rule, first, floor = self.ticks, self.next_tick, Timestamp(self.stated.upto)
        assert rule is not None
        assert first is not None
        assert first <= now
        if now - first > self.spec.grace_ns:
            floor = self._floor(rule, now)
        ticks: list[Timestamp] = []
        tick = first if floor < first else rule.next_after(floor)
        while tick is not None and tick <= now and len(ticks) < limit:
            ticks.append(tick)
            tick = rule.next_after(tick)
        if ticks:
            self._following, self._following_upto = tick, ticks[-1]
        return DueTicks(tuple(ticks), ticks[-1] if ticks else floor, floor >= first)

    def _floor(self, ticks: Ticks, now: Timestamp) -> Timestamp:
        """Up to when missed ticks are not sent."""
        spec = self.spec
        if spec.missed is MissedPolicy.SKIP:
            return Timestamp(max(self.stated.upto, now - spec.grace_ns - 1))
        first = ticks.last_upto(now)
        for _ in range(spec.missed_max - 1 if spec.missed is MissedPolicy.ALL else 0):
            earlier = None if first is None else ticks.last_upto(Timestamp(first - 1))
            if earlier is None or earlier <= self.stated.upto:
                break
            first = earlier
        assert first is not None
        return Timestamp(first - 1)

    def describe(self, *, is_new: bool = False) -> ScheduleDescription:
        """What callers see of it."""
        stated = self.stated
        problem, state = self.problem, ScheduleState.ACTIVE
        next_tick = None
        if self.ticks is None:
            state, problem = ScheduleState.FAILED, f"the time zone {self.spec.time_zone} is unknown"
        else:
            next_tick = self.next_tick or self.following()
            if next_tick is None:
                state = ScheduleState.ENDED
        if stated.is_paused:
            state, next_tick = ScheduleState.PAUSED, None
        last_tick = stated.last_tick
        return ScheduleDescription(
            spec=self.spec,
            state=state,
            created_at=Timestamp(stated.created_at),
            sent=stated.sent,
            next_tick=next_tick,
            last_tick=None if last_tick is None else Timestamp(last_tick),
            problem=problem,
            is_new=is_new,
        )


class HeldSchedules(NamedTuple):
    """How many schedules there are with a prefix, and the size of their messages."""

    schedules: int
    message_bytes: int


_NOTHING_HELD = HeldSchedules(0, 0)


class Schedules:
    """Schedules by name and by number, and by when they tick next."""

    def __init__(self, zones: Zones) -> None:
        self.zones = zones
        self._by_number: dict[int, Schedule] = {}
        self._by_name: dict[str, Schedule] = {}
        self._names: list[str] = []
        self._heap: list[tuple[Timestamp, int]] = []
        self._next_number = 1
        self._bytes = 0
        # By the prefix of names that have a dot.
        self._held: dict[str, HeldSchedules] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Schedule]:
        """In the order of their creation."""
        return iter(list(self._by_number.values()))

    @property
    def message_bytes(self) -> int:
        """The bytes of all messages together."""
        return self._bytes

    @property
    def next_number(self) -> int:
        return self._next_number

    def reserve(self, upto: int) -> None:
        """Numbers below were used before; none of them is given again."""
        self._next_number = max(self._next_number, upto)

    def get(self, name: str) -> Schedule | None:
        return self._by_name.get(name)

    def find(self, name: str) -> Schedule:
        """The schedule of this name; refuses one that does not exist."""
        found = self._by_name.get(name)
        if found is None:
            check_name(name, "name")
            raise Refused(Code.SCHEDULE_NOT_FOUND, schedule=name)
        return found

    def check(self, schedule: Schedule) -> None:
        """Refuse a schedule that was deleted."""
        if self._by_number.get(schedule.number) is not schedule:
            raise Refused(Code.SCHEDULE_NOT_FOUND, schedule=schedule.spec.name)

    def held_by(self, prefix: str) -> HeldSchedules:
        """What there is with names that begin with a prefix and a dot."""
        return self._held.get(prefix, _NOTHING_HELD)

    def numbered(self, number: int) -> Schedule | None:
        return self._by_number.get(number)

    def page(self, skip: int, limit: int) -> list[Schedule]:
        """Some of them by name."""
        return [self._by_name[name] for name in self._names[skip : skip + limit]]

    # Deciding

    def create(self, spec: ScheduleSpec, now: Timestamp, *, is_paused: bool) -> ScheduleStated:
        """A schedule that does not exist yet."""
        check_name(spec.name, "name")
        if spec.name in self._by_name:
            raise Refused(Code.SCHEDULE_EXISTS, schedule=spec.name)
        if len(self._by_number) >= SCHEDULES_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="schedules", limit=SCHEDULES_MAX)
        self._check_size(spec, 0)
        return ScheduleStated(
            number=self._next_number,
            spec=self._checked(spec, now),
            created_at=now,
            upto=now,
            is_paused=is_paused,
        )

    def alter(self, schedule: Schedule, spec: ScheduleSpec, now: Timestamp) -> ScheduleStated:
        """A schedule with another definition; if its times change, it ticks from now on."""
        self._check_size(spec, schedule.spec.message.size)
        before = schedule.spec
        if spec.every_ns == before.every_ns:
            # The same definition again must not begin the interval anew.
            spec = msgspec.structs.replace(spec, start=spec.start or before.start)
        elif spec.start == before.start:
            spec = msgspec.structs.replace(spec, start=None)
        checked = self._checked(spec, now)
        upto = schedule.stated.upto
        if not _has_same_times(before, checked):
            # Never back: what it sent by the old definition, it may name by the new one, too.
            upto = max(upto, now)
        return msgspec.structs.replace(schedule.stated, spec=checked, upto=upto)

    def _check_size(self, spec: ScheduleSpec, replaced: int) -> None:
        size = spec.message.size
        if size > SCHEDULE_MESSAGE_BYTES_MAX:
            raise Refused(Code.MESSAGE_TOO_LARGE, limit=SCHEDULE_MESSAGE_BYTES_MAX, size=size)
        if self._bytes - replaced + size > SCHEDULES_BYTES_MAX:
            raise Refused(
                Code.QUOTA_EXCEEDED,
                quota="bytes of scheduled messages",
                limit=SCHEDULES_BYTES_MAX,
                used=self._bytes,
            )

    def _checked(self, spec: ScheduleSpec, now: Timestamp) -> ScheduleSpec:
        """The definition, if it makes sense; an interval without a start begins now."""
        _check_bounds(spec)
        if spec.every_ns is not None and spec.start is None:
            spec = msgspec.structs.replace(spec, start=Timestamp(now + spec.every_ns))
        if spec.cron is not None:
            try:
                parse_cron(spec.cron)
            except ValueError as error:
                raise _invalid("cron", str(error)) from None
        ticks = self._ticks(spec)
        if ticks is None:
            raise _invalid(
                "time_zone",
                f"is not known: {spec.time_zone[:100]}; it is an IANA name such as Europe/Vienna",
            )
        if ticks.next_after(now) is None:
            raise _invalid("end", "leaves no tick: the first one would be later")
        return spec

    def _ticks(self, spec: ScheduleSpec) -> Ticks | None:
        """Its ticks; None if its zone is not known."""
        if spec.every_ns is not None:
            assert spec.start is not None
            return Ticks(IntervalRule(spec.every_ns, spec.start), spec.start, spec.end)
        zone = self.zones.find(spec.time_zone)
        assert spec.cron is not None
        rule = None if zone is None else CronRule(parse_cron(spec.cron), zone)
        return None if rule is None else Ticks(rule, spec.start, spec.end)

    # Applying

    def apply(self, change: ScheduleChange) -> Schedule | None:
        """The only mutator of durable state: the schedule after the change."""
        schedule = self._by_number.get(change.number)
        match change:
            case ScheduleStated():
                return self._state(change, schedule)
            case ScheduleTicked() if schedule is not None:
                schedule.next_tick = None
                schedule.stated = msgspec.structs.replace(
                    schedule.stated,
                    upto=change.upto,
                    sent=change.sent,
                    last_tick=change.last_tick,
                )
            case ScheduleDeleted() if schedule is not None:
                del self._by_number[change.number]
                self._forget_name(schedule)
                self._count(schedule.spec, -1)
                schedule.next_tick = None
                return None
            case _:
                # Of one that was deleted since: a statement may repeat what came before.
                pass
        return schedule

    def _count(self, spec: ScheduleSpec, step: int) -> None:
        size = step * spec.message.size
        self._bytes += size
        prefix, dot, _ = spec.name.partition(".")
        if dot:
            held = self.held_by(prefix)
            self._held[prefix] = HeldSchedules(held.schedules + step, held.message_bytes + size)
            if not self._held[prefix].schedules:
                del self._held[prefix]

    def _state(self, stated: ScheduleStated, schedule: Schedule | None) -> Schedule:
        name = stated.spec.name
        if schedule is None:
            schedule = Schedule(stated, self._ticks)
            self._by_number[stated.number] = schedule
            self._next_number = max(self._next_number, stated.number + 1)
            if name not in self._by_name:
                insort(self._names, name)
            self._by_name[name] = schedule
        else:
            self._count(schedule.spec, -1)
            schedule.restate(stated)
        self._count(stated.spec, 1)
        return schedule

    def _forget_name(self, schedule: Schedule) -> None:
        name = schedule.spec.name
        if self._by_name.get(name) is schedule:
            del self._by_name[name]
            del self._names[bisect_left(self._names, name)]

    # Time

    def arm(self, schedule: Schedule) -> None:
        """Compute the next tick of a schedule that is not busy, and wait for it."""
        stated = schedule.stated
        schedule.next_tick = None
        if not stated.is_paused and not schedule.is_busy:
            schedule.next_tick = schedule.following()
        if schedule.next_tick is not None:
            heappush(self._heap, (schedule.next_tick, schedule.number))

    def next_deadline(self) -> Timestamp | None:
        """When the first schedule is due."""
        while self._heap:
            tick, number = self._heap[0]
            schedule = self._by_number.get(number)
            if schedule is not None and schedule.next_tick == tick and not schedule.is_busy:
                return tick
            heappop(self._heap)
        return None

    def pop_due(self, now: Timestamp) -> Schedule | None:
        """The schedule that is due first, if one is; it is busy from now on."""
        tick = self.next_deadline()
        if tick is None or tick > now:
            return None
        _, number = heappop(self._heap)
        schedule = self._by_number[number]
        schedule.is_busy = True
        return schedule


def _check_bounds(spec: ScheduleSpec) -> None:
    if (spec.every_ns is None) == (spec.cron is None):
        raise _invalid("cron", "or `every` must be given, and not both")
    if spec.every_ns is not None and spec.time_zone != "UTC":
        raise _invalid("time_zone", "needs `cron`")
    if spec.every_ns is not None and not EVERY_NS_MIN <= spec.every_ns <= EVERY_NS_MAX:
        raise _invalid("every", "must be from 100ms to 366d")
    if not GRACE_NS_MIN <= spec.grace_ns <= GRACE_NS_MAX:
        raise _invalid("grace", "must be from 1s to 7d")
    if not 1 <= spec.missed_max <= MISSED_COUNT_MAX:
        raise Refused(Code.REQUEST_INVALID, field="missed_max", minimum=1, maximum=MISSED_COUNT_MAX)
    for field, time in (("start", spec.start), ("end", spec.end)):
        if time is not None and time < 0:
            raise _invalid(field, "must not be before 1970")


def _invalid(field: str, reason: str) -> Refused:
    return Refused(Code.REQUEST_INVALID, field=field, reason=reason)


def _has_same_times(one: ScheduleSpec, other: ScheduleSpec) -> bool:
    fields = ("every_ns", "cron", "time_zone", "start", "end")
    return all(getattr(one, name) == getattr(other, name) for name in fields)
