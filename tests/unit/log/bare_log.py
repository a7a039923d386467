"""A log without a disk: the test plays the disk, and tells the time."""

import msgspec

from goqueue.log import Appended, Log, LogState
from goqueue.model import (
    SECOND,
    Effect,
    Flush,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Reshape,
    SegmentFacts,
    Synced,
    Timestamp,
)
from goqueue.records import build

LOG = LogId("orders", 0)
WALL = 1_700_000_000 * SECOND
SETTINGS = LogSettings(segment_bytes=300, retention_ns=None)
INTERVAL = msgspec.structs.replace(SETTINGS, flush=Flush.INTERVAL)


def at(nanoseconds: int = 0) -> Now:
    return Now(Instant(nanoseconds), Timestamp(WALL + nanoseconds))


def new_log(settings: LogSettings = SETTINGS, state: LogState | None = None) -> Log:
    return Log(LOG, settings, state or LogState())


def append(log: Log, count: int = 1, now: Now | None = None, size: int = 66) -> Appended:
    """Records of 100 bytes, so that three fill a segment."""
    return log.append(build([Message(value=bytes(size))] * count), now or at())


def commit(log: Log, count: int = 1, now: Now | None = None) -> Appended:
    appended = append(log, count, now)
    log.handle(Synced(log=LOG, upto=appended.next), now or at())
    return appended


def changes(effects: list[Effect] | tuple[Effect, ...]) -> list[object]:
    return [effect.change for effect in effects if isinstance(effect, Reshape)]


def segment(base: int, end: int, size: int = 100, stamp: int = WALL) -> SegmentFacts:
    return SegmentFacts(
        base=Offset(base), end=Offset(end), size=size, max_timestamp=Timestamp(stamp)
    )
