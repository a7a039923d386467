"""From nothing to a first message, and what set-up of a clone takes.

Both use the machine's package index or its cache of wheels: the network is part of the figure.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Detail, Figure, Target
from bench.runner import ROOT, TINY

__all__ = ["measure_first_message", "measure_setup"]

_MIB = 1 << 20


def measure_first_message(folder: str, _scale: float) -> Iterator[Figure]:
    """`pip install` of a wheel into an empty environment, a node, a message and its reader."""
    wheels, environment = Path(folder) / "wheels", Path(folder) / "environment"
    _run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        wheels,
        ROOT,
    )
    (wheel,) = wheels.glob("*.whl")
    _run(sys.executable, "-m", "venv", environment)
    seconds: dict[str, Detail] = {}
    began = time.perf_counter()

    def note(step: str) -> None:
        seconds[step] = round(time.perf_counter() - began, 1)

    python, program = environment / "bin/python", environment / "bin/goqueue"
    size_before = _size(environment)
    _run(python, "-m", "pip", "install", "--disable-pip-version-check", wheel)
    note("installed_s")
    dev = [str(program), "dev", "--port", "0", "--data-dir", f"{folder}/data"]
    node = subprocess.Popen(dev, stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        url = node.stdout.readline().split()[-1]
        note("serving_s")
        _run(program, "-s", url, "topic", "create", "orders")
        _run(program, "-s", url, "produce", "orders", "-m", "hello")
        note("published_s")
        read = _run(program, "-s", url, "consume", "orders", "-g", "billing", "--values")
        note("consumed_s")
        assert read == "hello\n"
    finally:
        node.terminate()
        node.wait()
    seconds["wheel_mib"] = round(wheel.stat().st_size / _MIB, 1)
    seconds["installed_mib"] = round((_size(environment) - size_before) / _MIB)
    yield Figure(
        figure="first_message",
        value=float(str(seconds["consumed_s"])),
        unit="s",
        target=Target(below=30),
        details=seconds,
    )


def measure_setup(folder: str, scale: float) -> Iterator[Figure]:
    """`make setup` of a clone with an empty home, so without a cache of packages."""
    if scale <= TINY:
        return
    clone, home = Path(folder) / "clone", Path(folder) / "home"
    home.mkdir()
    _run("git", "clone", "--quiet", ROOT, clone)
    before = _size(clone)
    began = time.perf_counter()
    _run("make", "-C", clone, "setup", home=home)
    seconds = round(time.perf_counter() - began, 1)
    mebibytes = round((_size(clone) - before) / _MIB)
    details: dict[str, Detail] = {"installer": "uv" if shutil.which("uv") else "pip"}
    yield Figure(figure="setup", value=seconds, unit="s", target=Target(below=90), details=details)
    yield Figure(figure="setup_size", value=mebibytes, unit="MiB", target=Target(below=600))


def _run(*command: str | Path, home: Path | None = None) -> str:
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    if home is not None:
        kept["HOME"] = str(home)
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        env=kept,
        cwd=ROOT,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _size(folder: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(
        os.lstat(Path(where) / name).st_blocks * 512
        for where, _, names in os.walk(folder)
        for name in names
    )
