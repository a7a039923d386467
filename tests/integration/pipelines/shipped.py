"""A driver whose executors have a bare Python: all that they import comes with the application.

Run as a program: `shipped URL SOURCE SINK PYTHON`. Copies one topic to another on a cluster of one
executor, and prints as JSON what that executor imported, and from where.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from goqueue.pipelines import session
from goqueue.pipelines.executor_archive import ship

__all__ = ["main"]

SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def found(_: int) -> list[str]:
    import pyarrow as pa

    from goqueue import records

    return [sys.executable, records.__file__, str(records.COMPILED), str(pa.__file__)]


def copy(spark: SparkSession, url: str, source: str, sink: str) -> None:
    rows = spark.read.format("goqueue").option("goqueue.servers", url).option("subscribe", source)
    writer = rows.load().select("key", "value").write.format("goqueue")
    writer.option("goqueue.servers", url).option("topic", sink).mode("append").save()


def main(url: str, source: str, sink: str, python: str) -> None:
    os.environ["PYSPARK_PYTHON"] = python
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SMALL,
        "spark.executor.extraJavaOptions": SMALL,
    }
    log = Path("spark.log")
    spark = session("shipped", master="local-cluster[1,1,1024]", conf=ship(settings), log=log)
    copy(spark, url, source, sink)
    print(json.dumps(spark.sparkContext.parallelize([0], 1).flatMap(found).collect()))  # noqa: T201 - its answer
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
