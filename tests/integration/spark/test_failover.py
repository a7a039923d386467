"""The connector on a cluster whose leaders are killed, asked as Spark asks it: no row is lost.

The source plans a read, and the leader is killed before a task reads; a task writes, and the leader
is killed before the driver commits. Whoever is killed follows again before the next one is.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import goqueue
from goqueue.client.sync import SyncConnection
from tests.integration.cluster.cluster_processes import ClusterProcesses, running_cluster

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow as pa

from goqueue.spark import GoQueueSource
from goqueue.spark.options import Link
from goqueue.spark.write_options import WriteOptions
from goqueue.spark.writer import Decision, publish
from tests.integration.spark.direct_readers import EVERYTHING, texts

WAIT_S = 60.0
PARTITIONS = 2
ROUNDS, ROWS = 3, 40


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path, 3) as nodes:
        yield nodes


def wait_until_in_sync(q: SyncConnection, topic: str) -> str:
    """Wait until all copies are in sync; who leads the first partition."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(goqueue.GoQueueError):
            found = q.topics.partitions(topic)
            if all(len(each.isr) == 3 and not each.error for each in found):
                return found[0].leader
        time.sleep(0.05)
    raise AssertionError(f"the copies of {topic} were never in sync")


def stored(q: SyncConnection, topic: str) -> list[str]:
    found = []
    for partition in range(PARTITIONS):
        page = q.page(topic, partition, offset=0, limit=1000, isolation="read_committed")
        found += [each.message.text for each in page.messages]
    return sorted(found)


def test_a_stream_copies_each_row_once_while_leaders_of_source_and_sink_are_killed(
    cluster: ClusterProcesses,
) -> None:
    servers = tuple(cluster[name].url for name in cluster.names)
    options = {"goqueue.servers": ",".join(servers), "subscribe": "events"}
    source = GoQueueSource({**options, "startingOffsets": "earliest"})
    sink = WriteOptions(link=Link(servers=servers, timeout_s=WAIT_S), topic="copies")
    with goqueue.connect_sync(list(servers)) as q:
        for topic in ("events", "copies"):
            q.topics.create(
                topic, partitions=PARTITIONS, replication_factor=3, min_insync_replicas=2
            )
        stream = source.streamReader(source.schema())
        start = stream.initialOffset()
        expected = []
        for batch in range(ROUNDS):
            rows = [f"{batch}-{number}" for number in range(ROWS)]
            expected += rows
            for number, row in enumerate(rows):
                q.publish("events", row, partition=number % PARTITIONS)
            end = stream.latestOffset(start, EVERYTHING)
            tasks = stream.partitions(start, end)

            leader = wait_until_in_sync(q, "events")
            cluster[leader].kill()
            read = texts(each for task in tasks for each in stream.read(task))
            cluster[leader].start()

            data = pa.RecordBatch.from_pydict({"value": pa.array(read, pa.string())})
            staged = publish(sink, f"spark.copy.{batch}.0", [data])
            leader = wait_until_in_sync(q, "copies")
            cluster[leader].kill()
            Decision(sink, "spark.copy", batch).commit([staged])
            cluster[leader].start()
            stream.commit(end)
            start = end
        wait_until_in_sync(q, "copies")

        assert stored(q, "copies") == sorted(expected)
