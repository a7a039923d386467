"""Families about groups in topics: what they consume, settle and commit, and how far behind."""

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter

from goqueue.broker.metering.shapes import counter, gauge, histogram, keyed, plain
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.groups import Group
from goqueue.metrics import Family, Sample
from goqueue.model import LogId

__all__ = ["pair_families"]

_BROKER = "goqueue_broker_"
_CONSUMER = "goqueue_consumer_"
_PAIR = ("topic", "consumer_group")
_PLACE = ("topic", "partition", "consumer_group")
_COUNTERS = (
    (
        _BROKER + "messages_consumed_total",
        "consumed",
        "Messages handed out; those of stream reads under no group.",
    ),
    (_BROKER + "bytes_consumed_total", "bytes_consumed", "Bytes of messages handed out."),
    (
        _BROKER + "messages_redelivered_total",
        "redelivered",
        "Messages handed out that were handed out before.",
    ),
    (_BROKER + "messages_acked_total", "acked", "Messages acknowledged, also by transactions."),
    (_BROKER + "messages_nacked_total", "nacked", "Messages given back."),
    (_BROKER + "messages_rejected_total", "rejected", "Messages rejected."),
    (_BROKER + "messages_expired_total", "expired", "Messages whose lease ran out."),
    (_CONSUMER + "offset_commits_total", "commits", "Commits of offsets."),
)


def pair_families(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    rows = state.counts.pairs()
    for name, field, meaning in _COUNTERS:
        yield counter(name, meaning, _PAIR, plain(rows, attrgetter(field)))
    yield counter(
        _CONSUMER + "offset_commit_errors_total",
        "Commits of offsets that were refused.",
        (*_PAIR, "error_type"),
        keyed(rows, attrgetter("commit_errors")),
    )
    yield histogram(
        _BROKER + "fetch_latency_seconds",
        "Time of a poll or read that brought something, without its waiting for messages.",
        _PAIR,
        plain(rows, attrgetter("fetch_latency")),
    )
    labels = _PLACE if by_partition else _PAIR
    yield gauge(
        _CONSUMER + "lag",
        "Messages that a group has still before it.",
        labels,
        _each(state, "lag", by_partition=by_partition),
    )
    yield gauge(
        _CONSUMER + "committed_offset",
        "The next offset of a group; the sum over partitions where those are not shown.",
        labels,
        _each(state, "committed", by_partition=by_partition),
    )
    yield gauge(
        _BROKER + "messages_in_flight",
        "Messages handed out and not settled.",
        _PAIR,
        _in_flight(state),
    )
    yield gauge(
        _BROKER + "active_consumers",
        "Members of a group that subscribed to a topic.",
        _PAIR,
        _consumers(state),
    )


def _each(state: NodeState, what: str, *, by_partition: bool) -> Iterator[Sample]:
    """A quantity of every place that groups have, or the sum over the partitions of a topic."""
    quantity = state.lag if what == "lag" else state.committed
    for group in list(state.groups):
        name, number = group.name, group.number
        if by_partition:
            for partition in _places(state, group):
                log = partition.log_id
                yield (log.topic, str(log.partition), name), quantity(number, partition)
            continue
        sums: dict[str, int] = {}
        for partition in _places(state, group):
            topic = partition.log_id.topic
            sums[topic] = sums.get(topic, 0) + quantity(number, partition)
        for topic, total in sums.items():
            yield (topic, name), total


def _places(state: NodeState, group: Group) -> Iterator[Partition]:
    """Where a group has a position, or is about to have one."""
    logs: dict[LogId, None] = {
        log: None
        for log, position in state.positions.get(group.number, {}).items()
        if position.says_something
    }
    for topic in map(state.catalog.get, group.topics):
        if topic is not None and topic.is_open:
            logs.update(dict.fromkeys(topic.logs))
    for log in logs:
        partition = state.partitions.get(log)
        if partition is not None:
            yield partition


def _in_flight(state: NodeState) -> Iterator[Sample]:
    for group in list(state.groups):
        sums: dict[str, int] = {}
        for log, queue in state.queues_of(group.number):
            sums[log.topic] = sums.get(log.topic, 0) + queue.in_flight
        for topic, count in sums.items():
            yield (topic, group.name), count


def _consumers(state: NodeState) -> Iterator[Sample]:
    for group in list(state.groups):
        counted: dict[str, int] = {}
        for topic in chain.from_iterable(each.topics for each in group.stated.members):
            counted[topic] = counted.get(topic, 0) + 1
        for topic, count in counted.items():
            if state.catalog.get(topic) is not None:
                yield (topic, group.name), count
