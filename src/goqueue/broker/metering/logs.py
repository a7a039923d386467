"""Families about logs as the node knows them: offsets, segments, size, what compaction left."""

from collections.abc import Callable, Iterator
from itertools import chain

from goqueue.broker.metering.shapes import gauge
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.metrics import Family, Sample

__all__ = ["log_families"]

_PREFIX = "goqueue_storage_"
_TOPIC = ("topic",)


def log_families(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    partitions = list(chain(state.partitions, state.internal.values()))
    for name, quantity, meaning in (
        ("log_start_offset", _start, "Earliest offset kept, summed over partitions."),
        ("log_size_bytes", _size, "Bytes of the segments."),
        ("segments_active", _one, "Segments that are written to."),
        ("segments_total", _segments, "Segments."),
    ):
        yield gauge(_PREFIX + name, meaning, _TOPIC, _sums(partitions, quantity))
    yield gauge(
        _PREFIX + "log_end_offset",
        "Offset after the last record; the sum over partitions where those are not shown.",
        ("topic", "partition") if by_partition else _TOPIC,
        _ends(partitions) if by_partition else _sums(partitions, _end),
    )
    yield gauge(
        _PREFIX + "compaction_dirty_ratio",
        "Share of the sealed bytes of a compacted topic that no compaction has seen.",
        _TOPIC,
        _dirty_ratios(state, partitions),
    )


def _start(partition: Partition) -> int:
    return partition.log.start


def _end(partition: Partition) -> int:
    return partition.log.end


def _size(partition: Partition) -> int:
    return partition.log.size


def _one(_: Partition) -> int:
    return 1


def _segments(partition: Partition) -> int:
    return partition.log.segment_count


def _ends(partitions: list[Partition]) -> Iterator[Sample]:
    for partition in partitions:
        yield (partition.log_id.topic, str(partition.log_id.partition)), partition.log.end


def _sums(partitions: list[Partition], quantity: Callable[[Partition], int]) -> Iterator[Sample]:
    sums: dict[str, int] = {}
    for partition in partitions:
        topic = partition.log_id.topic
        sums[topic] = sums.get(topic, 0) + quantity(partition)
    for topic, total in sums.items():
        yield (topic,), total


def _dirty_ratios(state: NodeState, partitions: list[Partition]) -> Iterator[Sample]:
    sealed: dict[str, int] = {}
    dirty: dict[str, int] = {}
    for partition in partitions:
        name = partition.log_id.topic
        topic = state.catalog.get(name)
        if topic is not None and topic.config.cleanup_policy.compacts:
            sealed[name] = sealed.get(name, 0) + partition.log.sealed_bytes
            dirty[name] = dirty.get(name, 0) + partition.log.dirty_bytes
    for name, size in sealed.items():
        yield (name,), dirty[name] / size if size else 0.0
