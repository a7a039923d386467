"""What storage counted, as families of samples; the names are those of the contract."""

from collections.abc import Callable, Iterator

from goqueue.metrics import Family, Histogram, Kind, Sample
from goqueue.storage.metering.meters import Meters, TopicMeter

__all__ = ["families_of"]

_PREFIX = "goqueue_storage_"
_TOPIC = ("topic",)
_INDEX = ("topic", "index_type")
_COUNTERS: tuple[tuple[str, Callable[[TopicMeter], int], str], ...] = (
    ("bytes_written_total", lambda meter: meter.bytes_written, "Bytes of records written."),
    ("bytes_read_total", lambda meter: meter.bytes_read, "Bytes of records read."),
    ("fsync_total", lambda meter: meter.fsyncs, "Syncs of a log to the disk."),
    ("fsync_errors_total", lambda meter: meter.fsync_errors, "Syncs that failed."),
    ("segments_created_total", lambda meter: meter.segments_created, "Segments begun."),
    ("segments_deleted_total", lambda meter: meter.segments_deleted, "Segments removed."),
    ("index_rebuilds_total", lambda meter: meter.index_rebuilds, "Indexes made anew."),
    (
        "compaction_runs_total",
        lambda meter: meter.compaction_latency.count,
        "Compactions that came to their end.",
    ),
    (
        "compaction_bytes_reclaimed_total",
        lambda meter: meter.compaction_reclaimed,
        "Bytes that compaction gave back.",
    ),
)
_HISTOGRAMS: tuple[tuple[str, Callable[[TopicMeter], Histogram], str], ...] = (
    ("fsync_latency_seconds", lambda meter: meter.fsync_latency, "Time of a sync."),
    (
        "compaction_latency_seconds",
        lambda meter: meter.compaction_latency,
        "Time of a compaction, with what came between its steps.",
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
    meaning = "Reads of records that an index led to."
    counts: list[Sample] = [(labels, latency.count) for labels, latency in lookups]
    yield _family(Kind.COUNTER, "index_lookups_total", meaning, _INDEX, counts)
    meaning = "Time of a lookup by an index, with the reading that it led to."
    latencies: list[Sample] = list(lookups)
    yield _family(Kind.HISTOGRAM, "index_lookup_latency_seconds", meaning, _INDEX, latencies)


def _snapshots(meters: Meters) -> Iterator[Family]:
    labels = ("snapshot_type",)
    snapshots = meters.snapshots()
    counts: list[Sample] = [(kind, meter.latency.count) for kind, meter in snapshots]
    yield _family(Kind.COUNTER, "snapshots_created_total", "Snapshots kept.", labels, counts)
    sizes: list[Sample] = [(kind, meter.size) for kind, meter in snapshots]
    meaning = "Bytes of the last snapshot."
    yield _family(Kind.GAUGE, "snapshot_size_bytes", meaning, labels, sizes)
    latencies: list[Sample] = [(kind, meter.latency) for kind, meter in snapshots]
    meaning = "Time to keep a snapshot."
    yield _family(Kind.HISTOGRAM, "snapshot_latency_seconds", meaning, labels, latencies)


def _family(
    kind: Kind, name: str, meaning: str, labels: tuple[str, ...], samples: list[Sample]
) -> Family:
    return Family(name=_PREFIX + name, kind=kind, meaning=meaning, labels=labels, samples=samples)
