"""Small sessions of Spark for tests: they start fast and write nothing into the package."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from goqueue.pipelines import session as pipeline_session
from goqueue.pipelines.spark_session import make_home
from tests.integration.fast_java import JAVA_OPTIONS

__all__ = ["FAST", "ROOT", "session"]

ROOT = Path(__file__).resolve().parents[3]
FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "tests.integration.spark.warm_daemon",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


def session(
    folder: Path,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A session on two cores as pipelines have it; it keeps its files in the folder."""
    # Workers import what tests define by its name.
    places = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, places)))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_HOME"] = str(make_home(folder / "home", Path(pyspark.__file__).parent))
    # A Java that is killed leaves its own files and those of Spark: here they go with the folder.
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    java_options = f"{JAVA_OPTIONS} -Djava.io.tmpdir={scratch}"
    chosen = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": java_options,
        "spark.executor.extraJavaOptions": java_options,
        **(settings or {}),
    }
    return pipeline_session("tests", master=master, conf={**FAST, **chosen}, log=log)
