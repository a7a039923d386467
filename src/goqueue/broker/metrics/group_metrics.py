"""Families about groups: who belongs to them, what they are assigned, how they poll."""

from collections.abc import Iterator
from operator import attrgetter

from goqueue.broker.metrics.builders import counter, gauge, histogram, keyed, plain
from goqueue.broker.state import NodeState
from goqueue.groups import Group
from goqueue.metrics import Family, Histogram, Sample
from goqueue.model.requests import GroupState

__all__ = ["group_families"]

_PREFIX = "goqueue_consumer_"
_GROUP = ("consumer_group",)
_COUNTERS = (
    ("group_joins_total", "joins", "Joins, also of members that say again that they are."),
    ("partitions_assigned_total", "partitions_assigned", "Partitions that members got."),
    ("partitions_revoked_total", "partitions_revoked", "Partitions that members lost."),
    ("heartbeats_sent_total", "heartbeats", "Heartbeats that members sent."),
    (
        "heartbeat_timeouts_total",
        "heartbeat_timeouts",
        "Times that a session ran out, also of members whose poll still waits.",
    ),
    ("session_timeouts_total", "session_timeouts", "Members taken out because they were silent."),
    ("polls_total", "polls", "Polls answered."),
    ("polls_empty_total", "polls_empty", "Polls answered without a message."),
)
_HISTOGRAMS = (
    ("heartbeat_latency_seconds", "heartbeat_latency", "Time to answer a heartbeat."),
    ("poll_latency_seconds", "poll_latency", "Time to answer a poll, with its waiting."),
    ("poll_batch_size", "poll_sizes", "Messages that a poll got."),
    ("offset_commit_latency_seconds", "commit_latency", "Time until offsets are committed."),
)


def group_families(state: NodeState) -> Iterator[Family]:
    rows = [((name,), counts) for name, counts in state.counts.groups()]
    for name, field, meaning in _COUNTERS:
        yield counter(_PREFIX + name, meaning, _GROUP, plain(rows, attrgetter(field)))
    for name, field, meaning in _HISTOGRAMS:
        yield histogram(_PREFIX + name, meaning, _GROUP, plain(rows, attrgetter(field)))
    yield counter(
        _PREFIX + "group_leaves_total",
        "Members that are gone, by reason.",
        ("consumer_group", "reason"),
        keyed(rows, attrgetter("leaves")),
    )
    yield counter(
        _PREFIX + "rebalances_total",
        "Times that partitions were assigned anew, by what caused it.",
        ("consumer_group", "trigger"),
        keyed(rows, attrgetter("rebalances")),
    )
    yield histogram(
        _PREFIX + "rebalance_latency_seconds",
        "Time until a new assignment is committed.",
        ("consumer_group", "rebalance_type"),
        _rebalances([(name, counts.rebalance_latency) for (name,), counts in rows]),
    )
    yield from _gauges(state)


def _rebalances(latencies: list[tuple[str, Histogram]]) -> Iterator[Sample]:
    """Every assignment is made anew at once; there is no other type yet."""
    for name, latency in latencies:
        yield (name, "eager"), latency


def _gauges(state: NodeState) -> Iterator[Family]:
    groups = [((group.name,), group) for group in state.groups]
    for name, take, meaning in (
        ("group_members", _member_count, "Members of a group."),
        ("group_generation", attrgetter("generation"), "Generation of a group."),
        ("assigned_partitions", _assigned_count, "Partitions that members of a group have."),
    ):
        yield gauge(_PREFIX + name, meaning, _GROUP, plain(groups, take))
    yield gauge(
        _PREFIX + "group_state",
        "1 for the state that a group is in, 0 for the others.",
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
