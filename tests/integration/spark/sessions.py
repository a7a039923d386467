"""Small sessions of Spark for tests: started as fast as can be, writing nothing into the package.

The home of Spark is a folder of links to the installed one. It leaves out the zipped copy of
pyspark, which every worker would compile anew, and it is where a cluster of processes keeps its
logs, which would otherwise go into the installed package.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

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
    os.environ["SPARK_HOME"] = str(_home(folder / "home"))
    builder = SparkSession.builder.master(master).appName("tests")
    chosen = {"spark.sql.warehouse.dir": str(folder / "warehouse"), **(settings or {})}
    for name, value in {**_SETTINGS, **chosen}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _home(home: Path) -> Path:
    installed = Path(pyspark.__file__).parent
    libraries = Path("python", "lib")
    (home / libraries).mkdir(parents=True, exist_ok=True)
    zips = [libraries / each.name for each in (installed / libraries).glob("py4j-*.zip")]
    for place in (Path("bin"), Path("jars"), *zips):
        if not (home / place).exists():
            (home / place).symlink_to(installed / place)
    return home
