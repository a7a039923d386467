"""Families about what an operator must know first: ready or not, logs that failed, what lies."""

from collections.abc import Callable, Iterator

from goqueue.broker.metering.shapes import Row, gauge
from goqueue.broker.state import NodeState
from goqueue.metrics import Family
from goqueue.model import SECOND

__all__ = ["health_families"]

_TOPIC = ("topic",)


def health_families(
    state: NodeState, letters: Callable[[], Iterator[tuple[str, int]]]
) -> Iterator[Family]:
    is_ready = state.not_ready is None
    yield gauge("goqueue_broker_ready", "Whether commands are taken.", (), [((), int(is_ready))])
    failed = sum(each.log.failure is not None for each in state.partitions)
    yield gauge(
        "goqueue_storage_failed_logs",
        "Logs that take no writes, because one of theirs failed.",
        (),
        [((), failed)],
    )
    yield gauge(
        "goqueue_storage_full_logs",
        "Logs whose last write found no space.",
        (),
        [((), len(state.storage.full))],
    )
    yield gauge(
        "goqueue_storage_damaged_ranges",
        "Ranges of records that are refused because they are damaged.",
        (),
        [((), state.storage.damaged_ranges)],
    )
    yield gauge(
        "goqueue_storage_damaged_offsets",
        "Offsets that are refused because their records are damaged; topics without are absent.",
        _TOPIC,
        (((name,), count) for name, count in state.storage.damaged_by_topic().items()),
    )
    # While the node starts, positions are still read from the journal.
    kept = letters() if is_ready else ()
    yield gauge(
        "goqueue_broker_dead_letters",
        "Dead letters that were not put back, by the topic that keeps them.",
        _TOPIC,
        (((name,), count) for name, count in kept),
    )
    yield gauge(
        "goqueue_broker_delayed_messages_next_due",
        "When the first delayed message is due, in seconds since the epoch.",
        _TOPIC,
        _next_due(state),
    )


def _next_due(state: NodeState) -> list[Row[float]]:
    """Topics without delayed messages have none."""
    first: dict[str, int] = {}
    for log, delays in state.delays.items():
        due = delays.next_due()
        if due is not None:
            first[log.topic] = min(due, first.get(log.topic, due))
    return [((topic,), due / SECOND) for topic, due in first.items()]
