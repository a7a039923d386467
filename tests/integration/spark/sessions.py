"""Small sessions of Spark for tests: they start fast and write nothing into the package."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from goqueue.pipelines.spark_session import make_home

__all__ = ["ROOT", "session"]

ROOT = Path(__file__).resolve().parents[3]
_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": _FAST,
    "spark.executor.extraJavaOptions": _FAST,
    "spark.python.unix.domain.socket.enabled": "true",
}


def session(
    folder: Path, master: str = "local[2,4]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on two cores, whose tasks are tried again; it keeps its files in the folder."""
    # Workers import what tests define by its name.
    places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, places)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_HOME"] = str(make_home(folder / "home", Path(pyspark.__file__).parent))
    builder = SparkSession.builder.master(master).appName("tests")
    chosen = {"spark.sql.warehouse.dir": str(folder / "warehouse"), **(settings or {})}
    for name, value in {**_SETTINGS, **chosen}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
