"""How long a command takes that asks no server: the start of Python, the imports, the text.

The raw figure is the same Python that runs nothing, in turn with the command, because both depend
on what else the machine does.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from bench.figure import Figure, Target

__all__ = ["measure_startup"]

_COMMANDS = {
    "help": (("--help",), Target(below=100)),
    "version": (("--version",), None),
    "topic_help": (("topic", "create", "--help"), None),
    "completion": (("completion", "bash"), None),
}
_NOTHING = ("-I", "-c", "")


def measure_startup(folder: str, scale: float) -> Iterator[Figure]:
    rounds = max(3, int(40 * scale))
    environment = {**os.environ, "HOME": folder}
    for name, (arguments, target) in _COMMANDS.items():
        ours: list[float] = []
        raw: list[float] = []
        for _ in range(rounds):
            raw.append(_milliseconds(_NOTHING, environment))
            ours.append(_milliseconds(("-m", "goqueue.cli", *arguments), environment))
        yield Figure(
            figure=f"cli_{name}_ms",
            value=round(statistics.median(ours), 1),
            unit="ms",
            raw=round(statistics.median(raw), 1),
            target=target,
            details={"rounds": rounds, "fastest_ms": round(min(ours), 1)},
        )


def _milliseconds(arguments: Sequence[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    return (time.perf_counter() - started) * 1000
