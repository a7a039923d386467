"""What one group was delivered of one partition, and what became of it: the judge of queues.

Knows only what clients know: what they asked for, when, and the answers. Where an answer was lost
both outcomes are possible, and neither is a violation.
"""

import msgspec

from goqueue.model import Instant
from goqueue.sim.oracle import Violation
from goqueue.sim.truth.ledger import TopicTruth

__all__ = ["Delivery", "Handed", "LostPolls", "QueueTruth"]


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """One message in an answer to a poll."""

    topic: TopicTruth
    partition: int
    offset: int
    attempt: int
    receipt: str
    serial: int
    key: bytes


class Delivery:
    """One delivery of one message, as its member knows it."""

    def __init__(self, handed: Handed, member_id: str, life: int) -> None:
        self.handed = handed
        self.member_id = member_id
        self.life = life
        # The lease runs at least until `sure_until`, and not after `over_at`.
        self.sure_until = Instant(0)
        self.over_at: Instant | None = None
        self.is_used = False
        # The end of the log was lost, and this message with it.
        self.is_lost = False
        # Counts fall only by a release of the lease that counted it.
        self.may_be_released = False
        self.is_released = False


class LostPolls:
    """The number of unanswered polls of a group: each may have leased messages that nobody got."""

    def __init__(self) -> None:
        self.count = 0


class QueueTruth:
    """One group on one partition of one topic."""

    def __init__(self, topic: TopicTruth, partition: int, lost: LostPolls) -> None:
        self._lost = lost
        self.topic = topic
        self.partition = partition
        self.acked: dict[int, None] = {}
        # Perhaps settled: somebody asked for it, and the answer is not there or was lost.
        self.maybe: dict[int, int] = {}
        # How often each message was delivered: what was asked before the last time settled nothing.
        self._deliveries_of: dict[int, int] = {}
        self.dead: dict[int, None] = {}
        self.latest: dict[int, Delivery] = {}
        self._deliveries: list[Delivery] = []
        # Everything below is settled, because a commit or a reset said so.
        self.floor = 0
        self.maybe_floor = 0
        # What a group must get begins here; None: nothing is known of it.
        self.required_from: int | None = 0
        self.told = 0
        # A reset whose outcome is not known: what was settled or counted before may still be.
        self.is_vague = False
        # How often the end of the log was lost.
        self.losses = 0

    def loosen(self) -> None:
        """A reset was requested: settled messages may be delivered again, and counts restart."""
        # What was on its way to the dead letters arrives there, and is settled by that.
        for offset in self.latest:
            if self._may_be_dead(offset):
                self.asked(offset)
        for settled in (self.acked, self.dead, self.latest):
            settled.clear()
        self.floor = self.maybe_floor = self.told = 0
        self.required_from = None
        self.is_vague = True

    def put_at(self, offset: int) -> None:
        """A reset is answered."""
        self.is_vague = False
        self.floor = self.required_from = offset
        # A commit may have come after the reset and be answered later.
        self.maybe_floor = max(self.maybe_floor, offset)

    def commit_asked(self, offset: int) -> None:
        self.maybe_floor = max(self.maybe_floor, offset)

    def committed(self, offset: int) -> None:
        """A commit was answered: everything below the offset is settled."""
        self.floor = max(self.floor, offset)

    def is_settled(self, offset: int) -> bool:
        return offset < self.floor or offset in self.acked or offset in self.dead

    def may_be_settled(self, offset: int) -> bool:
        if offset < self.maybe_floor or offset in self.maybe or self.is_vague:
            return True
        if self.topic.retires:
            # It may have gone with its segment.
            return True
        return self.is_settled(offset) or self._may_be_dead(offset)

    def _may_be_dead(self, offset: int) -> bool:
        """Whether a message may have reached its last delivery."""
        limit = self.topic.limit_min
        latest = self.latest.get(offset)
        attempts = (0 if latest is None else latest.handed.attempt) + self._lost.count
        return limit is not None and attempts >= limit

    def lost(self, end: int) -> None:
        """Power loss cut the log at `end`: nothing from there on was settled or counted."""
        self.losses += 1
        for delivery in self._deliveries:
            delivery.is_lost |= delivery.handed.offset >= end
        for known in (self.acked, self.maybe, self.dead, self.latest):
            for offset in [each for each in known if each >= end]:
                del known[offset]
        self.floor, self.maybe_floor = min(self.floor, end), min(self.maybe_floor, end)
        self.told = min(self.told, end)
        if self.required_from is not None:
            self.required_from = min(self.required_from, end)

    def told_committed(self, offset: int, at_least: int) -> None:
        """A committed offset was returned; `at_least` was known when the request was sent."""
        # The start of a log that retires messages is seen here, and may be back after a crash.
        if offset < at_least and not self.topic.retires:
            raise Violation("committed-offset-fell", f"{self._name(offset)} after {at_least}")
        self.told = max(self.told, offset)

    # Settling

    def asked(self, offset: int) -> int:
        """An ack, a reject, or the nack of a last delivery was sent; after how many deliveries."""
        self.maybe[offset] = self.maybe.get(offset, 0) + 1
        return self._deliveries_of.get(offset, 0)

    def answered(self, offset: int, delivered: int, *, is_settled: bool) -> None:
        """The request was answered; one without an answer stays possible."""
        if delivered == self._deliveries_of.get(offset, 0):
            count = self.maybe.pop(offset, 1) - 1
            if count > 0:
                self.maybe[offset] = count
        if is_settled:
            self.acked[offset] = None

    # Delivering

    def deliver(self, delivery: Delivery, now: Instant, sure_live: Instant) -> None:
        """Judge a delivery by what was known before it.

        `sure_live` is until when the session of the previous holder certainly lasts.
        """
        handed = delivery.handed
        offset = handed.offset
        if self.is_settled(offset):
            raise Violation("settled-message-redelivered", f"{self._name(offset)}: {handed}")
        before = self.latest.get(offset)
        if before is not None and before.life == delivery.life:
            if now < min(before.sure_until, sure_live):
                raise Violation(
                    "two-leases-for-one-message",
                    f"{self._name(offset)}: {before.handed.receipt} and {handed.receipt}",
                )
        self._check_count(before, delivery)
        self.maybe.pop(offset, None)
        self._deliveries_of[offset] = self._deliveries_of.get(offset, 0) + 1
        self.latest[offset] = delivery
        self._deliveries.append(delivery)

    def _check_count(self, before: Delivery | None, delivery: Delivery) -> None:
        attempt = delivery.handed.attempt
        least, most = 1, 1 + self._lost.count
        if before is not None:
            last = before.handed.attempt
            # A first delivery is handed out before its count is committed.
            is_forgettable = before.life != delivery.life and last == 1
            may_stay = is_forgettable or before.may_be_released
            least = last if may_stay else last + 1
            most = last + self._lost.count + (not before.is_released)
        if self.is_vague:
            most = attempt
        if not least <= attempt <= most:
            raise Violation(
                "wrong-delivery-count",
                f"{self._name(delivery.handed.offset)}: {attempt} is not in {least}..{most}",
            )
        limit = self.topic.limit_max
        if limit is not None and attempt > limit:
            raise Violation(
                "delivered-too-often",
                f"{self._name(delivery.handed.offset)}: {attempt} of {limit}",
            )

    def check_order(self, delivery: Delivery, earlier: list[int]) -> None:
        """In key order nothing is delivered before all earlier messages of its key are settled."""
        for offset in earlier:
            if not self.may_be_settled(offset):
                raise Violation(
                    "key-out-of-order",
                    f"{self._name(delivery.handed.offset)} came before {offset} was settled",
                )

    # Receipts

    def excuse(self, now: Instant) -> None:
        """Forget when leases ended that were over by `now`: the node may grant them more time."""
        for delivery in self._deliveries:
            if delivery.over_at is not None and delivery.over_at <= now:
                delivery.over_at = None

    def is_surely_stale(self, delivery: Delivery, life: int, now: Instant) -> bool:
        """Whether a lease has certainly ended."""
        if delivery.life != life:
            return True
        if self.latest.get(delivery.handed.offset) not in {None, delivery}:
            return True
        return delivery.over_at is not None and delivery.over_at <= now

    def _name(self, offset: int) -> str:
        return f"{self.topic.name}#{self.topic.number}-{self.partition}:{offset}"
