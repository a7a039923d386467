"""Who is the controller where an external store elects it: whoever holds a key under a lease.

A lease is no lock: its holder may be paused past its end and go on believing in it. So nothing is
safe because of it; each proposal compares the revision at which the key was created, which is the
epoch of the controller, in its own transaction. The lease only makes one broker after the other
try, and ends the wait for one that is gone.

Invariants
- An epoch is believed only when a read of the store showed it, with a lease of this run: the reply
  of the transaction that took it says no more than that a look is worth it.
- This broker stops deciding before its lease can end in the store: its time counts from when the
  store was asked to keep it, on the own clock.
- A lease of this broker that it does not lead by is revoked: one of an earlier run, one that came
  late, one of an attempt that another broker was ahead of.

Crash points: leased | key taken | seen: what is left over ends by its time, or is revoked by the
next run. Cost: one call each third of the time of a lease.
"""

import enum

import msgspec

from goqueue.broker.cluster.cluster_config import JitterSource
from goqueue.broker.cluster.etcd_calls import (
    Compare,
    EtcdCall,
    GrantLease,
    KeepLease,
    PutKey,
    RevokeLease,
    Transaction,
)
from goqueue.broker.cluster.store_records import StoredController, StoreKeys
from goqueue.model import SECOND, Instant

__all__ = ["LEASE_TTL_S", "ControllerLease", "LeaseStep"]

LEASE_TTL_S = 5
# Clocks of etcd and of this broker may differ in rate by a tenth.
_TRUSTED_NS = LEASE_TTL_S * SECOND * 9 // 10
_KEEP_NS = LEASE_TTL_S * SECOND // 5
_RETRY_NS = SECOND // 5


class LeaseStep(enum.Enum):
    """What a call about a lease is for."""

    GRANT = "grant"
    TAKE = "take"
    KEEP = "keep"
    REVOKE = "revoke"

    @classmethod
    def of(cls, call: EtcdCall) -> "LeaseStep":
        """The step that a call of the election is."""
        match call:
            case GrantLease():
                return cls.GRANT
            case KeepLease():
                return cls.KEEP
            case RevokeLease():
                return cls.REVOKE
        return cls.TAKE


class _Lease(msgspec.Struct):
    id: int
    # Until when it surely lasts; None: it was not granted yet.
    until: Instant | None = None
    asked_at: Instant = Instant(0)
    keep_at: Instant | None = None


class ControllerLease:
    """The part of one run of a broker in the election; `step` and `seen` return the next call."""

    def __init__(self, me: StoredController, keys: StoreKeys, seed: int) -> None:
        self._me = me
        self._keys = keys
        self._seed = seed
        self._ids = 0
        self._jitter = JitterSource(seed)
        self._lease: _Lease | None = None
        self._epoch: int | None = None
        self._may_stand_at = Instant(0)

    @property
    def epoch(self) -> int | None:
        """The epoch in which this broker decides; None: it does not."""
        return self._epoch

    def next_deadline(self) -> Instant | None:
        lease = self._lease
        if lease is None or self._epoch is None:
            return None
        return min(each for each in (lease.until, lease.keep_at) if each is not None)

    # Taking

    def stand(self, now: Instant) -> EtcdCall | None:
        """Nobody decides: ask for a lease, unless that was done a moment ago."""
        if now < self._may_stand_at:
            return None
        self._ids += 1
        lease_id = (self._seed + self._ids * 7919) % (1 << 62) + 1
        self._lease = _Lease(lease_id, asked_at=now)
        # Brokers that see the key go at once do not try in step for ever.
        self._may_stand_at = Instant(now + SECOND + int(self._jitter.draw() * SECOND))
        return GrantLease(ID=lease_id, TTL=LEASE_TTL_S)

    def granted(self, ttl_s: int) -> EtcdCall | None:
        """The lease was granted: take the key, if nobody has it."""
        lease = self._lease
        if lease is None or lease.until is not None or not ttl_s:
            return None
        lease.until = Instant(lease.asked_at + _TRUSTED_NS)
        mine = PutKey(
            key=self._keys.controller, value=msgspec.json.encode(self._me), lease=lease.id
        )
        return Transaction.of([Compare.created(self._keys.controller, 0)], [mine])

    def seen(
        self, holder: StoredController | None, lease_id: int, created: int, now: Instant
    ) -> EtcdCall | None:
        """A read of the store showed who holds the key."""
        lease = self._lease
        is_mine = holder == self._me and lease is not None and lease.id == lease_id
        if is_mine and lease is not None and lease.until is not None and now < lease.until:
            if self._epoch != created:
                self._epoch = created
                lease.keep_at = Instant(lease.asked_at + _KEEP_NS)
            return None
        self._epoch = None
        if holder is not None and self._is_leftover(holder):
            self._lease = None
            return RevokeLease(ID=lease_id)
        if holder is not None and lease is not None:
            # Another broker was ahead.
            self._lease = None
            return RevokeLease(ID=lease.id)
        return None

    def _is_leftover(self, holder: StoredController) -> bool:
        """Whether the key is held by this broker without its leading by it."""
        return (holder.broker, holder.directory) == (self._me.broker, self._me.directory)

    # Keeping

    def keep(self, now: Instant) -> EtcdCall | None:
        """Keep the lease, when it is time; it ends here when nobody confirmed it in time."""
        lease = self._lease
        if lease is None or self._epoch is None:
            return None
        if lease.until is None or now >= lease.until:
            return self.resign()
        if lease.keep_at is None or now < lease.keep_at:
            return None
        lease.keep_at = None
        lease.asked_at = now
        return KeepLease(ID=lease.id)

    def kept(self, call: KeepLease, ttl_s: int) -> EtcdCall | None:
        """The store has kept the lease, or says that it has ended."""
        lease = self._lease
        if lease is None or lease.id != call.ID or self._epoch is None:
            return None
        if not ttl_s:
            return self.resign()
        lease.until = Instant(lease.asked_at + _TRUSTED_NS)
        lease.keep_at = Instant(lease.asked_at + _KEEP_NS)
        return None

    def failed(self, step: LeaseStep, now: Instant) -> None:
        """There was no reply: keep it again soon; all else is shown by the next read."""
        if step is LeaseStep.KEEP and self._lease is not None:
            self._lease.keep_at = Instant(now + _RETRY_NS)

    def resign(self) -> EtcdCall | None:
        """Decide no more, and let another broker do so at once."""
        lease, self._lease, self._epoch = self._lease, None, None
        return None if lease is None else RevokeLease(ID=lease.id)
