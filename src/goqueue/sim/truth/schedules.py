"""What is known of schedules, and the judge of the messages that they publish.

Rules are told here once more, in the plainest way: an interval counts from its start, and the cron
expression of the simulated world ticks at even minutes of a zone whose clocks change while it runs.

Judged is every message that can be read: in the order of ticks, none twice, none that the rule does
not name, none before its time, none in a pause, none after a deletion. In worlds whose clock never
jumps no tick may be missing, either, except those of a pause.
"""

from itertools import pairwise

from goqueue.model import SECOND, Record, parse_time
from goqueue.schedules import UTC, Zone
from goqueue.sim.oracle import Violation

__all__ = ["CRON", "ZONE", "ScheduleTruth", "SimulatedZones", "schedule_of"]

ZONE = "Sim/City"
CRON = "*/2 * * * *"
# Copies on purpose, as in the ledger.
_SCHEDULE = "gq.schedule"
_TICK = "gq.tick"
_MINUTE = 60
# An odd number of minutes, so that even minutes of the zone become odd ones of UTC and back.
_OFFSET = 61 * _MINUTE
_FIRST_CHANGE = 1_700_000_000 + 200
# Three days and a bit, as the rules take for granted.
_BETWEEN_CHANGES = 3 * 86_400 + 17 * _MINUTE


class _City:
    """Clocks that are put an hour and a minute forth and back by turns, at odd moments."""

    def offset_at(self, seconds: int) -> int:
        """How far they are ahead of UTC."""
        return _OFFSET if (seconds - _FIRST_CHANGE) // _BETWEEN_CHANGES % 2 else 0


class SimulatedZones:
    """The zones of a simulated node."""

    def find(self, name: str) -> Zone | None:
        """UTC, or the one whose clocks change."""
        zones: dict[str, Zone] = {"UTC": UTC, ZONE: _City()}
        return zones.get(name)


class ScheduleTruth:
    """One schedule as the one who created it knows it."""

    def __init__(self, name: str, every_ns: int | None, *, is_complete: bool, moment: int) -> None:
        self.name = name
        self.every_ns = every_ns
        # Whether no tick may be missing.
        self.is_complete = is_complete
        # When it was asked for, as the peaks of the clock count.
        self.moment = moment
        # From its description: without one nobody knows whether it is there.
        self.start: int | None = None
        self.created_at: int | None = None
        # None: nobody knows.
        self.is_paused: bool | None = False
        self.was_paused = False
        # Pauses and resumes that were asked for: only the answer to the last one tells the state.
        self.changes_asked = 0
        self.is_deleted = False
        # Offsets between which it was surely paused, and from which on it is surely gone.
        self.paused_from: int | None = None
        self.pauses: list[tuple[int, int]] = []
        self.gone_from: int | None = None
        self.runs: dict[int, None] = {}
        self.runs_asked = 0

    def is_tick(self, at: int) -> bool:
        """Whether its rule names this moment."""
        if self.every_ns is not None:
            assert self.start is not None
            return at >= self.start and (at - self.start) % self.every_ns == 0
        seconds, rest = divmod(at, SECOND)
        minute, second = divmod(seconds, _MINUTE)
        local = minute + _City().offset_at(seconds) // _MINUTE
        return rest == 0 and second == 0 and local % 2 == 0

    def check(self, records: list[Record], highest_wall: int, now: int) -> None:
        """Judge all of its messages that can be read, in the order of the log."""
        if self.created_at is None:
            return
        ticks: list[int] = []
        runs: dict[int, None] = {}
        for record in records:
            at = _header(record, _TICK)
            self._check_place(record)
            if at is None:
                runs[record.offset] = None
                continue
            ticks.append(parse_time(at))
        if len(runs) > self.runs_asked or not self.runs.keys() <= runs.keys():
            raise Violation("wrong-runs", f"{self.name}: {list(runs)}, told {list(self.runs)}")
        for earlier, later in pairwise(ticks):
            if later <= earlier:
                raise Violation("tick-twice", f"{self.name}: {later} behind {earlier}")
        for tick in ticks:
            if not self.is_tick(tick) or tick <= self.created_at:
                raise Violation("tick-invented", f"{self.name}: {tick}")
            if tick > highest_wall:
                raise Violation("tick-early", f"{self.name}: {tick} at {highest_wall}")
        if self.is_complete and not self.was_paused and not self.is_deleted:
            self._check_complete(ticks, now)

    def _check_place(self, record: Record) -> None:
        if _header(record, _TICK) is None:
            # Somebody asked for it.
            return
        if any(first <= record.offset < end for first, end in self.pauses):
            raise Violation("tick-in-pause", f"{self.name} at {record.offset}")
        if self.gone_from is not None and record.offset >= self.gone_from:
            raise Violation("tick-after-deletion", f"{self.name} at {record.offset}")

    def _check_complete(self, ticks: list[int], now: int) -> None:
        assert self.created_at is not None
        step = self.every_ns or _MINUTE * SECOND
        first = self.created_at // step * step if self.every_ns is None else self.start
        assert first is not None
        expected = [at for at in range(first, now + 1, step) if self._is_expected(at)]
        if ticks != expected:
            missing = sorted(set(expected) - set(ticks))
            raise Violation("tick-lost", f"{self.name}: {missing} of {len(expected)}")

    def _is_expected(self, at: int) -> bool:
        assert self.created_at is not None
        return at > self.created_at and self.is_tick(at)


def _header(record: Record, name: str) -> str | None:
    return next((value.decode() for header, value in record.headers if header == name), None)


def schedule_of(record: Record) -> str | None:
    """The schedule that published a record."""
    return _header(record, _SCHEDULE)
