"""Distributions of this project, and empty environments to install them into.

Nothing here reaches into the environment that runs the tests: what an environment gets is what pip
finds by the metadata of our wheel, in a folder of wheels. For the Python that runs the tests these
are packed from what is installed, without a network; for another Python the files that the lock
file names are downloaded once and kept below `build`.
"""

import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = [
    "OWN_VERSION",
    "ROOT",
    "Environment",
    "IndexUnreachable",
    "build_sdist",
    "build_wheel",
    "find_python",
    "wheels_for",
]

ROOT = Path(__file__).resolve().parents[2]
OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SECONDS_MAX = 600
_IGNORED = shutil.ignore_patterns(
    ".git", ".venv", "build", "data", "dist", "*.egg-info", "*.so", "__pycache__", ".*_cache"
)
_HERE = [sys.executable, "-m"]


class IndexUnreachable(Exception):
    """Wheels for another Python are not here, and could not be downloaded."""


class Environment:
    """A virtual environment with nothing in it, not even pip."""

    def __init__(self, folder: Path, python: Path) -> None:
        _run([str(python), "-m", "venv", "--without-pip", str(folder)])
        self.python = folder / "bin" / "python"
        self.program = folder / "bin" / "goqueue"

    def install(self, wheel: Path, wheels: Path) -> None:
        """Install a wheel with all that it requires, from a folder of wheels."""
        pip = [*_HERE, "pip", "--python", str(self.python), "install", "--no-index", "--quiet"]
        _run([*pip, "--no-compile", "--find-links", str(wheels), str(wheel)])

    def compile(self, sdist: Path, folder: Path) -> Path:
        """A wheel as pip builds it on a user's machine, with build tools from the index."""
        pip = [*_HERE, "pip", "--python", str(self.python), "wheel", "--no-deps", "--quiet"]
        _run([*pip, "--wheel-dir", str(folder), str(sdist)])
        return next(folder.glob("*.whl"))


def build_sdist(folder: Path) -> Path:
    """The source distribution of this tree, built in a copy of it."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=_IGNORED)
    return _build(tree, "--sdist", has_extensions=False)


def build_wheel(sdist: Path, folder: Path, *, has_extensions: bool, anew: bool = False) -> Path:
    """A wheel from a source distribution, as `python -m build` makes it.

    Unless `anew`, the compiler is spared: set-up has compiled the same sources, and its results
    are put where the build looks for those of a build before.
    """
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    tree = next(folder.iterdir())
    if has_extensions and not anew:
        shutil.copytree(ROOT / "build" / "cython", tree / "build" / "cython")
        tag = f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
        for extension in (ROOT / "src").rglob("*.so"):
            copy = tree / "build" / tag / extension.relative_to(ROOT / "src")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(extension, copy)
    return _build(tree, "--wheel", has_extensions=has_extensions)


def find_python(version: str) -> Path | None:
    """A Python of this version that can run: on the PATH, or where pyenv and uv keep theirs."""
    if version == OWN_VERSION:
        return Path(sys.executable)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    folders += sorted(pyenv.glob(f"versions/{version}.*/bin"))
    folders += sorted((home / ".local/share/uv/python").glob(f"cpython-{version}.*/bin"))
    for folder in folders:
        python = folder / f"python{version}"
        # A shim of pyenv is there although its Python is not the chosen one, and fails.
        if (
            python.is_file()
            and not subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode
        ):
            return python
    return None


def wheels_for(version: str, folder: Path) -> Path:
    """A folder with the wheels of all that our distribution requires, for this Python."""
    names = sorted(_required())
    if version == OWN_VERSION:
        for name in names:
            _pack(importlib.metadata.distribution(name), folder)
        return folder
    return _download(version, names)


# ---- inside --------------------------------------------------------------------------------


def _build(tree: Path, kind: str, *, has_extensions: bool) -> Path:
    _run(
        [*_HERE, "build", "--no-isolation", kind, str(tree)],
        GOQUEUE_NO_EXTENSIONS="0" if has_extensions else "1",
    )
    return next((tree / "dist").iterdir())


def _run(command: list[str], **variables: str) -> None:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
    done = subprocess.run(
        command,
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


@cache
def _required() -> frozenset[str]:
    """The distributions that ours requires, and what they require, without any extra."""
    found: set[str] = set()
    wanted = ["goqueue"]
    while wanted:
        for text in importlib.metadata.requires(wanted.pop()) or ():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (
                requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            ):
                found.add(name)
                wanted.append(name)
    return frozenset(found)


def _pack(distribution: importlib.metadata.Distribution, folder: Path) -> None:
    """An installed distribution as a wheel again."""
    tags = re.findall(r"^Tag: (.*)$", distribution.read_text("WHEEL") or "", re.MULTILINE)
    stem = f"{distribution.name.replace('-', '_')}-{distribution.version}"
    records = [(str(entry), data) for entry, data in _contents(distribution)]
    home = next(name for name, _ in records if name.endswith(".dist-info/METADATA"))
    rows = "".join(f"{name},,\n" for name, _ in records)
    with zipfile.ZipFile(folder / f"{stem}-{tags[0]}.whl", "w") as wheel:
        for name, data in records:
            wheel.writestr(name, data)
        wheel.writestr(home.replace("METADATA", "RECORD"), rows)


def _contents(
    distribution: importlib.metadata.Distribution,
) -> Iterator[tuple[importlib.metadata.PackagePath, bytes]]:
    """What came in the wheel: no scripts, which pip made, and no notes of an installer."""
    for entry in distribution.files or ():
        is_note = entry.name in {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
        if ".." not in entry.parts and entry.suffix != ".pyc" and not is_note:
            yield entry, Path(str(distribution.locate_file(entry))).read_bytes()


def _download(version: str, names: list[str]) -> Path:
    """The locked wheels of these names for another Python, checked by their hashes."""
    locked = (ROOT / "requirements.lock").read_text()
    pins = [
        pin
        for pin in re.findall(r"^[a-z0-9.-]+==.*?(?=^\S|\Z)", locked, re.MULTILINE | re.DOTALL)
        if pin.partition("==")[0] in names
    ]
    text = "".join(pins)
    seal = hashlib.sha256(f"{platform.platform()}{text}".encode()).hexdigest()[:12]
    folder = ROOT / "build" / "wheels" / f"{version}-{seal}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_suffix(f".{os.getpid()}")
    unfinished.mkdir(parents=True)
    (unfinished / "requirements.lock").write_text(text)
    command = [*_HERE, "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--python-version", version, "--dest", str(unfinished), "--require-hashes"]
    try:
        _run([*command, "--requirement", str(unfinished / "requirements.lock")])
    except AssertionError as failed:
        shutil.rmtree(unfinished)
        raise IndexUnreachable(str(failed)) from failed
    unfinished.replace(folder)
    return folder
