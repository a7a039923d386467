"""All metrics of the node as families of samples: health, logs, and everything that is counted.

Health comes first: whether the node is ready, which logs failed, what is damaged. The names are
part of the HTTP contract. Samples are created while they are read, and turns of the node may come
between: each family begins with a copy of what there is, and leaves out what has gone since.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from goqueue.broker.components import Components
from goqueue.broker.metrics.builders import Row, counter, gauge
from goqueue.broker.metrics.group_metrics import group_families
from goqueue.broker.metrics.group_topic_metrics import pair_families
from goqueue.broker.metrics.schedule_metrics import schedule_families
from goqueue.broker.metrics.topic_metrics import topic_families
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.metrics import Family, Sample
from goqueue.model import SECOND

__all__ = ["families_of", "health_families", "log_families"]

_TOPIC = ("topic",)


def health_families(state: NodeState, parts: Components | None) -> Iterator[Family]:
    """`parts` know of dead letters; None on a member of a cluster that coordinates no groups."""
    is_ready = state.not_ready is None
    yield gauge(
        "goqueue_broker_ready",
        "1 while the node accepts commands, else 0.",
        (),
        [((), int(is_ready))],
    )
    failed = sum(each.log.failure is not None for each in state.partitions)
    yield gauge(
        "goqueue_storage_failed_logs",
        "Logs that accept no writes because one failed.",
        (),
        [((), failed)],
    )
    yield gauge(
        "goqueue_storage_full_logs",
        "Logs whose last write failed for lack of space.",
        (),
        [((), len(state.storage.full))],
    )
    yield gauge(
        "goqueue_storage_damaged_ranges",
        "Damaged ranges of records; reads of them are refused.",
        (),
        [((), state.storage.damaged_ranges)],
    )
    yield gauge(
        "goqueue_storage_damaged_offsets",
        "Damaged offsets; topics without any are absent.",
        _TOPIC,
        (((name,), count) for name, count in state.storage.damaged_by_topic().items()),
    )
    # While the node starts, positions are still read from the journal.
    kept = () if parts is None or not is_ready else parts.redriver.dead_letters_kept(is_scrape=True)
    yield gauge(
        "goqueue_broker_dead_letters",
        "Dead letters that were not redriven, by dead-letter topic.",
        _TOPIC,
        (((name,), count) for name, count in kept),
    )
    stalled = {} if parts is None else parts.dead_letter_mover.stalled
    yield gauge(
        "goqueue_broker_dead_letters_stalled",
        "Messages that wait because their dead-letter topic, or the topic of a redrive, does not "
        "take them; topics without any are absent.",
        _TOPIC,
        (((name,), count) for name, count in stalled.items()),
    )
    yield gauge(
        "goqueue_broker_delayed_messages_next_due",
        "Due time of the next delayed message, in seconds since the epoch.",
        _TOPIC,
        _next_due(state),
    )


def _next_due(state: NodeState) -> list[Row[float]]:
    """Topics without delayed messages have none."""
    first: dict[str, int] = {}
    for log, delays in state.led_delays():
        due = delays.next_due()
        if due is not None:
            first[log.topic] = min(due, first.get(log.topic, due))
    return [((topic,), due / SECOND) for topic, due in first.items()]


_PREFIX = "goqueue_storage_"


def log_families(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    partitions = list(chain(state.partitions, state.internal.values()))
    for name, quantity, meaning in (
        ("log_start_offset", _start, "Log start offset, summed over partitions."),
        ("log_size_bytes", _size, "Size of all segments in bytes."),
        ("segments_active", _one, "Segments that are being written."),
        ("segments_total", _segments, "Number of segments."),
    ):
        yield gauge(_PREFIX + name, meaning, _TOPIC, _sums(partitions, quantity))
    yield gauge(
        _PREFIX + "log_end_offset",
        "Log end offset; summed over partitions unless partitions are a label.",
        ("topic", "partition") if by_partition else _TOPIC,
        _ends(partitions) if by_partition else _sums(partitions, _end),
    )
    yield gauge(
        _PREFIX + "compaction_dirty_ratio",
        "Share of the sealed bytes of a compacted topic that are not compacted yet.",
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


def reply_families(state: NodeState) -> Iterator[Family]:
    """What became of requests that wait for a reply."""
    tally = state.tally
    delivered, dropped = tally.replies_delivered, tally.replies_dropped
    yield counter(
        "goqueue_broker_replies_total",
        "Replies, by whether a request waited for them.",
        ("outcome",),
        [(("delivered",), delivered), (("dropped",), dropped)],
    )
    yield counter(
        "goqueue_broker_requests_unanswered_total",
        "Requests that got no reply in time.",
        (),
        [((), tally.requests_unanswered)],
    )


def backup_families(state: NodeState) -> Iterator[Family]:
    """What became of backups and restores."""
    tally = state.tally
    yield gauge(
        "goqueue_broker_backup_running",
        "1 while a backup or a restore is running, else 0.",
        ("kind",),
        [(("backup",), tally.backups_running), (("restore",), tally.restores_running)],
    )
    yield counter(
        "goqueue_broker_backups_total",
        "Backups and restores that ended, by outcome.",
        ("kind", "outcome"),
        [
            (("backup", "completed"), tally.backups_completed),
            (("backup", "failed"), tally.backups_failed),
            (("restore", "completed"), tally.restores_completed),
            (("restore", "failed"), tally.restores_failed),
        ],
    )
    taken = tally.backup_completed_at
    yield gauge(
        "goqueue_broker_backup_last_completed",
        "Moment of the newest complete backup, in seconds since the epoch.",
        (),
        [((), taken / SECOND)] if taken else [],
    )


def families_of(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    """The families of a node; with one sample per partition where the contract allows it.

    Of groups and schedules each is known where those are coordinated.
    """
    yield from topic_families(state)
    yield from pair_families(state.coordinated, by_partition=by_partition)
    yield from group_families(state.coordinated)
    yield from log_families(state, by_partition=by_partition)
    yield from reply_families(state)
    yield from schedule_families(state.coordinated)
    yield from backup_families(state)
