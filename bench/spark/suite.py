"""Figures of the Spark connector, beside Spark's own in the same run.

Values of 100 B and 1 KiB, two cores, medians of three. `raw` is Spark at the same work with sources
and sinks that do nothing: record batches that are ready, rows in memory, a sink that counts.
"""

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import goqueue
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.runner import FULL, QUICK, TINY, Measure, Suite
from bench.spark.rig import Rig, Scale, figure, rate, session
from goqueue.client.sync import SyncConnection
from goqueue.pipelines.spark_session import NICENESS

__all__ = ["SUITE"]

SIZES = (100, 1024)
_SCALES = {
    FULL: Scale(),
    QUICK: Scale(rows=500_000, triggers=20),
    TINY: Scale(rows=5_000, rounds=1, triggers=2),
}
# The first triggers start processes.
COLD = 5
BATCHES = 4
PACE_S = 0.005
PROBES = 400


def drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def measure_read(rig: Rig, size: int) -> Iterator[Figure]:
    rows, rounds = rig.scale.rows_of(size), rig.scale.rounds
    topic = rig.filled(size)
    parquet = str(rig.folder_of("parquet") / "rows")
    rig.topic(topic).write.parquet(parquet)
    ready = rate(rows, rounds, lambda: drain(rig.ready(size)))
    stored = rate(rows, rounds, lambda: drain(rig.spark.read.parquet(parquet)))
    usage = rig.node.usage
    value = rate(rows, rounds, lambda: drain(rig.topic(topic)))
    # The node and Spark share the cores; a source of ready batches has them for itself.
    broker_cores = usage.cpu_s / (rounds + 1) / (rows / value)
    target = Target(at_least=700_000, ratio_at_least=0.6) if size == 100 else None
    details = {"parquet": stored, "broker_cores": broker_cores}
    yield figure(f"read_{size}B", value, "rows/s", ready, target, **details)


def measure_write(rig: Rig, size: int) -> Iterator[Figure]:
    rows, rounds = rig.scale.rows_of(size), rig.scale.rounds
    columns = rig.ready(size).select("key", "value")
    raw = rate(rows, rounds, lambda: drain(columns))

    def into_topic(exactly_once: str) -> float:
        sink = rig.create(f"sink-{size}")
        found = rate(rows, rounds, lambda: rig.write(columns, sink, exactlyOnce=exactly_once))
        rig.drop(sink)
        return found

    target = Target(at_least=250_000) if size == 100 else None
    value, idempotent = into_topic("true"), into_topic("false")
    yield figure(f"write_{size}B", value, "rows/s", raw, target, idempotent=idempotent)


def measure_stream(rig: Rig, size: int) -> Iterator[Figure]:
    batch = max(1, rig.scale.rows_of(size) // BATCHES)
    topic = rig.filled(size)
    sustained, plain = [], []
    for _ in range(rig.scale.rounds):
        sink = rig.create(f"sink-{size}")
        query = rig.start(rig.stream(topic, batch), "goqueue", **rig.into(sink))
        sustained.append(_rows_per_s(query))
        rig.drop(sink)
        plain.append(_rows_per_s(rig.start(rig.idle_stream(batch, size), "ready")))
    target = Target(at_least=200_000) if size == 100 else None
    raw = statistics.median(plain)
    yield figure(f"stream_{size}B", statistics.median(sustained), "rows/s", raw, target)
    if size == SIZES[-1]:
        yield _trigger_overhead(rig)


# A row of some 60 bytes with what orders have.
_ORDER = """named_struct(
    'id', id, 'item', concat('item-', id % 1000), 'price', double(id) / 8,
    'at', timestamp_micros(id * 1000), 'tags', array('new', 'paid')
) value"""
_ORDER_DDL = "id BIGINT, item STRING, price DOUBLE, at TIMESTAMP, tags ARRAY<STRING>"


def measure_decode(rig: Rig, size: int) -> Iterator[Figure]:
    """The same rows in each format: what decoding costs beside their bytes."""
    if size == SIZES[0]:
        for value_format in ("json", "avro", "protobuf"):
            yield _decode(rig, value_format)


def _decode(rig: Rig, value_format: str) -> Figure:
    count, rounds = rig.scale.rows // 5, rig.scale.rounds
    topic = rig.create(value_format)
    subject = {"valueFormat": value_format, "schemaSubject": f"{topic}-value"}
    orders = rig.spark.range(0, count, 1, 2).selectExpr(_ORDER)
    encode = rate(count, 1, lambda: rig.write(orders, topic, registerSchema="true", **subject))
    # Written twice: the first time does not count.
    stored = 2 * count
    raw = rate(stored, rounds, lambda: drain(rig.topic(topic)))
    value = rate(stored, rounds, lambda: drain(rig.topic(topic, **subject)))
    details = {"encode": encode}
    if value_format == "json":
        ddl = {"valueFormat": "json", "valueSchema": _ORDER_DDL}
        details["by_ddl"] = rate(stored, rounds, lambda: drain(rig.topic(topic, **ddl)))
    return figure(f"decode_{value_format}", value, "rows/s", raw, None, **details)


def _trigger_overhead(rig: Rig) -> Figure:
    """What a trigger takes that has two rows."""
    source, sink = rig.create("small"), rig.create("sink")
    count = rig.scale.triggers + COLD
    rows = rig.spark.range(0, 2 * count, 1, 1).selectExpr(
        "cast(id as string) value", "cast(id % 2 as int) partition"
    )
    rig.write(rows, source)
    query = rig.start(rig.stream(source, 2), "goqueue", **rig.into(sink))
    ours = _triggers(query, count)
    plain = _triggers(rig.start(rig.idle_stream(2, 100), "ready"), count)
    extra = {name: ours[name] - plain.get(name, 0.0) for name in ours}
    total = extra.pop("triggerExecution")
    raw = plain["triggerExecution"]
    return figure(
        "trigger_overhead", total, "ms", None, Target(below=150), spark_alone=raw, **extra
    )


def _progress(query: StreamingQuery, count: int) -> list[dict[str, Any]]:
    """What the first batches that had rows say; the query is stopped then."""
    while True:
        found = [each for each in query.recentProgress if each["numInputRows"]]
        if len(found) >= count:
            query.stop()
            return [dict(each) for each in found[:count]]
        if not query.isActive:
            raise RuntimeError("the stream ended early") from query.exception()
        time.sleep(0.05)


def _rows_per_s(query: StreamingQuery) -> float:
    """Over all batches but the first, which starts processes."""
    found = _progress(query, BATCHES)[1:]
    spent_ms = sum(float(each["durationMs"]["triggerExecution"]) for each in found)
    return sum(int(each["numInputRows"]) for each in found) / spent_ms * 1000


def _triggers(query: StreamingQuery, count: int) -> dict[str, float]:
    """Median milliseconds of each part of a trigger."""
    parts: dict[str, list[float]] = {}
    for each in _progress(query, count)[COLD:]:
        for name, spent_ms in each["durationMs"].items():
            parts.setdefault(name, []).append(float(spent_ms))
    return {name: statistics.median(spent) for name, spent in parts.items()}


def measure_archive(rig: Rig, size: int) -> Iterator[Figure]:
    from goqueue.pipelines.archive.run import archive
    from goqueue.pipelines.connection import ConnectionOptions
    from goqueue.pipelines.packaged_options import ArchiveOptions

    rows, rounds = rig.scale.rows_of(size), rig.scale.rounds
    topic = rig.filled(size)

    def keep() -> None:
        to = rig.folder_of("lake")
        connection = ConnectionOptions(server=rig.url)
        done = archive(
            rig.spark, ArchiveOptions(connection=connection, topics=(topic,), to=to, is_once=True)
        )
        assert done.rows == rows, f"{done.rows} rows were archived"

    def plain() -> None:
        rig.ready(size).write.parquet(str(rig.folder_of("plain") / "rows"))

    raw = rate(rows, rounds, plain)
    yield figure(
        f"archive_{size}B", rate(rows, rounds, keep), "rows/s", raw, Target(ratio_at_least=0.8)
    )


def measure_broker(rig: Rig, size: int) -> Iterator[Figure]:
    """How long another client waits for a publish, with Spark at rest and at full speed."""
    topic, other = rig.filled(size), rig.create("other")
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            drain(rig.topic(topic))

    with goqueue.connect_sync(rig.url) as q:
        quiet = _publish(q, other, PROBES)
        drain(rig.topic(topic))
        reading = threading.Thread(target=read)
        reading.start()
        loaded = [_publish(q, other, PROBES) for _ in range(rig.scale.rounds)]
        _step_back()
        stepped_back = [_publish(q, other, PROBES) for _ in range(rig.scale.rounds)]
        over.set()
        reading.join()
    name, target = f"publish_p99_while_reading_{size}B", Target(below=25)
    alike, modest = (
        [statistics.median(each[index] for each in some) for index in (0, 1)]
        for some in (loaded, stepped_back)
    )
    yield figure(
        name,
        modest[1],
        "ms",
        None,
        target,
        p50=modest[0],
        without_stepping_back=alike[1],
        quiet_p50=quiet[0],
        quiet_p99=quiet[1],
    )


def _step_back() -> None:
    """Give the Spark of this process the priority that pipelines of ours have."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    ours = _below({os.getpid()}, parents)
    spark = {pid for pid in ours if b"java" in _command(pid).partition(b"\0")[0]}
    spark |= _below(spark, parents)
    for task in (task for pid in spark for task in Path(f"/proc/{pid}/task").glob("*")):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(task.name), NICENESS)


def _below(above: set[int], parents: dict[int, int]) -> set[int]:
    """The processes that these have started, and those that they did."""
    found: set[int] = set()
    while grown := {pid for pid, parent in parents.items() if parent in above | found} - found:
        found |= grown
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _publish(q: SyncConnection, topic: str, count: int) -> tuple[float, float]:
    """Publish at a pace; the median and the 99th percentile, in milliseconds."""
    spent = []
    for _ in range(count):
        started = time.perf_counter()
        q.publish(topic, b"x" * 100)
        spent.append((time.perf_counter() - started) * 1000)
        time.sleep(PACE_S)
    spent.sort()
    return spent[len(spent) // 2], spent[int(len(spent) * 0.99)]


_MEASURES = {
    "read": measure_read,
    "write": measure_write,
    "stream": measure_stream,
    "decode": measure_decode,
    "archive": measure_archive,
    "broker": measure_broker,
}


def _with_rig(measure: Callable[[Rig, int], Iterator[Figure]]) -> Measure:
    """Each measure has a node and a session of its own; the Java process stays warm."""

    def measured(folder: str, scale: float) -> Iterator[Figure]:
        with BrokerProcess(folder) as node:
            spark = session(Path(folder))
            try:
                rig = Rig(spark, node, Path(folder), _SCALES[scale])
                for size in SIZES:
                    yield from measure(rig, size)
            finally:
                spark.stop()

    return measured


SUITE = Suite(
    words="Measure topics in Spark beside Spark's own sources and sinks in the same run.",
    measures={name: _with_rig(measure) for name, measure in _MEASURES.items()},
)
