"""What ten thousand partitions of three copies cost three nodes: at rest, and when a node dies.

All nodes share one machine, so each of them keeps a copy of every partition. Nobody publishes: logs
that were never written to have no files. A probe asks a node that is left for its health every few
milliseconds: it waits for whatever turn is under way, and for the other processes of the machine.
"""

import asyncio
import contextlib
import signal
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec

import goqueue
from bench.cluster.failover import NAMES, BenchCluster
from bench.cluster.replication_cpu import cpu_s
from bench.figure import Figure, Target
from goqueue.cluster import (
    BrokerFenced,
    LeadersChanged,
    MetadataImage,
    PartitionsAssigned,
    ReplicaAssignment,
    TopicStated,
    elect_leaders,
)
from goqueue.model.requests import TopicConfig

__all__ = ["image_of_many", "many_partitions"]

_PARTITIONS = 10_000
_PER_TOPIC = 1_000
_IDLE_S = 10.0
_PROBE_S = 0.002
_WAIT_S_MAX = 180.0


def image_of_many(_folder: str, scale: float) -> Iterator[Figure]:
    """The image in memory, what it is stated as, and how long the death of a node is decided."""
    count = max(100, int(_PARTITIONS * scale))
    tracemalloc.start()
    image = _image(count)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    stated = msgspec.json.encode(image.stated())
    yield _figure("image", size / 1e6, "MB", 20.0, count)
    yield _figure("image_stated", len(stated) / 1e6, "MB", 2.0, count)
    began = time.thread_time()
    led = list(image.table.led_by(NAMES[0]))
    changes = elect_leaders(image.table, led, NAMES[1:])
    fenced = BrokerFenced(broker=NAMES[0], epoch=1)
    record = msgspec.json.encode(LeadersChanged(changes=tuple(changes)))
    image.apply([fenced, msgspec.json.decode(record, type=LeadersChanged)], image.version + 1)
    took_ms = (time.thread_time() - began) * 1000
    yield _figure("death_decided_and_applied", took_ms, "ms of processor", 100.0, len(changes))


def _image(count: int) -> MetadataImage:
    image = MetadataImage()
    changes: list[TopicStated | PartitionsAssigned] = []
    for number in range(1, count // _PER_TOPIC + 2):
        partitions = min(_PER_TOPIC, count - (number - 1) * _PER_TOPIC)
        topic = TopicStated(
            name=f"topic-{number}",
            number=number,
            partitions=partitions,
            config=TopicConfig(replication_factor=len(NAMES)),
            created_at=0,
        )
        orders = [(*NAMES[first:], *NAMES[:first]) for first in range(len(NAMES))]
        assigned = tuple(
            ReplicaAssignment(orders[each % len(NAMES)], orders[each % len(NAMES)][0])
            for each in range(partitions)
        )
        if partitions > 0:
            changes += [topic, PartitionsAssigned(topic=number, partitions=assigned)]
    # As it comes from the log: no two of its strings are the same object.
    image.apply(_DECODER.decode(msgspec.json.encode(changes)), 1)
    return image


_DECODER = msgspec.json.Decoder(list[TopicStated | PartitionsAssigned])


def _figure(name: str, value: float, unit: str, below: float, count: int) -> Figure:
    return Figure(
        figure=f"many_partitions_{name}",
        value=round(value, 2),
        unit=unit,
        target=Target(below=below),
        details={"partitions": count},
    )


def many_partitions(folder: str, scale: float) -> Iterator[Figure]:
    """What nodes use at rest, and how soon all partitions have a leader when one is killed."""
    count = max(60, int(_PARTITIONS * scale))
    cluster = BenchCluster(Path(folder) / "many")
    try:
        cluster.start(*NAMES)
        yield from asyncio.run(_measure(cluster, count))
    finally:
        cluster.kill_all()


async def _measure(cluster: BenchCluster, count: int) -> list[Figure]:
    async with goqueue.connect(cluster.servers, timeout_s=_WAIT_S_MAX) as q:
        topics = await _create(q, count)
        before = cpu_s(cluster)
        await asyncio.sleep(_IDLE_S)
        after = cpu_s(cluster)
        idle = max(after[name] - before[name] for name in NAMES) / _IDLE_S * 100
        victim, *left = NAMES
        led = {topic: await q.topics.partitions(topic) for topic in topics}
        of_victim = sum(each.leader == victim for found in led.values() for each in found)
        probe = asyncio.create_task(_probe(cluster.port(left[0])))
        await asyncio.sleep(1.0)
        cluster.end(victim, signal.SIGKILL)
        began = time.perf_counter()
        for topic in topics:
            await _wait_for_leaders(q, topic, victim)
        took = time.perf_counter() - began
        probe.cancel()
        longest = 0.0
        with contextlib.suppress(asyncio.CancelledError):
            longest = await probe
    return [
        _figure("idle", idle, "% of a core, each node", 3.0, count),
        _figure("led_again", took, "s until described with leaders", 5.0, of_victim),
        Figure(
            figure="many_partitions_longest_probe",
            value=round(longest * 1000, 1),
            unit="ms, with two nodes and this program on the same cores",
            details={"partitions": count},
        ),
    ]


async def _create(q: goqueue.Connection, count: int) -> list[str]:
    topics: list[str] = []
    deadline = time.monotonic() + _WAIT_S_MAX
    while count > len(topics) * _PER_TOPIC:
        partitions = min(_PER_TOPIC, count - len(topics) * _PER_TOPIC)
        name = f"many-{len(topics)}"
        try:
            await q.topics.create(
                name,
                partitions=partitions,
                replication_factor=len(NAMES),
                min_insync_replicas=2,
            )
        except goqueue.GoQueueError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)
        else:
            topics.append(name)
    for name in topics:
        await _wait_for_leaders(q, name, "")
    return topics


async def _wait_for_leaders(q: goqueue.Connection, topic: str, gone: str) -> None:
    deadline = time.monotonic() + _WAIT_S_MAX
    while True:
        with contextlib.suppress(goqueue.GoQueueError):
            found = await q.topics.partitions(topic)
            if all(each.leader not in {"", gone} and not each.error for each in found):
                return
        assert time.monotonic() < deadline, f"{topic} has partitions without leaders"
        await asyncio.sleep(0.05)


async def _probe(port: int) -> float:
    """The longest answer to the smallest question, until it is cancelled."""
    longest = 0.0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            began = time.perf_counter()
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(size)
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(_PROBE_S)
    except asyncio.CancelledError:
        return longest
    finally:
        writer.close()
