"""What is counted of a topic, of a group, and of a group in a topic.

Plain numbers that only grow, for whoever acts to add to; nothing is decided by them, and nothing of
them survives the process.
"""

import enum
from collections.abc import Mapping

import msgspec

from goqueue.delivery import LANES
from goqueue.metrics import BATCH_SIZES, Histogram
from goqueue.model import LogId

__all__ = [
    "AckType",
    "Departure",
    "GroupCounts",
    "PairCounts",
    "TopicCounts",
    "Trigger",
    "add",
]


# Partitions by member.
Assignment = Mapping[str, tuple[LogId, ...]]


class AckType(enum.StrEnum):
    """How a delivery was settled."""

    ACK = "ack"
    NACK = "nack"
    REJECT = "reject"


class Trigger(enum.StrEnum):
    """Why partitions were assigned anew."""

    JOIN = "join"
    LEAVE = "leave"
    SESSION_TIMEOUT = "session_timeout"
    TOPIC = "topic"
    RESTART = "restart"


class Departure(enum.StrEnum):
    """Why a member is gone."""

    LEFT = "left"
    SESSION_TIMEOUT = "session_timeout"


def _lanes() -> list[int]:
    return [0] * LANES


def _batch_sizes() -> Histogram:
    return Histogram(BATCH_SIZES)


class TopicCounts(msgspec.Struct, kw_only=True):
    """What happened in one topic."""

    published: int = 0
    bytes_published: int = 0
    lanes: list[int] = msgspec.field(default_factory=_lanes)
    failed: dict[str, int] = msgspec.field(default_factory=dict)
    scheduled: int = 0
    fired: int = 0
    cancelled: int = 0
    # Messages that the node moved elsewhere, by cause.
    moved: dict[str, int] = msgspec.field(default_factory=dict)
    publish_latency: Histogram = msgspec.field(default_factory=Histogram)
    ack_latency: dict[AckType, Histogram] = msgspec.field(default_factory=dict)

    def fail(self, code: str, count: int = 1) -> None:
        add(self.failed, code, count)

    def count_move(self, cause: str) -> None:
        add(self.moved, cause)

    def settle(self, how: AckType, duration_ns: int) -> None:
        latency = self.ack_latency.get(how)
        if latency is None:
            latency = self.ack_latency[how] = Histogram()
        latency.observe(duration_ns)


class PairCounts(msgspec.Struct, kw_only=True):
    """What one group did in one topic; there may be very many of these."""

    consumed: int = 0
    bytes_consumed: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    released: int = 0
    expired: int = 0
    commits: int = 0
    # None until the first: most pairs never have one.
    commit_errors: dict[str, int] | None = None
    fetch_latency: Histogram | None = None

    def consume(self, count: int, size: int, duration_ns: int) -> None:
        self.consumed += count
        self.bytes_consumed += size
        if self.fetch_latency is None:
            self.fetch_latency = Histogram()
        self.fetch_latency.observe(duration_ns)

    def fail_commit(self, code: str) -> None:
        if self.commit_errors is None:
            self.commit_errors = {}
        add(self.commit_errors, code)


class GroupCounts(msgspec.Struct, kw_only=True):
    """What happened in one group."""

    joins: int = 0
    leaves: dict[Departure, int] = msgspec.field(default_factory=dict)
    rebalances: dict[Trigger, int] = msgspec.field(default_factory=dict)
    partitions_assigned: int = 0
    partitions_revoked: int = 0
    heartbeats: int = 0
    heartbeat_timeouts: int = 0
    session_timeouts: int = 0
    polls: int = 0
    polls_empty: int = 0
    rebalance_latency: Histogram = msgspec.field(default_factory=Histogram)
    heartbeat_latency: Histogram = msgspec.field(default_factory=Histogram)
    poll_latency: Histogram = msgspec.field(default_factory=Histogram)
    poll_sizes: Histogram = msgspec.field(default_factory=_batch_sizes)
    commit_latency: Histogram = msgspec.field(default_factory=Histogram)

    def leave(self, why: Departure, count: int) -> None:
        self.leaves[why] = self.leaves.get(why, 0) + count

    def rebalance(self, why: Trigger, before: Assignment, after: Assignment) -> None:
        """Members own other partitions than before."""
        self.rebalances[why] = self.rebalances.get(why, 0) + 1
        self.partitions_revoked += _count_lost(before, after)
        self.partitions_assigned += _count_lost(after, before)

    def poll(self, count: int, duration_ns: int) -> None:
        self.polls += 1
        self.polls_empty += not count
        self.poll_latency.observe(duration_ns)
        self.poll_sizes.observe(count)


def _count_lost(before: Assignment, after: Assignment) -> int:
    """How many partitions members have before and not after, member by member."""
    count = 0
    lost, last_logs, last_kept = 0, None, None
    for member, logs in before.items():
        kept = after.get(member, ())
        if kept is logs:
            continue
        # Members that share partitions have one tuple of them, which is looked through once.
        if logs is not last_logs or kept is not last_kept:
            lost = len(frozenset(logs).difference(kept)) if kept != logs else 0
            last_logs, last_kept = logs, kept
        count += lost
    return count


def add(counted: dict[str, int], name: str, count: int = 1) -> None:
    counted[name] = counted.get(name, 0) + count
