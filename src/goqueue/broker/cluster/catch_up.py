"""Which follower that is behind is read for next, and how fast.

Live batches go to followers from memory, in the turn in which they are written. What a follower
lacks of older records is read from the disk, beside the event loop. Owns the queue of those reads,
for all logs that this broker leads. Never reads itself, and knows no log.

Invariants
- Members of an ISR come first, in the order in which they asked: the high watermark waits for them.
  They are not throttled.
- One read is under way. To one broker at most four reads that it has not confirmed are on their
  way, so that they never fill its connection, which also carries live batches.
- Others are read for at `bytes_per_second` at most, if that is set: after each read they wait for
  as long as its bytes take at that rate.
- A read whose follower subscribed anew, or whose leader is no more, is dropped: from the queue at
  once, or when it is done.

Nothing here is durable, so no crash leaves anything behind. Cost: a dictionary entry for each
follower that is behind, and a look at those that wait for each read. Bound: one entry for each log
and follower.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from goqueue.broker.disk_reads import ReplicaFetch
from goqueue.broker.state import NodeState
from goqueue.cluster import Voter
from goqueue.model import SECOND, Instant, ReplicaLog, Slice

__all__ = ["CatchUp"]

# To one broker, read and not confirmed.
_UNCONFIRMED_MAX = 4


class _Key(NamedTuple):
    log: ReplicaLog
    follower: Voter


class _Read(msgspec.Struct, frozen=True):
    wanted: Slice
    purpose: ReplicaFetch
    is_in_sync: bool


class CatchUp:
    """The reads for followers of all logs that a broker leads."""

    def __init__(self, state: NodeState, bytes_per_second: int | None = None) -> None:
        self._state = state
        self._bytes_per_second = bytes_per_second
        # In the order in which they asked.
        self._in_sync: dict[_Key, _Read] = {}
        self._behind: dict[_Key, _Read] = {}
        self._reading: _Read | None = None
        # Those who are read for, or were and have not confirmed it.
        self._unconfirmed: dict[_Key, None] = {}
        # Until then nobody outside an ISR is read for.
        self._paused_until: Instant | None = None

    def request(self, wanted: Slice, purpose: ReplicaFetch, now: Instant, *, in_sync: bool) -> None:
        """A follower needs records from the disk; they are read when it is its turn."""
        key = _Key(purpose.log, purpose.follower)
        queue = self._in_sync if in_sync else self._behind
        queue[key] = _Read(wanted, purpose, in_sync)
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
        rate = self._bytes_per_second
        if rate and not read.is_in_sync:
            self._paused_until = Instant(now + size * SECOND // rate)
        if not size:
            self._unconfirmed.pop(_Key(purpose.log, purpose.follower), None)
        self._begin(now)

    def next_deadline(self) -> Instant | None:
        """When somebody may be read for who has to wait now."""
        return self._paused_until if self._behind else None

    def wake(self, now: Instant) -> None:
        """A deadline may have come."""
        if self._paused_until is not None and now >= self._paused_until:
            self._begin(now)

    def _begin(self, now: Instant) -> None:
        """Read for the next one, unless a read is under way."""
        if self._reading is not None:
            return
        key = self._first(self._in_sync)
        if key is not None:
            self._read(key, self._in_sync.pop(key))
            return
        if self._paused_until is not None:
            if now < self._paused_until:
                return
            self._paused_until = None
        key = self._first(self._behind)
        if key is not None:
            self._read(key, self._behind.pop(key))

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

    def _read(self, key: _Key, read: _Read) -> None:
        self._reading = read
        self._unconfirmed[key] = None
        self._state.fetch(read.wanted, read.purpose, in_background=True)
