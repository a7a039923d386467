"""Counters of storage by topic, and of snapshots by kind, and their metric families.

Plain integers that only grow. Each is written by one thread, or under the guard of storage; a
reader gets each current value, not a consistent snapshot. Never reads a clock: durations are passed
in.

Invariant: a topic has counters as long as one of its logs is open.
"""

import enum
from collections.abc import Callable, Iterator

from goqueue.metrics import Family, Histogram, Kind, Sample

__all__ = ["UNCOUNTED", "IndexType", "Meters", "SnapshotMeter", "TopicMeter", "families_of"]


class IndexType(enum.StrEnum):
    """What an index is searched by."""

    OFFSET = "offset"
    TIME = "time"


class TopicMeter:
    """The counters of one topic."""

    __slots__ = (
        "bytes_read",
        "bytes_written",
        "compaction_latency",
        "compaction_reclaimed",
        "fsync_errors",
        "fsync_latency",
        "index_rebuilds",
        "logs",
        "lookup_latency",
        "segments_created",
        "segments_deleted",
    )

    def __init__(self) -> None:
        self.logs = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.fsync_errors = 0
        self.fsync_latency = Histogram()
        self.segments_created = 0
        self.segments_deleted = 0
        self.index_rebuilds = 0
        self.lookup_latency: dict[IndexType, Histogram] = {}
        self.compaction_latency = Histogram()
        self.compaction_reclaimed = 0

    def replace(self, size_before: int, size: int) -> None:
        """A segment was rewritten; the segments it replaces are removed separately."""
        self.segments_created += 1
        self.segments_deleted += 1
        self.bytes_written += size
        self.compaction_reclaimed += max(0, size_before - size)

    def look_up(self, how: IndexType, took_ns: int) -> None:
        latency = self.lookup_latency.get(how)
        if latency is None:
            latency = self.lookup_latency[how] = Histogram()
        latency.observe(took_ns)

    @property
    def fsyncs(self) -> int:
        """The number of attempted syncs."""
        return self.fsync_latency.count + self.fsync_errors


class SnapshotMeter:
    """The counters of one kind of snapshot."""

    __slots__ = ("latency", "size")

    def __init__(self) -> None:
        self.latency = Histogram()
        # Of the last one.
        self.size = 0


# For files without a storage.
UNCOUNTED = TopicMeter()


class Meters:
    """The meters of a data directory."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicMeter] = {}
        self._snapshots: dict[str, SnapshotMeter] = {}

    def begin(self, topic: str) -> TopicMeter:
        """One more log of a topic is open."""
        meter = self._topics.get(topic)
        if meter is None:
            meter = self._topics[topic] = TopicMeter()
        meter.logs += 1
        return meter

    def end(self, topic: str) -> None:
        """A log was closed; with the last one the topic is dropped."""
        meter = self._topics[topic]
        meter.logs -= 1
        if not meter.logs:
            del self._topics[topic]

    def save(self, name: str, size: int, took_ns: int) -> None:
        """A snapshot was saved; in its name the kind comes before the number of the topic."""
        kind = name.partition("-")[0]
        meter = self._snapshots.get(kind)
        if meter is None:
            meter = self._snapshots[kind] = SnapshotMeter()
        meter.size = size
        meter.latency.observe(took_ns)

    def topics(self) -> list[tuple[tuple[str, ...], TopicMeter]]:
        """The counters by topic; a copy."""
        return [((name,), meter) for name, meter in list(self._topics.items())]

    def snapshots(self) -> list[tuple[tuple[str, ...], SnapshotMeter]]:
        return [((kind,), meter) for kind, meter in list(self._snapshots.items())]


_PREFIX = "goqueue_storage_"
_TOPIC = ("topic",)
_INDEX = ("topic", "index_type")
_COUNTERS: tuple[tuple[str, Callable[[TopicMeter], int], str], ...] = (
    ("bytes_written_total", lambda meter: meter.bytes_written, "Bytes of records written."),
    ("bytes_read_total", lambda meter: meter.bytes_read, "Bytes of records read."),
    ("fsync_total", lambda meter: meter.fsyncs, "Syncs of a log to the disk."),
    ("fsync_errors_total", lambda meter: meter.fsync_errors, "Syncs that failed."),
    ("segments_created_total", lambda meter: meter.segments_created, "Segments created."),
    ("segments_deleted_total", lambda meter: meter.segments_deleted, "Segments deleted."),
    ("index_rebuilds_total", lambda meter: meter.index_rebuilds, "Indexes rebuilt."),
    (
        "compaction_runs_total",
        lambda meter: meter.compaction_latency.count,
        "Compactions completed.",
    ),
    (
        "compaction_bytes_reclaimed_total",
        lambda meter: meter.compaction_reclaimed,
        "Bytes freed by compaction.",
    ),
)
_HISTOGRAMS: tuple[tuple[str, Callable[[TopicMeter], Histogram], str], ...] = (
    ("fsync_latency_seconds", lambda meter: meter.fsync_latency, "Time of a sync."),
    (
        "compaction_latency_seconds",
        lambda meter: meter.compaction_latency,
        "Time of a compaction, including pauses between its steps.",
    ),
)


def families_of(meters: Meters) -> Iterator[Family]:
    topics = meters.topics()
    for name, count, meaning in _COUNTERS:
        samples: list[Sample] = [(labels, count(meter)) for labels, meter in topics]
        yield _family(Kind.COUNTER, name, meaning, _TOPIC, samples)
    for name, latency, meaning in _HISTOGRAMS:
        samples = [(labels, latency(meter)) for labels, meter in topics]
        # Most topics are never compacted.
        observed = [sample for sample in samples if _is_observed(sample)]
        yield _family(Kind.HISTOGRAM, name, meaning, _TOPIC, observed)
    yield from _lookups(topics)
    yield from _snapshots(meters)


def _is_observed(sample: Sample) -> bool:
    return isinstance(sample[1], Histogram) and sample[1].count > 0


def _lookups(topics: list[tuple[tuple[str, ...], TopicMeter]]) -> Iterator[Family]:
    lookups = [
        ((*labels, how), latency)
        for labels, meter in topics
        for how, latency in list(meter.lookup_latency.items())
    ]
    meaning = "Reads that used an index."
    counts: list[Sample] = [(labels, latency.count) for labels, latency in lookups]
    yield _family(Kind.COUNTER, "index_lookups_total", meaning, _INDEX, counts)
    meaning = "Time of an index lookup, including the read that follows."
    latencies: list[Sample] = list(lookups)
    yield _family(Kind.HISTOGRAM, "index_lookup_latency_seconds", meaning, _INDEX, latencies)


def _snapshots(meters: Meters) -> Iterator[Family]:
    labels = ("snapshot_type",)
    snapshots = meters.snapshots()
    counts: list[Sample] = [(kind, meter.latency.count) for kind, meter in snapshots]
    yield _family(Kind.COUNTER, "snapshots_created_total", "Snapshots written.", labels, counts)
    sizes: list[Sample] = [(kind, meter.size) for kind, meter in snapshots]
    meaning = "Size of the last snapshot in bytes."
    yield _family(Kind.GAUGE, "snapshot_size_bytes", meaning, labels, sizes)
    latencies: list[Sample] = [(kind, meter.latency) for kind, meter in snapshots]
    meaning = "Time to write a snapshot."
    yield _family(Kind.HISTOGRAM, "snapshot_latency_seconds", meaning, labels, latencies)


def _family(
    kind: Kind, name: str, meaning: str, labels: tuple[str, ...], samples: list[Sample]
) -> Family:
    return Family(name=_PREFIX + name, kind=kind, meaning=meaning, labels=labels, samples=samples)
