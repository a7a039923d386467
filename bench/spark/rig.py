"""What the figures of Spark share: a session, a node, topics, and how a rate is measured."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.spark.ready import ReadySource

__all__ = ["Rig", "Scale", "figure", "rate", "session"]

ROOT = Path(__file__).resolve().parents[2]
BUFFER = str(1 << 20)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.pandas.udf.buffer.size": BUFFER,
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    "spark.buffer.size": BUFFER,
    "spark.sql.shuffle.partitions": "2",
}


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured: rows of 100 B, a fifth as many of 1 KiB, and so many rounds."""

    rows: int = 5_000_000
    rounds: int = 3
    triggers: int = 40

    def rows_of(self, size: int) -> int:
        return self.rows if size <= 100 else self.rows // 5


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Workers import the ready source by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(ReadySource)
    return spark


def rate(rows: int, rounds: int, run: Callable[[], None]) -> float:
    """Rows per second, the median, after one run that does not count."""
    run()
    rates = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        rates.append(rows / (time.perf_counter() - started))
    return statistics.median(rates)


def figure(
    name: str,
    value: float,
    unit: str,
    raw: float | None = None,
    target: Target | None = None,
    **details: float,
) -> Figure:
    """One figure; `raw` is Spark's own at the same work, in this run."""
    return Figure(
        figure=name,
        value=round(value, 1),
        unit=unit,
        raw=None if raw is None else round(raw, 1),
        ratio=None if not raw else round(value / raw, 3),
        target=target,
        details={name: round(each, 2) for name, each in details.items()},
    )


class Rig:
    """One node, one session, and the same rows ready, in Parquet and in a topic."""

    def __init__(
        self, spark: SparkSession, node: BrokerProcess, folder: Path, scale: Scale
    ) -> None:
        self.spark = spark
        self.node = node
        self.url = f"http://127.0.0.1:{node.port}"
        self.folder = folder
        self.scale = scale
        self._filled: dict[int, str] = {}

    def create(self, stem: str) -> str:
        topic = f"{stem}-{time.monotonic_ns()}"
        body = {"name": topic, "num_partitions": 2}
        httpx.post(f"{self.url}/topics", json=body, timeout=30).raise_for_status()
        return topic

    def drop(self, topic: str) -> None:
        httpx.delete(f"{self.url}/topics/{topic}", timeout=60).raise_for_status()

    def folder_of(self, stem: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=stem, dir=self.folder))

    def ready(self, size: int) -> DataFrame:
        reader = self.spark.read.format("ready").option("rows", str(self.scale.rows_of(size)))
        return reader.option("size", str(size)).option("tasks", "2").load()

    def filled(self, size: int) -> str:
        """A topic that holds the rows."""
        if size not in self._filled:
            self._filled[size] = self.create(f"source-{size}")
            self.write(self.ready(size).select("key", "value"), self._filled[size])
        return self._filled[size]

    def topic(self, name: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("goqueue").option("goqueue.servers", self.url)
        return reader.option("subscribe", name).options(**options).load()

    def write(self, rows: DataFrame, topic: str, **options: str) -> None:
        writer = rows.write.format("goqueue").option("goqueue.servers", self.url)
        writer.option("topic", topic).options(**options).mode("append").save()

    def into(self, topic: str) -> dict[str, str]:
        """The options of a stream into a topic."""
        return {"goqueue.servers": self.url, "topic": topic}

    def stream(self, topic: str, records_max: int) -> DataFrame:
        reader = self.spark.readStream.format("goqueue").option("goqueue.servers", self.url)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        return reader.option("maxRecordsPerTrigger", str(records_max)).load()

    def idle_stream(self, rows: int, size: int) -> DataFrame:
        reader = self.spark.readStream.format("ready").option("rows", str(rows))
        return reader.option("size", str(size)).option("tasks", "2").load()

    def start(self, rows: DataFrame, source: str, **options: str) -> StreamingQuery:
        """Filter and projection in SQL, into a topic or into nothing."""
        shaped = rows.where("length(value) > 0").selectExpr("key", "value")
        writer = shaped.writeStream.format(source).options(**options)
        return writer.option("checkpointLocation", str(self.folder_of("checkpoint"))).start()
