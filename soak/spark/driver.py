"""A driver of Spark: `python -m soak.spark.driver FOLDER`; it copies topics as it is told.

Every line that it reads is one job: fill a topic by a write that counts once however often it is
done, copy it to another by a stream until nothing is left, and count what is there by a read. It
says `ready` when there is a session, and `done` after each job. A job that fails ends it.
"""

import sys
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tests.integration.spark.sessions import session

__all__ = ["DONE", "MASTER", "READY", "Job"]

MASTER = "local-cluster[2,1,1024]"
READY = "ready"
DONE = "done"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One copy of numbered rows."""

    url: str
    source: str
    target: str
    checkpoint: str
    rows: int
    keys: int
    batches: int


_JOBS = msgspec.json.Decoder(Job)


def main(folder: str) -> None:
    spark = session(Path(folder), MASTER, {"spark.executor.memory": "512m"})
    _say(READY)
    for line in sys.stdin:
        job = _JOBS.decode(line)
        _fill(spark, job)
        _copy(spark, job)
        found = _count(spark, job)
        assert found == job.rows, f"Spark finds {found} rows in {job.target}"
        _say(DONE)
    spark.stop()


def _fill(spark: SparkSession, job: Job) -> None:
    # By one task: several would mix the rows of a key.
    rows = spark.range(0, job.rows, 1, 1).selectExpr(
        f"concat('k', id % {job.keys}) key", "cast(id as string) value"
    )
    writer = rows.write.format("goqueue").option("goqueue.servers", job.url)
    writer = writer.option("topic", job.source).option("transactionalId", job.source)
    writer.option("transactionalVersion", "0").mode("append").save()


def _count(spark: SparkSession, job: Job) -> int:
    reader = spark.read.format("goqueue").option("goqueue.servers", job.url)
    return reader.option("subscribe", job.target).load().select("value").distinct().count()


def _copy(spark: SparkSession, job: Job) -> None:
    rows = (
        spark.readStream.format("goqueue")
        .option("goqueue.servers", job.url)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxRecordsPerTrigger", str(max(1, job.rows // job.batches)))
        .load()
        .where("value is not null")
        .selectExpr("key", "value")
    )
    query = (
        rows.writeStream.format("goqueue")
        .option("goqueue.servers", job.url)
        .option("topic", job.target)
        .option("checkpointLocation", job.checkpoint)
        .queryName(job.target)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
