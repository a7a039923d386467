"""Families about groups: who belongs to them, what they are assigned, how they poll."""

from collections.abc import Iterator
from operator import attrgetter

from goqueue.broker.metrics.builders import counter, gauge, histogram, keyed, plain
from goqueue.broker.metrics.counters import GroupCounts
from goqueue.broker.state import NodeState
from goqueue.groups import Group
from goqueue.metrics import Family, Sample
from goqueue.model.requests import GroupProtocol, GroupState

__all__ = ["group_families"]

_PREFIX = "goqueue_consumer_"
_GROUP = ("consumer_group",)
_COUNTERS = (
    ("group_joins_total", "joins", "Joins, including re-joins."),
    ("partitions_assigned_total", "partitions_assigned", "Partitions assigned to members."),
    ("partitions_revoked_total", "partitions_revoked", "Partitions revoked from members."),
    ("heartbeats_sent_total", "heartbeats", "Heartbeats received."),
    (
        "heartbeat_timeouts_total",
        "heartbeat_timeouts",
        "Session timeouts, including members whose poll was still waiting.",
    ),
    ("session_timeouts_total", "session_timeouts", "Members removed after a session timeout."),
    ("polls_total", "polls", "Polls answered."),
    ("polls_empty_total", "polls_empty", "Polls answered without messages."),
)
_HISTOGRAMS = (
    ("heartbeat_latency_seconds", "heartbeat_latency", "Time to answer a heartbeat."),
    (
        "poll_latency_seconds",
        "poll_latency",
        "Time to answer a poll, including the wait for messages.",
    ),
    ("poll_batch_size", "poll_sizes", "Messages returned by a poll."),
    (
        "offset_commit_latency_seconds",
        "commit_latency",
        "Time from an offset commit until it is durable.",
    ),
)


def group_families(state: NodeState) -> Iterator[Family]:
    rows = [((name,), counts) for name, counts in state.counts.groups()]
    for name, field, meaning in _COUNTERS:
        yield counter(_PREFIX + name, meaning, _GROUP, plain(rows, attrgetter(field)))
    for name, field, meaning in _HISTOGRAMS:
        yield histogram(_PREFIX + name, meaning, _GROUP, plain(rows, attrgetter(field)))
    yield counter(
        _PREFIX + "group_leaves_total",
        "Members that left or were removed, by reason.",
        ("consumer_group", "reason"),
        keyed(rows, attrgetter("leaves")),
    )
    yield counter(
        _PREFIX + "rebalances_total",
        "Rebalances, by trigger.",
        ("consumer_group", "trigger"),
        keyed(rows, attrgetter("rebalances")),
    )
    yield histogram(
        _PREFIX + "rebalance_latency_seconds",
        "Time from a trigger until the new assignment is durable, or every member was told it.",
        ("consumer_group", "rebalance_type"),
        _rebalances([(name, counts) for (name,), counts in rows]),
    )
    yield from _gauges(state)


def _rebalances(groups: list[tuple[str, GroupCounts]]) -> Iterator[Sample]:
    """By protocol; a group without cooperative rebalances has no line for them."""
    for name, counts in groups:
        yield (name, GroupProtocol.EAGER), counts.rebalance_latency
        if counts.cooperative_latency.count:
            yield (name, GroupProtocol.COOPERATIVE), counts.cooperative_latency


def _gauges(state: NodeState) -> Iterator[Family]:
    groups = [((group.name,), group) for group in state.groups]
    for name, take, meaning in (
        ("group_members", _member_count, "Number of members of a group."),
        ("group_generation", attrgetter("generation"), "Current generation of a group."),
        ("assigned_partitions", _assigned_count, "Partitions assigned to members of a group."),
    ):
        yield gauge(_PREFIX + name, meaning, _GROUP, plain(groups, take))
    yield gauge(
        _PREFIX + "group_state",
        "1 for the current state of a group, 0 for the others.",
        ("consumer_group", "state"),
        _states([group for _, group in groups]),
    )


def _member_count(group: Group) -> int:
    return len(group.members)


def _assigned_count(group: Group) -> int:
    return sum(len(group.assigned(member)) for member in group.members)


def _states(groups: list[Group]) -> Iterator[Sample]:
    for group in groups:
        present = group.state
        for state in GroupState:
            yield (group.name, state), int(state is present)
