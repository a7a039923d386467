"""The log against raw system calls on the same bytes in the same run."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bench.figure import Figure
from bench.log import amounts
from bench.log.append import measure_append
from bench.log.disk import measure_disk
from bench.log.memory import measure_memory
from bench.log.passes import measure_passes
from bench.log.read import measure_read
from bench.log.reopen import measure_reopen
from bench.log.scan import measure_scan
from bench.runner import FULL, QUICK, TINY, Measure, Suite
from goqueue import records

__all__ = ["SUITE"]

_TWINS = ("append", "read", "scan")
_AMOUNTS = {FULL: amounts.FULL, QUICK: amounts.QUICK, TINY: amounts.TINY}
_OPTIONS = {QUICK: ["--quick"], TINY: ["--tiny"]}

_decoder = msgspec.json.Decoder(Figure)


def _with_amounts(measure: Callable[[str, amounts.Amounts], Iterator[Figure]]) -> Measure:
    return lambda folder, scale: measure(folder, _AMOUNTS[scale].here())


def _measure_interpreted(folder: str, scale: float) -> Iterator[Figure]:
    """The same figures from a process that does not load the extensions."""
    if not records.COMPILED:
        return
    only = [option for name in _TWINS for option in ("--only", name)]
    command = [sys.executable, str(Path(__file__).parent / "run.py"), *only, "--dir", folder]
    twin = subprocess.Popen(
        [*command, *_OPTIONS.get(scale, [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "GOQUEUE_NO_EXTENSIONS": "1"},
    )
    assert twin.stdout is not None
    for line in twin.stdout:
        yield _decoder.decode(line)
    if twin.wait():
        raise RuntimeError("the interpreted run failed")


SUITE = Suite(
    words="Measure the log against raw system calls on the same bytes in the same run.",
    measures={
        "disk": _with_amounts(measure_disk),
        "append": _with_amounts(measure_append),
        "read": _with_amounts(measure_read),
        "scan": _with_amounts(measure_scan),
        "passes": _with_amounts(measure_passes),
        "reopen": _with_amounts(measure_reopen),
        "memory": _with_amounts(measure_memory),
        "interpreted": _measure_interpreted,
    },
    has_broker=False,
)
