"""Families about topics: what is published, delayed, refused, moved away; and transactions."""

from collections.abc import Iterator
from operator import attrgetter

from goqueue.broker.metrics.builders import Row, counter, gauge, histogram, keyed, plain
from goqueue.broker.metrics.counters import TopicCounts
from goqueue.broker.state import NodeState
from goqueue.metrics import Family, Sample
from goqueue.model import Priority

__all__ = ["topic_families"]

_PREFIX = "goqueue_broker_"
_TOPIC = ("topic",)
_LANES = tuple(priority.name.lower() for priority in Priority)
_COUNTERS = (
    ("messages_published_total", "published", "Messages that were acknowledged."),
    ("bytes_published_total", "bytes_published", "Bytes of acknowledged messages, as stored."),
    ("delayed_messages_scheduled_total", "scheduled", "Messages published to be delivered later."),
    ("delayed_messages_fired_total", "fired", "Delayed messages that were delivered."),
    ("delayed_messages_cancelled_total", "cancelled", "Delayed messages that were cancelled."),
)


def topic_families(state: NodeState) -> Iterator[Family]:
    counted = state.counts.topics()
    rows = [((name,), counts) for name, counts in counted if name]
    for name, field, meaning in _COUNTERS:
        yield counter(_PREFIX + name, meaning, _TOPIC, plain(rows, attrgetter(field)))
    yield counter(
        _PREFIX + "priority_messages_published_total",
        "Messages taken, by lane.",
        ("topic", "priority"),
        keyed(rows, _lanes),
    )
    yield counter(
        _PREFIX + "messages_failed_total",
        "Messages that were refused; those for a topic that does not exist under no topic.",
        ("topic", "error_type"),
        keyed([((name,), counts) for name, counts in counted], attrgetter("failed")),
    )
    yield counter(
        _PREFIX + "messages_moved_total",
        "Messages moved to the dead letters, and dead letters moved back, by cause.",
        ("topic", "cause"),
        keyed(rows, attrgetter("moved")),
    )
    yield histogram(
        _PREFIX + "publish_latency_seconds",
        "Time from a publish until all of it is committed.",
        _TOPIC,
        plain(rows, attrgetter("publish_latency")),
    )
    yield histogram(
        _PREFIX + "ack_latency_seconds",
        "Time from an ack, nack or reject until it is committed.",
        ("topic", "ack_type"),
        keyed(rows, attrgetter("ack_latency")),
    )
    yield from _gauges(state)
    yield from _transactions(state)


def _lanes(counts: TopicCounts) -> dict[str, int]:
    """A topic that uses one lane only has one sample."""
    return {name: count for name, count in zip(_LANES, counts.lanes, strict=True) if count}


def _gauges(state: NodeState) -> Iterator[Family]:
    topics: list[Row[int]] = [((topic.name,), topic.stated.partitions) for topic in state.catalog]
    yield gauge(_PREFIX + "topic_count", "Topics.", (), [((), len(topics))])
    yield gauge(_PREFIX + "topic_partitions", "Partitions of a topic.", _TOPIC, topics)
    yield gauge(
        _PREFIX + "delayed_messages_pending",
        "Delayed messages that wait to be delivered.",
        _TOPIC,
        _pending(state),
    )


def _pending(state: NodeState) -> Iterator[Sample]:
    waiting: dict[str, int] = {}
    for log, delays in state.delays.items():
        waiting[log.topic] = waiting.get(log.topic, 0) + len(delays)
    for topic, count in waiting.items():
        yield (topic,), count


def _transactions(state: NodeState) -> Iterator[Family]:
    tally, counts = state.tally, state.counts
    for name, meaning, count in (
        ("started", "Transactions begun.", counts.transactions_started),
        ("committed", "Transactions committed.", tally.transactions_committed),
        ("aborted", "Transactions aborted, timed out or fenced.", tally.transactions_aborted),
    ):
        yield counter(f"{_PREFIX}transactions_{name}_total", meaning, (), [((), count)])
    yield histogram(
        _PREFIX + "transaction_latency_seconds",
        "Time from the begin of a transaction to its decision.",
        (),
        [((), counts.transaction_latency)],
    )
