"""A node with many logs: making them, opening them again, and what each costs in memory.

Run by itself: `python -m bench.log.many_logs --help`. Each step is a process of its own, so that
memory is that of the logs alone and a killed process leaves what a killed process leaves. One JSON
line per figure goes to stdout.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import click
import msgspec

from bench.figure import Figure, Target
from goqueue.log import Log
from goqueue.model import (
    Create,
    Created,
    Delete,
    Deleted,
    DiskEvent,
    Effect,
    LogId,
    LogSettings,
    Message,
    Reshape,
    Synced,
)
from goqueue.records import build
from goqueue.runtime import OsFileSystem, read_clock
from goqueue.storage import Storage

__all__ = ["main", "measure_many_logs"]

ROOT = Path(__file__).resolve().parents[2]
_TOPICS = 10
_SETTINGS = LogSettings()


class _Step(msgspec.Struct, frozen=True):
    """What one process did: how long it took, and by how much it grew."""

    seconds: float
    grown_kib: int
    descriptors: int


def measure_many_logs(root: str, count: int) -> Iterator[Figure]:
    made = _run(root, count, "create")
    yield _time("many_logs_create", made, count, Target(below=10.0))
    yield _memory("many_logs_memory_created", made, count)
    opened = _run(root, count, "open")
    yield _time("many_logs_open_empty", opened, count, Target(below=4.0))
    yield _memory("many_logs_memory_opened", opened, count)
    yield _time("many_logs_first_write", _run(root, count, "write"), count, None)
    opened = _run(root, count, "open")
    yield _time("many_logs_open_killed", opened, count, Target(below=4.0))
    yield _memory("many_logs_memory_one_record", opened, count)
    yield _time("many_logs_stop", _run(root, count, "stop"), count, None)
    yield _time("many_logs_open_stopped", _run(root, count, "open"), count, Target(below=4.0))
    yield _time("many_logs_delete", _run(root, count, "delete"), count, None)


def _time(name: str, step: _Step, count: int, target: Target | None) -> Figure:
    return Figure(
        figure=name,
        value=round(step.seconds, 3),
        unit="s",
        target=target,
        details={"logs": count, "us_per_log": round(step.seconds / count * 1e6, 1)},
    ).judged()


def _memory(name: str, step: _Step, count: int) -> Figure:
    return Figure(
        figure=name,
        value=round(step.grown_kib / count, 2),
        unit="KiB/log",
        target=Target(below=15.0),
        details={"logs": count, "descriptors": step.descriptors},
    ).judged()


def _run(root: str, count: int, what: str) -> _Step:
    """One step in a process of its own, which kills itself at the end unless it stops cleanly."""
    options = ["--logs", str(count), "--dir", root, "--step", what]
    command = [sys.executable, "-m", "bench.log.many_logs", *options]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False, cwd=ROOT)
    if ran.returncode not in {0, -signal.SIGKILL}:
        raise click.ClickException(f"{what} ended with {ran.returncode}")
    return msgspec.json.decode(ran.stdout, type=_Step)


def _step(root: str, count: int, what: str) -> None:
    logs = [LogId(f"topic-{number % _TOPICS}", number // _TOPICS) for number in range(count)]
    before_kib = _resident_kib()
    storage = Storage(OsFileSystem(root))
    effects = _effects(storage, logs, what)
    began = perf_counter()
    match what:
        case "create":
            _expect(Created, storage.carry_out(effects), count)
        case "open":
            for log in logs:
                storage.open(log, _SETTINGS)
        case "write" | "stop":
            _expect(Synced, storage.carry_out(effects), count)
            if what == "stop":
                began = perf_counter()
                storage.close()
        case "delete":
            _expect(Deleted, storage.carry_out(effects), count)
            while storage.has_background_work:
                storage.work()
    seconds = perf_counter() - began
    descriptors = len(os.listdir("/proc/self/fd"))
    took = _Step(seconds, _resident_kib() - before_kib, descriptors)
    sys.stdout.buffer.write(msgspec.json.encode(took))
    sys.stdout.flush()
    if what != "stop":
        os.kill(os.getpid(), signal.SIGKILL)


def _effects(storage: Storage, logs: list[LogId], what: str) -> list[Effect]:
    """What is to be done at once, to logs that are open if they have to be."""
    if what == "create":
        return [Reshape(log=log, change=Create(_SETTINGS)) for log in logs]
    effects: list[Effect] = []
    if what == "open":
        return effects
    for log in logs:
        machine = Log(log, _SETTINGS, storage.open(log, _SETTINGS).state)
        if what == "delete":
            effects.append(Reshape(log=log, change=Delete()))
        else:
            effects += machine.append(build([Message(value=b"first")]), read_clock()).effects
    return effects


def _expect(kind: type[DiskEvent], events: list[DiskEvent], count: int) -> None:
    assert sum(isinstance(event, kind) for event in events) == count, events[:3]


def _resident_kib() -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@click.command()
@click.option("--logs", "count", default=10_000, show_default=True)
@click.option("--dir", "parent", type=click.Path(file_okay=False), help="Where to put the files.")
@click.option("--step", hidden=True)
def main(count: int, parent: str | None, step: str | None) -> None:
    """Make, open, write, stop and delete many logs."""
    if step is not None:
        assert parent is not None
        _step(parent, count, step)
        return
    folder = parent or str(ROOT / "build")
    os.makedirs(folder, exist_ok=True)
    root = tempfile.mkdtemp(prefix="goqueue-bench-", dir=folder)
    try:
        for figure in measure_many_logs(root, count):
            click.echo(msgspec.json.encode(figure).decode())
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
