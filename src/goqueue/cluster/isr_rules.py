"""Which replicas are in sync, and how far a partition is committed: pure rules of its leader.

The high watermark is the lowest durable end of the ISR and of those who are joining it. A removal
counts once it is committed, a join from the moment in which it is proposed: whoever may lead next
holds all that was ever committed (C7, C8).

A follower joins when its durable end has passed the end that the leader had at some moment of this
epoch, and is not below the high watermark now. It leaves when it lacks what the leader had a while
ago, or is fenced. The ISR is never made smaller than the minimum: then the high watermark waits
instead (C9).
"""

from collections.abc import Collection, Mapping

import msgspec

from goqueue.model import SECOND, Instant, Offset

__all__ = ["REPLICA_LAG_NS", "FollowerProgress", "committed_end", "wanted_isr"]

REPLICA_LAG_NS = 3 * SECOND


class FollowerProgress(msgspec.Struct):
    """How far one follower is, as its leader knows it in one epoch.

    `held` is what it confirmed in the run that `broker_epoch` names. `join_at` is an end that the
    leader had in this epoch: whoever passed it may join. `since` is when the leader's end was last
    known to be here; `mark` and `mark_at` are the end that shows the next such moment.
    """

    broker_epoch: int = 0
    held: Offset = Offset(0)
    join_at: Offset | None = None
    since: Instant = Instant(0)
    mark: Offset = Offset(0)
    mark_at: Instant = Instant(0)
    # The newest instant of the leader after which it is known to have followed.
    confirmed_at: Instant = Instant(0)
    # The version that added its copy: what it said of an earlier one is not here.
    added: int = 0

    def subscribe(self, end: Offset) -> None:
        """It says anew how its log ends: what it had before counts no more."""
        self.held = Offset(0)
        self.join_at = end

    def hold(self, held: Offset, broker_epoch: int, end: Offset, now: Instant) -> None:
        """It confirmed so much; `end` is the leader's."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch, self.held = broker_epoch, held
        self.held = max(self.held, held)
        if self.held >= end:
            self.since = now
        elif self.held >= self.mark:
            self.since = max(self.since, self.mark_at)
            self.mark, self.mark_at = end, now

    def lags(self, end: Offset, now: Instant) -> bool:
        """Whether it lacks what the leader had a while ago."""
        return self.held < end and now - self.since > REPLICA_LAG_NS

    def may_join(self, high_watermark: Offset) -> bool:
        """Whether it has all that is committed, and what the leader had in this epoch."""
        return self.join_at is not None and self.held >= max(self.join_at, high_watermark)


def committed_end(
    own: Offset, followers: Mapping[str, FollowerProgress], members: Collection[str]
) -> Offset:
    """How far everybody in `members`, the ISR and those who join it without the leader, is."""
    ends = [own]
    for broker in members:
        progress = followers.get(broker)
        ends.append(Offset(0) if progress is None else progress.held)
    return min(ends)


def wanted_isr(
    me: str,
    isr: Collection[str],
    followers: Mapping[str, FollowerProgress],
    *,
    epochs: Mapping[str, int],
    end: Offset,
    high_watermark: Offset,
    minimum: int,
    now: Instant,
) -> tuple[str, ...] | None:
    """The ISR that a leader should ask for; None if it is what it should be.

    `epochs` has the broker epochs of those that may be members: registered, not fenced, not
    leaving. Those that leave go as far as the minimum allows, those that lag most first.
    """
    leaving = [
        broker
        for broker in isr
        if broker != me
        and (broker not in epochs or broker not in followers or followers[broker].lags(end, now))
    ]
    joining = [
        broker
        for broker, progress in followers.items()
        if broker not in isr
        and epochs.get(broker) == progress.broker_epoch
        and progress.may_join(high_watermark)
    ]
    room = max(0, len(isr) + len(joining) - minimum)
    leaving.sort(key=lambda broker: followers[broker].held if broker in followers else -1)
    leaving = leaving[:room]
    if not leaving and not joining:
        return None
    return tuple(broker for broker in (*isr, *joining) if broker not in leaving)
