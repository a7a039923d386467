"""How far each hosted log was known to reach, kept apart from the logs: a lost file is noticed.

A log whose directory is gone opens as an empty one. Only a note elsewhere can say that it was not
empty, so `__broker_state` keeps, for each log that ever confirmed anything, an end that it had.

Invariants
- Nothing of a log is confirmed, to its leader or as its leader, before a note says that it has
  records: a log that opens shorter than its note has lost what it promised.
- A note never says more than is durable in the log; above the first record, no more than is
  committed. It is lowered, durably, before a truncation takes what it names.

Crash points: record durable | noted: an unknown log that confirmed nothing, so nothing is missed.
Noted | confirmed: the record is there. Note lowered | truncated: the log is longer than it must be.

Cost: one small record and one sync for the first record of a log, merged over a turn; then one
record every five seconds for all logs that moved meanwhile.
"""

from collections import deque
from collections.abc import Iterator

from goqueue.broker.cluster.broker_state import BrokerStateJournal
from goqueue.cluster import PartitionId
from goqueue.log import Log
from goqueue.model import SECOND, Instant, Now, Offset

__all__ = ["RecordedEnds"]

_RAISE_NS = 5 * SECOND


class RecordedEnds:
    """The notes of this broker about its logs."""

    def __init__(self) -> None:
        self._journal: BrokerStateJournal | None = None
        # What the journal holds durably; what is on its way; what the end of the turn writes.
        self._durable: dict[PartitionId, Offset] = {}
        self._pending: deque[tuple[int, dict[PartitionId, Offset]]] = deque()
        self._wanted: dict[PartitionId, Offset] = {}
        # Logs that moved since their notes were raised, and when that is next.
        self._moved: dict[PartitionId, Log] = {}
        self._raise_at: Instant | None = None

    def connect(self, journal: BrokerStateJournal) -> None:
        """The journal was read: all that it says is durable."""
        self._journal = journal
        self._durable = dict(journal.ends)

    def __iter__(self) -> Iterator[PartitionId]:
        return iter(self._durable)

    def noted(self, where: PartitionId) -> Offset:
        """An end that the log had, durably noted; 0 if it never confirmed anything."""
        return self._durable.get(where, Offset(0))

    def _highest(self, where: PartitionId) -> Offset:
        """The most that a crash could leave in the journal."""
        ends = [self.noted(where), self._wanted.get(where, Offset(0))]
        ends += [changes[where] for _, changes in self._pending if where in changes]
        return max(ends)

    def newest(self, where: PartitionId) -> Offset:
        """What the journal says once all that is on its way is durable."""
        if where in self._wanted:
            return self._wanted[where]
        for _, changes in reversed(self._pending):
            if where in changes:
                return changes[where]
        return self.noted(where)

    def may_confirm(self, where: PartitionId, log: Log) -> bool:
        """Whether what a log holds may be confirmed; if not, the note is on its way.

        A log that commits what is only written promises nothing over a power loss: its note
        follows when something is durable.
        """
        if self._durable.get(where):
            return True
        durable = log.watermarks.durable
        if durable and not self.newest(where):
            self._wanted[where] = Offset(1)
        return log.commits_written or not durable

    def moved(self, where: PartitionId, log: Log, now: Instant) -> None:
        """More of a log is durable: its note is raised within a while."""
        self._moved[where] = log
        if self._raise_at is None:
            self._raise_at = Instant(now + _RAISE_NS)

    def may_cut(self, where: PartitionId, target: Offset) -> bool:
        """Whether no note names what a truncation to `target` takes; if not, it is lowered."""
        self._moved.pop(where, None)
        if self._highest(where) <= target:
            return True
        if self.newest(where) > target:
            self._wanted[where] = target
        return False

    def forget(self, where: PartitionId) -> None:
        """The log is gone for good."""
        self._moved.pop(where, None)
        if self.newest(where):
            self._wanted[where] = Offset(0)

    def lower(self, where: PartitionId, end: Offset) -> None:
        """The log lost something, and nobody counts on it any more."""
        self._wanted[where] = end

    # Time and the disk

    def next_deadline(self) -> Instant | None:
        return self._raise_at

    def wake(self, now: Instant) -> None:
        """Raise the notes of what moved, if it is time."""
        if self._raise_at is None or now < self._raise_at:
            return
        self.raise_all()

    def raise_all(self) -> None:
        """Note how far every log is committed that moved."""
        self._raise_at = None
        for where, log in self._moved.items():
            end = min(log.high_watermark, log.watermarks.durable)
            if end > self.newest(where):
                self._wanted[where] = end
        self._moved.clear()

    def finish_turn(self, now: Now) -> None:
        """Write what the turn brought, as one record."""
        if self._wanted and self._journal is not None:
            changes, self._wanted = self._wanted, {}
            number = self._journal.note_ends(changes, now)
            self._pending.append((number, changes))

    def durable(self, number: int) -> list[PartitionId]:
        """The journal is durable up to a number; whose notes that changed."""
        changed: dict[PartitionId, None] = {}
        while self._pending and self._pending[0][0] <= number:
            _, changes = self._pending.popleft()
            for where, end in changes.items():
                changed[where] = None
                if end:
                    self._durable[where] = end
                else:
                    self._durable.pop(where, None)
        return list(changed)
