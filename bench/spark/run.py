"""Figures of the Spark connector, beside Spark's own: rows per second, medians of three.

Run it as `python -m bench.spark.run [rows]`.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from pyspark.sql import DataFrame, SparkSession

from bench.broker.broker import BrokerProcess
from bench.spark.ready import ReadySource

ROUNDS = 3
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
    "spark.buffer.size": BUFFER,
}


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Workers import the ready source by its name.
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(ReadySource)
    return spark


def measure(name: str, rows: int, run: Callable[[], None]) -> float:
    """Rows per second, after one run that does not count."""
    run()
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        rates.append(rows / (time.perf_counter() - started))
    rate = statistics.median(rates)
    print(f"{name:<58}{rate:>12,.0f} rows/s", flush=True)
    return rate


def drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


class Bench:
    """One size of value, one node, one session."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, rows: int, size: int) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.rows = rows
        self.size = size

    def create(self, topic: str) -> str:
        httpx.post(
            f"{self.url}/topics", json={"name": topic, "num_partitions": 2}
        ).raise_for_status()
        return topic

    def ready(self) -> DataFrame:
        reader = self.spark.read.format("ready").option("rows", str(self.rows))
        return reader.option("size", str(self.size)).option("tasks", "2").load()

    def topic(self, name: str) -> DataFrame:
        reader = self.spark.read.format("goqueue").option("goqueue.servers", self.url)
        return reader.option("subscribe", name).load()

    def write(self, rows: DataFrame, topic: str, **options: str) -> None:
        writer = rows.write.format("goqueue").option("goqueue.servers", self.url)
        writer.option("topic", topic).options(**options).mode("append").save()

    def run(self) -> None:
        what = f"{self.size} B"
        columns = self.ready().select("key", "value")
        source = self.create(f"source-{self.size}")
        self.write(columns, source)
        parquet = str(self.folder / f"parquet-{self.size}")
        self.topic(source).write.parquet(parquet)
        measure(f"{what}: ready Arrow batches to noop", self.rows, lambda: drain(self.ready()))
        measure(
            f"{what}: Parquet to noop",
            self.rows,
            lambda: drain(self.spark.read.parquet(parquet)),
        )
        measure(f"{what}: topic to noop", self.rows, lambda: drain(self.topic(source)))
        sink = self.create(f"sink-{self.size}")
        measure(
            f"{what}: ready Arrow batches to topic, exactly once",
            self.rows,
            lambda: self.write(columns, sink),
        )
        measure(
            f"{what}: ready Arrow batches to topic, idempotent",
            self.rows,
            lambda: self.write(columns, sink, exactlyOnce="false"),
        )
        rates = self.stream(source, sink)
        name = f"{what}: stream topic, SQL, topic, exactly once, per batch"
        print(f"{name:<58}{statistics.median(rates):>12,.0f} rows/s", flush=True)

    def stream(self, source: str, sink: str) -> list[float]:
        """Everything from a new checkpoint, in a few micro-batches; rows per second of each."""
        reader = self.spark.readStream.format("goqueue").option("goqueue.servers", self.url)
        rows = (
            reader.option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxRecordsPerTrigger", str(max(1, self.rows // 4)))
            .load()
            .where("length(value) > 0")
            .selectExpr("key", "value")
        )
        writer = rows.writeStream.format("goqueue").option("goqueue.servers", self.url)
        writer = writer.option("topic", sink).option(
            "checkpointLocation", tempfile.mkdtemp(dir=self.folder)
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [float(each["processedRowsPerSecond"]) for each in query.recentProgress]


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(folder) as node:
        url = f"http://127.0.0.1:{node.port}"
        spark = session()
        try:
            Bench(spark, url, Path(folder), rows, 100).run()
            Bench(spark, url, Path(folder), rows // 5, 1024).run()
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
