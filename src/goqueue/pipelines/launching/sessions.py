"""A session of Spark with the settings that topics need, on this machine or on a cluster.

Owns those settings, where Java and Python are found, and where Spark's own words go. Spark is
imported when a session is made, because it takes longer than most commands.

On a cluster (any master but `local…`) the archive of `shipping` travels with the application.
Executors run the Python at the same path as the driver's, unless PYSPARK_PYTHON or
`spark.pyspark.python` names another; its minor version must be the same.

Invariant: a session that exists already is returned as it is, with what can still be changed set.
"""

import contextlib
import getpass
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.pipelines.launching.home import lean_home
from goqueue.pipelines.launching.java import find_java, fronted
from goqueue.pipelines.launching.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NICENESS", "local_master", "session", "session_settings"]

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*(\d+))?\])?")
_ATTEMPTS = 4
# A third of the weight of others.
NICENESS = 5
_BUFFER_BYTES = 1 << 20
_ARROW_BYTES = 8 << 20


def session(
    name: str,
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
    is_modest: bool = False,
) -> "SparkSession":
    """A session with our settings, over which `conf` goes. Raises `JavaMissing` without a Java.

    On this machine a modest one, and this process with it, steps back for others that want the
    processor: for the broker, which may well be here, too.

    What Java and its workers print on standard error goes to `log`, if given: stack traces belong
    into a file, not on a terminal.
    """
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(fronted(find_java(os.environ)))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    is_local = _LOCAL.fullmatch(master) is not None
    if is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        if is_modest:
            os.nice(max(0, NICENESS - os.getpriority(os.PRIO_PROCESS, 0)))
        home = lean_home() if "SPARK_HOME" not in os.environ else None
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = session_settings(name, master, conf or {})
    if not is_local and not master.startswith("local-cluster"):
        settings = ship(settings)
    builder = SparkSession.builder
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    with _redirected(log):
        made = builder.getOrCreate()
    made.sparkContext.setLogLevel(settings["spark.log.level"])
    return made


def session_settings(name: str, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session: ours for this kind of master, then those that are given."""
    settings = {
        "spark.app.name": name,
        "spark.master": local_master(master),
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        # Numbers: with a unit, Spark refuses the first of them when it starts a worker.
        "spark.buffer.size": str(_BUFFER_BYTES),
        "spark.sql.execution.pandas.udf.buffer.size": str(_BUFFER_BYTES),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_ARROW_BYTES),
    }
    cores = _cores(master)
    if cores is not None:
        # A catalog in memory makes the folder of its tables at once, and that in the present one.
        warehouse = Path(tempfile.gettempdir()) / f"goqueue-spark-{getpass.getuser()}"
        settings |= {
            "spark.sql.shuffle.partitions": str(cores),
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": str(warehouse),
        }
    return settings | dict(conf)


def local_master(master: str) -> str:
    """The master with tasks that are tried again, which a plain `local[N]` does not do."""
    local = _LOCAL.fullmatch(master)
    if local is None or local[2] is not None:
        return master
    return f"local[{local[1] or 1},{_ATTEMPTS}]"


def _cores(master: str) -> int | None:
    local = _LOCAL.fullmatch(master)
    if local is None:
        return None
    return len(os.sched_getaffinity(0)) if local[1] == "*" else int(local[1] or 1)


@contextlib.contextmanager
def _redirected(log: Path | None) -> Iterator[None]:
    """Let whatever is started in the body write its standard error into a file."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
