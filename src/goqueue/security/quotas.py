"""Rates and totals of tenants: what each may still do now, and what it has done.

A bucket is one instant, by GCRA: the time at which it is full again. It admits a request while it
holds something, whatever the size of the request, and may then be in debt; so no request is too
large ever to pass, and whether one is refused is known before its size is. Over any time t after
the first burst at most `rate * t`, and one request, passes. Buckets are told the monotonic time: a
wall clock that is set back refuses nobody for hours.

In a cluster the nodes tell each other with their heartbeats what they charged, and each charges the
same: over time all of them together admit one rate, whichever node leads what. Between two
heartbeats none knows of the others, so each may admit half a second of it, which all pay for
afterwards. A node that hears nobody counts for itself.

A quota of 0 has no bucket and costs nothing. Totals count what was committed or handed out, so what
the journal says of them is never more than what happened.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from goqueue.model import (
    COUNTER_MAX,
    MILLISECOND,
    SECOND,
    USES_MAX,
    Code,
    Instant,
    Now,
    Refused,
    TenantUse,
    Timestamp,
)
from goqueue.model.requests import Quotas
from goqueue.security.changes import TenantTotals, UsageStated

__all__ = ["RateState", "TenantMeter", "TenantMeters", "TokenBucket", "check_count"]

_BURST_NS = SECOND
# What others admitted keeps this node from admitting for at most so long: more comes at once only
# if it was told late. Ten nodes that admit half a second each need it.
_ELSEWHERE_NS_MAX = 5 * SECOND
# How many meters are looked at for one heartbeat.
_LOOKED_AT_MAX = 1_000


class TokenBucket:
    """So much per second, and a burst of one second."""

    __slots__ = ("full_at", "rate", "untold")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        # What was charged here and not told to the other nodes.
        self.untold = 0
        # In debt as long as this is more than the burst away.
        self.full_at = Instant(0)

    def retry_after_ns(self, now: Instant) -> int:
        """How long until the next request is admitted; 0: it is now."""
        return max(0, self.full_at - now - _BURST_NS)

    def is_in_debt(self, now: Instant) -> bool:
        """Whether the next request has to wait."""
        return self.full_at - now > _BURST_NS

    def remaining(self, now: Instant) -> int:
        """How much the bucket holds; 0 when it is in debt."""
        held_ns = _BURST_NS - max(0, self.full_at - now)
        return max(0, held_ns * self.rate // SECOND)

    def charge(self, count: int, now: Instant) -> None:
        """Take out what a request used, more than there is if need be."""
        cost_ns = -(-count * SECOND // self.rate)
        begin = now if now > self.full_at else self.full_at  # noqa: FURB136 - `max` is a call
        self.full_at = begin + cost_ns  # type: ignore[assignment]  # a time and a duration
        self.untold += count

    def charge_elsewhere(self, count: int, now: Instant) -> None:
        """Take out what another node admitted."""
        latest = max(self.full_at, now + _BURST_NS + _ELSEWHERE_NS_MAX)
        self.charge(count, now)
        self.untold -= count
        self.full_at = Instant(min(self.full_at, latest))


class RateState:
    """What one bucket, or two that go together, say: which is the tighter, and how much is left."""

    __slots__ = ("limit", "remaining")

    def __init__(self, limit: int, remaining: int) -> None:
        self.limit = limit
        self.remaining = remaining


class TenantMeter:
    """The buckets and the totals of one tenant."""

    __slots__ = (
        "_consume_bytes",
        "_consume_messages",
        "_publish_bytes",
        "_publish_messages",
        "connections",
        "consumed_bytes",
        "consumed_messages",
        "is_changed",
        "published_bytes",
        "published_messages",
        "tenant",
        "updated_at",
        "violations",
    )

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._publish_messages: TokenBucket | None = None
        self._publish_bytes: TokenBucket | None = None
        self._consume_messages: TokenBucket | None = None
        self._consume_bytes: TokenBucket | None = None
        self.published_messages = 0
        self.published_bytes = 0
        self.consumed_messages = 0
        self.consumed_bytes = 0
        self.violations = 0
        self.updated_at = 0
        self.is_changed = False
        # Open now, of this node; never stored.
        self.connections = 0

    def configure(self, quotas: Quotas) -> None:
        """Follow other quotas; a debt stays as long as it was."""
        self._publish_messages = _resized(self._publish_messages, quotas.max_messages_per_second)
        self._publish_bytes = _resized(self._publish_bytes, quotas.max_bytes_per_second)
        self._consume_messages = _resized(
            self._consume_messages, quotas.max_consume_messages_per_second
        )
        self._consume_bytes = _resized(self._consume_bytes, quotas.max_consume_bytes_per_second)

    @property
    def limits_publishing(self) -> bool:
        """Whether a publish has to be counted before it is done."""
        return self._publish_messages is not None or self._publish_bytes is not None

    @property
    def limits_consuming(self) -> bool:
        return self._consume_messages is not None or self._consume_bytes is not None

    # Publishing

    def is_in_debt(self, now: Instant) -> bool:
        """Whether `check_publish` would refuse."""
        messages, size = self._publish_messages, self._publish_bytes
        return (messages is not None and messages.full_at - now > _BURST_NS) or (
            size is not None and size.full_at - now > _BURST_NS
        )

    def check_publish(self, now: Instant) -> None:
        """Refuse while a bucket is in debt: whatever the size of the request is."""
        messages, size = self._publish_messages, self._publish_bytes
        # On the path of every publish, so the buckets are not asked.
        if messages is not None and messages.full_at - now > _BURST_NS:
            self._check(messages, "max_messages_per_second", now)
        if size is not None and size.full_at - now > _BURST_NS:
            self._check(size, "max_bytes_per_second", now)

    def charge_publish(self, messages: int, size: int, now: Instant) -> None:
        if self._publish_messages is not None:
            self._publish_messages.charge(messages, now)
        if self._publish_bytes is not None:
            self._publish_bytes.charge(size, now)

    def publish_rate(self, now: Instant) -> RateState | None:
        """How many messages may still be published at once; None: no limit."""
        return _state(self._publish_messages, now)

    def count_published(self, messages: int, size: int) -> None:
        """Messages were committed."""
        self.published_messages += messages
        self.published_bytes += size
        self.is_changed = True

    # Consuming

    def check_consume(self, now: Instant) -> None:
        """Refuse while a bucket is in debt."""
        self._check(self._consume_messages, "max_consume_messages_per_second", now)
        self._check(self._consume_bytes, "max_consume_bytes_per_second", now)

    def consume_wait_ns(self, now: Instant) -> int:
        """How long a poll gets nothing; 0: it may get `consume_room` messages."""
        buckets = (self._consume_messages, self._consume_bytes)
        return max((each.retry_after_ns(now) for each in buckets if each is not None), default=0)

    def consume_room(self, now: Instant) -> int | None:
        """How many messages may be handed out at once, at least one; None: no limit."""
        bucket = self._consume_messages
        return None if bucket is None else max(1, bucket.remaining(now))

    def consume_bytes_room(self, now: Instant) -> int | None:
        """How many bytes may be handed out at once, at least one; None: no limit."""
        bucket = self._consume_bytes
        return None if bucket is None else max(1, bucket.remaining(now))

    def consume_rate(self, now: Instant) -> RateState | None:
        """How many messages may still be read at once; None: no limit."""
        return _state(self._consume_messages, now)

    def charge_leased(self, messages: int, now: Instant) -> None:
        """Messages were leased by a poll: their bytes come with `count_consumed`."""
        _charge(self._consume_messages, messages, now)

    def count_consumed(
        self, messages: int, size: int, now: Instant, *, is_leased: bool = False
    ) -> None:
        """Messages were handed out: charge what is not charged yet, and count them."""
        if not is_leased:
            _charge(self._consume_messages, messages, now)
        _charge(self._consume_bytes, size, now)
        self.consumed_messages += messages
        self.consumed_bytes += size
        self.is_changed = True

    # Other nodes

    @property
    def _buckets(self) -> tuple[TokenBucket | None, ...]:
        """In the order of the fields of `TenantUse`."""
        return (
            self._publish_messages,
            self._publish_bytes,
            self._consume_messages,
            self._consume_bytes,
        )

    def take_untold(self) -> TenantUse | None:
        """What was charged since the last call; None: nothing."""
        counts = [0 if bucket is None else bucket.untold for bucket in self._buckets]
        if not any(counts):
            return None
        for bucket in self._buckets:
            if bucket is not None:
                bucket.untold = 0
        return TenantUse(self.tenant, *(min(count, COUNTER_MAX) for count in counts))

    def charge_elsewhere(self, use: TenantUse, now: Instant) -> None:
        """Another node charged this."""
        counts = (
            use.published_messages,
            use.published_bytes,
            use.consumed_messages,
            use.consumed_bytes,
        )
        for bucket, count in zip(self._buckets, counts, strict=True):
            if bucket is not None and count:
                bucket.charge_elsewhere(count, now)

    # Totals

    def violate(self) -> None:
        """A request was refused by a quota."""
        self.violations += 1
        self.is_changed = True

    def reset(self, at: Timestamp) -> None:
        """Begin to count anew."""
        self.updated_at = at
        self.published_messages = self.published_bytes = 0
        self.consumed_messages = self.consumed_bytes = 0
        self.is_changed = False

    @property
    def totals(self) -> TenantTotals:
        return TenantTotals(
            tenant=self.tenant,
            published_messages=self.published_messages,
            published_bytes=self.published_bytes,
            consumed_messages=self.consumed_messages,
            consumed_bytes=self.consumed_bytes,
            violations=self.violations,
            updated_at=self.updated_at,
        )

    def apply(self, totals: TenantTotals) -> None:
        """Become what the journal says."""
        self.published_messages = totals.published_messages
        self.published_bytes = totals.published_bytes
        self.consumed_messages = totals.consumed_messages
        self.consumed_bytes = totals.consumed_bytes
        self.violations = totals.violations
        self.updated_at = totals.updated_at

    def _check(self, bucket: TokenBucket | None, quota: str, now: Instant) -> None:
        wait_ns = 0 if bucket is None else bucket.retry_after_ns(now)
        if bucket is not None and wait_ns:
            self.violate()
            raise Refused(
                Code.RATE_LIMITED,
                quota=quota,
                limit=bucket.rate,
                retry_after_ms=-(-wait_ns // MILLISECOND),
            )


class TenantMeters:
    """The meters of all tenants that have one."""

    def __init__(self) -> None:
        self._meters: dict[str, TenantMeter] = {}
        # The tenants whose uses are told next.
        self._to_tell: deque[str] = deque()

    def of(self, tenant: str) -> TenantMeter:
        """The meter of a tenant that exists."""
        meter = self._meters.get(tenant)
        if meter is None:
            meter = self._meters[tenant] = TenantMeter(tenant)
        return meter

    def configure(self, tenant: str, quotas: Quotas) -> None:
        self.of(tenant).configure(quotas)

    def forget(self, tenant: str) -> None:
        self._meters.pop(tenant, None)

    def take_untold(self) -> tuple[TenantUse, ...]:
        """What was charged and not told, of a number of tenants: the others come next."""
        if not self._to_tell:
            self._to_tell.extend(self._meters)
        uses: list[TenantUse] = []
        for _ in range(min(len(self._to_tell), _LOOKED_AT_MAX)):
            meter = self._meters.get(self._to_tell.popleft())
            use = None if meter is None else meter.take_untold()
            if use is not None:
                uses.append(use)
            if len(uses) == USES_MAX:
                break
        return tuple(uses)

    def charge_elsewhere(self, uses: Iterable[TenantUse], now: Instant) -> None:
        """Another node has told what it charged."""
        for use in uses:
            meter = self._meters.get(use.tenant)
            if meter is not None:
                meter.charge_elsewhere(use, now)

    def apply(self, usage: UsageStated) -> None:
        """Become what the journal says of tenants that exist."""
        for totals in usage.totals:
            meter = self._meters.get(totals.tenant)
            if meter is not None:
                meter.apply(totals)

    def changed(self) -> list[str]:
        """The tenants whose totals the journal does not know."""
        return [tenant for tenant, meter in self._meters.items() if meter.is_changed]

    def take(self, tenants: Iterable[str], now: Now) -> tuple[TenantTotals, ...]:
        """The totals of these tenants, for the journal; of those that there are still."""
        taken = []
        for tenant in tenants:
            meter = self._meters.get(tenant)
            if meter is not None and meter.is_changed:
                meter.is_changed = False
                meter.updated_at = now.wall
                taken.append(meter.totals)
        return tuple(taken)

    def state(self, tenants: Iterable[str]) -> Iterator[TenantTotals]:
        """The totals of these tenants, as far as there are any."""
        for tenant in tenants:
            meter = self._meters.get(tenant)
            if meter is not None and meter.updated_at:
                yield meter.totals


def check_count(quota: str, limit: int, used: int, more: int = 1) -> None:
    """Refuse what would make a count larger than its quota; 0 is no limit."""
    if limit and used + more > limit:
        raise Refused(Code.QUOTA_EXCEEDED, quota=quota, limit=limit, used=used)


def _charge(bucket: TokenBucket | None, count: int, now: Instant) -> None:
    if bucket is not None:
        bucket.charge(count, now)


def _state(bucket: TokenBucket | None, now: Instant) -> RateState | None:
    return None if bucket is None else RateState(bucket.rate, bucket.remaining(now))


def _resized(bucket: TokenBucket | None, rate: int) -> TokenBucket | None:
    if not rate:
        return None
    if bucket is None:
        return TokenBucket(rate)
    bucket.rate = rate
    return bucket
