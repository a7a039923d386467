"""What the disk keeps from the node: logs that failed, that found no space, that are damaged.

Learns from what the disk reports, and is shown by probes, metrics and the log of the process. Never
decides anything.

Invariant: `version` changes with everything that is told here.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from goqueue.log import DamagedRange
from goqueue.model import SECOND, Instant, LogId, Now
from goqueue.model.requests import DamagedOffsets

__all__ = ["StorageHealth"]

# Only a write shows that there is space again. A log that nobody writes to is not full for ever.
_FULL_NS = 60 * SECOND
_SHOWN_MAX = 20


class StorageHealth:
    """The logs with a problem, each kind in the order in which it began."""

    def __init__(self) -> None:
        # With the reason of each.
        self.failed: dict[LogId, str] = {}
        self.version = 0
        self._full: dict[LogId, Instant] = {}
        self._damaged: dict[LogId, tuple[DamagedRange, ...]] = {}

    @property
    def full(self) -> tuple[LogId, ...]:
        """Logs whose last write found no space."""
        return tuple(self._full)

    @property
    def damaged_ranges(self) -> int:
        return sum(map(len, self._damaged.values()))

    def damaged(self, limit: int = _SHOWN_MAX) -> tuple[DamagedOffsets, ...]:
        """The first of the damaged ranges."""
        every = (
            DamagedOffsets(log=log, first=lost.first, below=lost.below, reason=lost.reason)
            for log, ranges in self._damaged.items()
            for lost in ranges
        )
        return tuple(islice(every, limit))

    def damaged_by_topic(self) -> dict[str, int]:
        """How many offsets of each topic are refused; topics without damage are not named."""
        counts: dict[str, int] = {}
        for log, ranges in self._damaged.items():
            lost = sum(each.below - each.first for each in ranges)
            counts[log.topic] = counts.get(log.topic, 0) + lost
        return counts

    def record_failed(self, log: LogId, reason: str) -> None:
        """The disk failed to store data: the log accepts no more writes."""
        self.version += 1
        self.failed[log] = reason

    def record_full(self, log: LogId, now: Now) -> None:
        """A write found no space."""
        if log not in self._full:
            self.version += 1
        self._full[log] = now.instant

    def record_written(self, log: LogId) -> None:
        """Something was written and committed."""
        if self._full.pop(log, None) is not None:
            self.version += 1

    def record_damage(self, log: LogId, ranges: Iterable[DamagedRange]) -> None:
        """All that is damaged in a log; nothing any more where retention took it."""
        damaged = tuple(ranges)
        if damaged == self._damaged.get(log, ()):
            return
        self.version += 1
        if damaged:
            self._damaged[log] = damaged
        else:
            del self._damaged[log]

    def forget_logs(self, logs: Sequence[LogId]) -> None:
        """The logs are deleted."""
        for log in logs:
            if log in self.failed:
                del self.failed[log]
            if log in self._full:
                self.record_written(log)
            if log in self._damaged:
                self.record_damage(log, ())

    def expire(self, now: Now) -> None:
        """Forget logs that found no space long ago and that nobody wrote to since."""
        for log, instant in list(self._full.items()):
            if now.instant - instant > _FULL_NS:
                self.record_written(log)
