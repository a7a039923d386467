"""Which follower that is behind is read for next, and how fast.

Live batches go to followers from memory, in the turn in which they are written. What a follower
lacks of older records is read from the disk, beside the event loop. Owns the queue of those reads,
for all logs that this broker leads. Never reads itself, and knows no log.

Invariants
- Members of an ISR come first, in the order in which they asked: the high watermark waits for them.
  They are not throttled.
- One read is under way. To one broker at most four reads that it has not confirmed are on their
  way, so that they never fill its connection, which also carries live batches.
- Others are read for at a rate (`CatchUpRate`), if one is set: learners of a reassignment at its
  own, everybody else together at `bytes_per_second`. After each read whoever shares the rate waits
  for as long as its bytes take, counted from when the read could begin: on average the rate is met.
- A read whose follower subscribed anew, or whose leader is no more, is dropped: from the queue at
  once, or when it is done.

Nothing here is durable, so no crash leaves anything behind. Cost: a dictionary entry for each
follower that is behind, and a look at those that wait for each read. Bound: one entry for each log
and follower, and one for each rate that was used in the last second.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from goqueue.broker.disk_reads import ReplicaFetch
from goqueue.broker.state import NodeState
from goqueue.cluster import Voter
from goqueue.model import MILLISECOND, SECOND, Instant, ReplicaLog, Slice

__all__ = ["CatchUp", "CatchUpRate"]

# To one broker, read and not confirmed.
_UNCONFIRMED_MAX = 4
# A read that begins later than its rate allowed is made up for, if it is no later than this.
_LATE_NS_MAX = 200 * MILLISECOND


class CatchUpRate(NamedTuple):
    """How fast may be read for those who share a rate; 0: as fast as they take it.

    Rate 0 is that of followers, other rates are those of the reassignments with these numbers.
    """

    number: int
    bytes_per_second: int


class _Key(NamedTuple):
    log: ReplicaLog
    follower: Voter


class _Read(msgspec.Struct, frozen=True):
    wanted: Slice
    purpose: ReplicaFetch
    # None: for a member of an ISR.
    rate: CatchUpRate | None


class CatchUp:
    """The reads for followers of all logs that a broker leads."""

    def __init__(self, state: NodeState, bytes_per_second: int | None = None) -> None:
        self._state = state
        self._rate = CatchUpRate(0, bytes_per_second or 0)
        # In the order in which they asked.
        self._in_sync: dict[_Key, _Read] = {}
        self._behind: dict[_Key, _Read] = {}
        self._reading: _Read | None = None
        self._begun_at = Instant(0)
        # Those who are read for, or were and have not confirmed it.
        self._unconfirmed: dict[_Key, None] = {}
        # When the next read at each rate may begin, and when somebody may be read for who waits.
        self._paused: dict[int, Instant] = {}
        self._wake_at: Instant | None = None

    def request(
        self,
        wanted: Slice,
        purpose: ReplicaFetch,
        now: Instant,
        *,
        in_sync: bool,
        rate: CatchUpRate | None = None,
    ) -> None:
        """A follower needs records from the disk; they are read when it is its turn.

        Outside an ISR it is read for at `rate`, or at that of all such followers.
        """
        key = _Key(purpose.log, purpose.follower)
        queue = self._in_sync if in_sync else self._behind
        queue[key] = _Read(wanted, purpose, None if in_sync else rate or self._rate)
        self._begin(now)

    def cancel(self, log: ReplicaLog, follower: Voter) -> None:
        """A follower subscribes anew, or nobody leads here any more."""
        key = _Key(log, follower)
        self._in_sync.pop(key, None)
        self._behind.pop(key, None)
        self._unconfirmed.pop(key, None)

    def confirmed(self, log: ReplicaLog, follower: Voter, now: Instant) -> None:
        """A follower has all that it was sent."""
        if self._unconfirmed.pop(_Key(log, follower), 0) is None:
            self._begin(now)

    def done(self, purpose: ReplicaFetch, size: int, now: Instant) -> None:
        """A read is done, whether or not anybody still wants it."""
        read = self._reading
        if read is None or read.purpose != purpose:
            return
        self._reading = None
        if read.rate is not None and read.rate.bytes_per_second:
            self._pause(read.rate, size)
        if not size:
            self._unconfirmed.pop(_Key(purpose.log, purpose.follower), None)
        self._begin(now)

    def _pause(self, rate: CatchUpRate, size: int) -> None:
        """So much was read at a rate: the next read waits for as long as that takes."""
        allowed = self._paused.get(rate.number, self._begun_at)
        begun = max(allowed, self._begun_at - _LATE_NS_MAX)
        self._paused[rate.number] = Instant(begun + size * SECOND // rate.bytes_per_second)

    def next_deadline(self) -> Instant | None:
        """When somebody may be read for who has to wait now."""
        return self._wake_at

    def wake(self, now: Instant) -> None:
        """A deadline may have come."""
        if self._wake_at is not None and now >= self._wake_at:
            self._begin(now)

    def _begin(self, now: Instant) -> None:
        """Read for the next one, unless a read is under way."""
        self._wake_at = None
        if self._reading is not None:
            return
        key = self._first(self._in_sync)
        if key is not None:
            self._read(key, self._in_sync.pop(key), now)
            return
        self._paused = {
            number: until for number, until in self._paused.items() if until > now - SECOND
        }
        allowed = [key for key, read in self._behind.items() if not self._is_paused(read, now)]
        key = self._first(allowed)
        if key is not None:
            self._read(key, self._behind.pop(key), now)

    def _is_paused(self, read: _Read, now: Instant) -> bool:
        """Whether a read has to wait for its rate; then it is looked at when it need not."""
        assert read.rate is not None
        until = self._paused.get(read.rate.number)
        if until is None or until <= now:
            return False
        self._wake_at = until if self._wake_at is None else min(self._wake_at, until)
        return True

    def _first(self, waiting: Iterable[_Key]) -> _Key | None:
        """The first whose broker has confirmed enough of what was read for it."""
        unconfirmed: dict[str, int] = {}
        for key in self._unconfirmed:
            broker = key.follower.broker
            unconfirmed[broker] = unconfirmed.get(broker, 0) + 1
        for key in waiting:
            if unconfirmed.get(key.follower.broker, 0) < _UNCONFIRMED_MAX:
                return key
        return None

    def _read(self, key: _Key, read: _Read, now: Instant) -> None:
        self._reading = read
        self._begun_at = now
        self._wake_at = None
        self._unconfirmed[key] = None
        self._state.fetch(read.wanted, read.purpose, in_background=True)
