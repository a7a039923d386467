"""What storage counts by topic, and when it forgets a topic."""

from goqueue.metrics import Histogram
from goqueue.model import MILLISECOND, Create, Delete, LogId, LogSettings, Message, Reshape
from goqueue.records import build
from goqueue.storage import Storage
from tests.unit.storage.driven_log import LOG, DrivenLog
from tests.unit.storage.memory_files import MemoryFiles

PREFIX = "goqueue_storage_"


def samples(storage: Storage, name: str) -> dict[tuple[str, ...], float]:
    for family in storage.metrics():
        if family.name == PREFIX + name:
            return {
                labels: quantity.count if isinstance(quantity, Histogram) else quantity
                for labels, quantity in filter(None, family.samples)
                if not isinstance(labels, str)
            }
    raise AssertionError(f"there is no family {name}")


def test_bytes_syncs_and_segments_are_counted() -> None:
    driven = DrivenLog(MemoryFiles())
    batch = [Message(value=b"x" * 50)] * 4
    size = len(build(batch))
    for _ in range(20):
        driven.append(batch)
    topic = (LOG.topic,)

    assert samples(driven.storage, "bytes_written_total") == {topic: 20 * size}
    assert samples(driven.storage, "fsync_total")[topic] >= 20
    assert samples(driven.storage, "fsync_errors_total") == {topic: 0}
    rolled = len(driven.log.segments) - 1
    assert rolled > 0
    assert samples(driven.storage, "segments_created_total") == {topic: rolled}


def test_reads_are_lookups_by_offset() -> None:
    driven = DrivenLog(MemoryFiles())
    driven.append([Message(value=b"x")])
    wanted = driven.log.read(driven.log.start, 1000)
    assert wanted is not None
    data = driven.storage.read(wanted)

    assert samples(driven.storage, "bytes_read_total") == {(LOG.topic,): len(data)}
    assert samples(driven.storage, "index_lookups_total") == {(LOG.topic, "offset"): 1}


def test_times_come_from_the_clock_that_is_handed_in() -> None:
    ticks = iter(range(0, 10**12, MILLISECOND))
    storage = Storage(MemoryFiles(), ticks=lambda: next(ticks))
    storage.save("delays-7-0", b"{}")
    storage.save("delays-8-1", b"{ }")

    assert samples(storage, "snapshots_created_total") == {("delays",): 2}
    assert samples(storage, "snapshot_size_bytes") == {("delays",): 3}
    (latency,) = [
        each for each in storage.metrics() if each.name.endswith("snapshot_latency_seconds")
    ]
    totals = [
        each.total for _, each in filter(None, latency.samples) if isinstance(each, Histogram)
    ]
    assert totals == [2 * MILLISECOND]


def test_a_topic_is_forgotten_with_its_last_log() -> None:
    storage = Storage(MemoryFiles())
    first, second = LogId("t", 0), LogId("t", 1)
    for log in (first, second):
        storage.carry_out([Reshape(log=log, change=Create(LogSettings()))])
    assert samples(storage, "segments_created_total") == {("t",): 2}
    storage.carry_out([Reshape(log=first, change=Delete())])
    assert samples(storage, "segments_created_total") == {("t",): 2}
    storage.carry_out([Reshape(log=second, change=Delete())])
    assert samples(storage, "segments_created_total") == {}
