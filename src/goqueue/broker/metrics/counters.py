"""The counters of a node: by topic, by group, and by group and topic.

Plain numbers that only grow; nothing is decided by them, and nothing of them survives the process.
Callers name topics and groups that exist; when one is deleted, its counters go with it. So there
are never more than what exists, whatever names callers from outside make up. What concerns a topic
or a group that does not exist is counted under no name.
"""

import enum
from collections.abc import Mapping

import msgspec

from goqueue.delivery import LANES
from goqueue.metrics import BATCH_SIZES, Histogram
from goqueue.model import Instant, LogId, Now
from goqueue.model.requests import TopicFlow

__all__ = [
    "AckType",
    "Counts",
    "Departure",
    "GroupCounts",
    "PairCounts",
    "ScheduleCounts",
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
    # The last partition that had to be given up was.
    REVOCATION = "revocation"


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
    # Values that were checked against a schema, by result; most topics check none.
    validations: dict[str, int] = msgspec.field(default_factory=dict)
    validation_latency: Histogram | None = None

    def validate(self, valid: int, invalid: int, duration_ns: int) -> None:
        """The values of a batch were checked against their schemas."""
        if valid:
            add(self.validations, "valid", valid)
        if invalid:
            add(self.validations, "invalid", invalid)
        if self.validation_latency is None:
            self.validation_latency = Histogram()
        self.validation_latency.observe(duration_ns)

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
    extended: int = 0
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
    # From the cause of a cooperative rebalance until every member was told.
    cooperative_latency: Histogram = msgspec.field(default_factory=Histogram)
    rebalances_succeeded: int = 0
    rebalances_failed: int = 0
    rebalances_ns: int = 0
    last_rebalance_ns: int = 0
    last_rebalance_at: int = 0
    revocation_timeouts: int = 0
    # The cooperative rebalance that is under way, and whether a revocation of it was forced.
    _began: Instant | None = None
    _is_forced: bool = False

    def leave(self, why: Departure, count: int) -> None:
        self.leaves[why] = self.leaves.get(why, 0) + count

    def rebalance(self, why: Trigger, before: Assignment, after: Assignment) -> None:
        """Members own other partitions than before."""
        self.rebalances[why] = self.rebalances.get(why, 0) + 1
        self.count_moves(before, after)

    def count_moves(self, before: Assignment, after: Assignment, *, has_lost: bool = True) -> None:
        """Partitions have other owners than before; without `has_lost` nobody lost any now."""
        self.partitions_revoked += _count_lost(before, after) if has_lost else 0
        self.partitions_assigned += _count_lost(after, before)

    def begin_rebalance(self, why: Trigger, now: Now) -> None:
        """A change of a cooperative group; one that is under way goes on."""
        if self._began is None:
            self.rebalances[why] = self.rebalances.get(why, 0) + 1
            self._began, self._is_forced = now.instant, False

    def force_revocations(self, count: int) -> None:
        """Partitions were taken away from members that did not give them up in time."""
        self.revocation_timeouts += count
        self.partitions_revoked += count
        self._is_forced = True

    def complete_rebalance(self, now: Now) -> None:
        """Every member of a cooperative group was told, if a rebalance was under way."""
        if self._began is None:
            return
        duration_ns = max(now.instant - self._began, 0)
        self.cooperative_latency.observe(duration_ns)
        self.end_rebalance(duration_ns, now, is_forced=self._is_forced)
        self._began = None

    def end_rebalance(self, duration_ns: int, now: Now, *, is_forced: bool = False) -> None:
        """A rebalance is over."""
        self.rebalances_failed += is_forced
        self.rebalances_succeeded += not is_forced
        self.rebalances_ns += duration_ns
        self.last_rebalance_ns = duration_ns
        self.last_rebalance_at = int(now.wall)

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


class ScheduleCounts(msgspec.Struct, kw_only=True):
    """What schedules did: ticks that readers see, and how late; times that ticks were skipped."""

    ticks: int = 0
    runs: int = 0
    skips: int = 0
    failures: int = 0
    lateness: Histogram = msgspec.field(default_factory=Histogram)


class Counts:
    """Numbers by the names that they belong to."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounts] = {}
        self._groups: dict[str, GroupCounts] = {}
        # By group, then by topic. Reading without a group is done by the one without a name.
        self._pairs: dict[str, dict[str, PairCounts]] = {}
        self.transactions_started = 0
        self.schedules = ScheduleCounts()
        self.transaction_latency = Histogram()

    def topic(self, name: str) -> TopicCounts:
        counts = self._topics.get(name)
        if counts is None:
            counts = self._topics[name] = TopicCounts()
        return counts

    def group(self, name: str) -> GroupCounts:
        counts = self._groups.get(name)
        if counts is None:
            counts = self._groups[name] = GroupCounts()
        return counts

    def pair(self, topic: str, group: str) -> PairCounts:
        pairs = self._pairs.get(group)
        if pairs is None:
            pairs = self._pairs[group] = {}
        counts = pairs.get(topic)
        if counts is None:
            counts = pairs[topic] = PairCounts()
        return counts

    def topics(self) -> list[tuple[str, TopicCounts]]:
        """What is counted now, by topic; a copy that later changes leave alone."""
        return list(self._topics.items())

    def groups(self) -> list[tuple[str, GroupCounts]]:
        return list(self._groups.items())

    def pairs(self) -> list[tuple[tuple[str, str], PairCounts]]:
        """By topic and group; a copy that later changes leave alone."""
        return [
            ((topic, group), counts)
            for group, pairs in self._pairs.items()
            for topic, counts in pairs.items()
        ]

    def flows(self) -> dict[str, TopicFlow]:
        """By topic, what came and what went to all groups and to readers without one."""
        consumed: dict[str, int] = {}
        for pairs in self._pairs.values():
            for topic, counts in pairs.items():
                consumed[topic] = consumed.get(topic, 0) + counts.consumed
        names = dict.fromkeys([*self._topics, *consumed])
        published = {name: counts.published for name, counts in self._topics.items()}
        return {name: TopicFlow(published.get(name, 0), consumed.get(name, 0)) for name in names}

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)
        for pairs in self._pairs.values():
            pairs.pop(name, None)

    def forget_groups(self) -> None:
        """Groups are coordinated elsewhere: who reads without one is still counted here."""
        self._groups.clear()
        self._pairs = {"": self._pairs[""]} if "" in self._pairs else {}

    def forget_group(self, name: str) -> None:
        self._groups.pop(name, None)
        self._pairs.pop(name, None)
