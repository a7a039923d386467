"""Families about groups in topics: what they consume, settle and commit, and how far behind."""

from collections.abc import Callable, Iterator
from itertools import chain
from operator import attrgetter

from goqueue.broker.metrics.builders import counter, gauge, histogram, keyed, plain
from goqueue.broker.metrics.counters import PairCounts
from goqueue.broker.metrics.lag_metrics import place_families
from goqueue.broker.state import NodeState
from goqueue.metrics import Family, Sample

__all__ = ["pair_families"]

_BROKER = "goqueue_broker_"
_CONSUMER = "goqueue_consumer_"
_PAIR = ("topic", "consumer_group")
_CONSUMED = (
    (
        _BROKER + "messages_consumed_total",
        "consumed",
        "Messages delivered; stream reads without a group have an empty group.",
    ),
    (_BROKER + "bytes_consumed_total", "bytes_consumed", "Bytes of delivered messages."),
)
_SETTLED = (
    (
        _BROKER + "messages_redelivered_total",
        "redelivered",
        "Messages delivered again.",
    ),
    (_BROKER + "messages_acked_total", "acked", "Messages acked, including by transactions."),
    (_BROKER + "messages_nacked_total", "nacked", "Messages nacked."),
    (_BROKER + "messages_rejected_total", "rejected", "Messages rejected."),
    (
        _BROKER + "messages_released_total",
        "released",
        "Messages released before they were started.",
    ),
    (_BROKER + "messages_expired_total", "expired", "Leases that expired, in messages."),
    (_CONSUMER + "offset_commits_total", "commits", "Offset commits."),
)


def pair_families(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    counted = state.counts.pairs()
    rows = _Rows(counted)
    for name, field, meaning in _CONSUMED:
        yield counter(name, meaning, _PAIR, plain(rows, attrgetter(field)))
    for name, field, meaning in _SETTLED:
        yield counter(name, meaning, _PAIR, plain(rows, _moved(field)))
    yield counter(
        _CONSUMER + "offset_commit_errors_total",
        "Offset commits refused, by error code.",
        (*_PAIR, "error_type"),
        keyed(counted, attrgetter("commit_errors")),
    )
    yield histogram(
        _BROKER + "fetch_latency_seconds",
        "Time of a poll or read that returned messages, without the wait for them.",
        _PAIR,
        plain(rows, attrgetter("fetch_latency")),
    )
    yield from place_families(state, by_partition=by_partition)
    yield gauge(
        _BROKER + "active_consumers",
        "Members of a group that subscribe to a topic.",
        _PAIR,
        _consumers(state),
    )


class _Rows:
    """Counts with their labels as they are shown; those are made while they are first read."""

    def __init__(self, counted: list[tuple[tuple[str, str], PairCounts]]) -> None:
        self._counted = counted
        self._rows: list[tuple[str, PairCounts]] = []

    def __iter__(self) -> Iterator[tuple[str, PairCounts]]:
        for index, (labels, counts) in enumerate(self._counted):
            if index == len(self._rows):
                self._rows.append((_shown(*labels), counts))
            yield self._rows[index]


def _moved(field: str) -> Callable[[PairCounts], int | None]:
    """A count, once there is something: most groups do one thing only in most topics."""
    take = attrgetter(field)
    return lambda counts: take(counts) or None


def _shown(topic: str, group: str) -> str:
    """The labels of a pair, as they are shown in all of its lines."""
    return f'topic="{topic}",consumer_group="{group}"'


def _consumers(state: NodeState) -> Iterator[Sample]:
    for group in list(state.groups):
        counted: dict[str, int] = {}
        for topic in chain.from_iterable(each.topics for each in group.stated.members):
            counted[topic] = counted.get(topic, 0) + 1
        for topic, count in counted.items():
            if state.catalog.get(topic) is not None:
                yield _shown(topic, group.name), count
