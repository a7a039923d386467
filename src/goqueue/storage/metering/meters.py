"""What storage did since it was opened: by topic, and for snapshots by their kind.

Plain numbers that only grow. Each is written by one thread, or under the guard of storage; whoever
reads them gets each as it is, not all as of one moment. Never reads a clock: what something took is
handed in.

Invariant: a topic is counted as long as one of its logs is open.
"""

import enum

from goqueue.metrics import Histogram

__all__ = ["UNCOUNTED", "IndexType", "Meters", "SnapshotMeter", "TopicMeter"]


class IndexType(enum.StrEnum):
    """What records are looked up by."""

    OFFSET = "offset"
    TIME = "time"


class TopicMeter:
    """What was done with the logs of one topic."""

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
        """A segment was written anew; the others that it stands for are removed yet."""
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
        """How many were tried."""
        return self.fsync_latency.count + self.fsync_errors


class SnapshotMeter:
    """The snapshots of one kind."""

    __slots__ = ("latency", "size")

    def __init__(self) -> None:
        self.latency = Histogram()
        # Of the last one.
        self.size = 0


# For files that no storage has opened.
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
        """One log less; with the last one the topic is forgotten."""
        meter = self._topics[topic]
        meter.logs -= 1
        if not meter.logs:
            del self._topics[topic]

    def save(self, kind: str, size: int, took_ns: int) -> None:
        """A snapshot was kept."""
        meter = self._snapshots.get(kind)
        if meter is None:
            meter = self._snapshots[kind] = SnapshotMeter()
        meter.size = size
        meter.latency.observe(took_ns)

    def topics(self) -> list[tuple[tuple[str, ...], TopicMeter]]:
        """By the name of their topic; a copy that later changes leave alone."""
        return [((name,), meter) for name, meter in list(self._topics.items())]

    def snapshots(self) -> list[tuple[tuple[str, ...], SnapshotMeter]]:
        return [((kind,), meter) for kind, meter in list(self._snapshots.items())]
