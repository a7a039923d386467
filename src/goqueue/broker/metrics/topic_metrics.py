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
    ("messages_published_total", "published", "Messages published and acknowledged."),
    ("bytes_published_total", "bytes_published", "Bytes of published messages, as stored."),
    ("delayed_messages_scheduled_total", "scheduled", "Delayed messages published."),
    ("delayed_messages_fired_total", "fired", "Delayed messages delivered."),
    ("delayed_messages_cancelled_total", "cancelled", "Delayed messages cancelled."),
)


def topic_families(state: NodeState) -> Iterator[Family]:
    counted = state.counts.topics()
    rows = [((name,), counts) for name, counts in counted if name]
    for name, field, meaning in _COUNTERS:
        yield counter(_PREFIX + name, meaning, _TOPIC, plain(rows, attrgetter(field)))
    yield counter(
        _PREFIX + "priority_messages_published_total",
        "Messages published, by priority.",
        ("topic", "priority"),
        keyed(rows, _lanes),
    )
    yield counter(
        _PREFIX + "messages_failed_total",
        "Messages refused, by error code; the topic is empty if it does not exist.",
        ("topic", "error_type"),
        keyed([((name,), counts) for name, counts in counted], attrgetter("failed")),
    )
    yield counter(
        _PREFIX + "messages_moved_total",
        "Messages moved to dead letters, and redriven dead letters, by cause.",
        ("topic", "cause"),
        keyed(rows, attrgetter("moved")),
    )
    yield histogram(
        _PREFIX + "publish_latency_seconds",
        "Time from a publish request until all its messages are committed.",
        _TOPIC,
        plain(rows, attrgetter("publish_latency")),
    )
    yield histogram(
        _PREFIX + "ack_latency_seconds",
        "Time from an ack, nack or reject until it is committed.",
        ("topic", "ack_type"),
        keyed(rows, attrgetter("ack_latency")),
    )
    yield counter(
        _PREFIX + "schema_validations_total",
        "Values checked against a schema, by result: valid or invalid.",
        ("topic", "result"),
        keyed(rows, attrgetter("validations")),
    )
    yield histogram(
        _PREFIX + "schema_validation_latency_seconds",
        "Time from a publish until its values are checked, with the wait for a validator.",
        _TOPIC,
        [
            (labels, counts.validation_latency)
            for labels, counts in rows
            if counts.validation_latency is not None
        ],
    )
    yield from _gauges(state)
    yield from _transactions(state)


def _lanes(counts: TopicCounts) -> dict[str, int]:
    """A topic that uses one lane only has one sample."""
    return {name: count for name, count in zip(_LANES, counts.lanes, strict=True) if count}


def _gauges(state: NodeState) -> Iterator[Family]:
    topics: list[Row[int]] = [((topic.name,), topic.stated.partitions) for topic in state.catalog]
    yield gauge(_PREFIX + "topic_count", "Number of topics.", (), [((), len(topics))])
    yield gauge(_PREFIX + "topic_partitions", "Number of partitions of a topic.", _TOPIC, topics)
    yield gauge(
        _PREFIX + "delayed_messages_pending",
        "Delayed messages that are not due yet.",
        _TOPIC,
        _pending(state),
    )


def _pending(state: NodeState) -> Iterator[Sample]:
    waiting: dict[str, int] = {}
    for log, delays in state.led_delays():
        waiting[log.topic] = waiting.get(log.topic, 0) + len(delays)
    for topic, count in waiting.items():
        yield (topic,), count


def _transactions(state: NodeState) -> Iterator[Family]:
    tally, counts = state.tally, state.counts
    for name, meaning, count in (
        ("started", "Transactions started.", counts.transactions_started),
        ("committed", "Transactions committed.", tally.transactions_committed),
        ("aborted", "Transactions aborted, timed out or fenced.", tally.transactions_aborted),
    ):
        yield counter(f"{_PREFIX}transactions_{name}_total", meaning, (), [((), count)])
    yield histogram(
        _PREFIX + "transaction_latency_seconds",
        "Time from the start of a transaction to its decision.",
        (),
        [((), counts.transaction_latency)],
    )
