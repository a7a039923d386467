"""Resident memory of a process that appends much more than it may keep."""

import os
import shutil
from collections.abc import Iterator

from bench.figure import Figure, Target
from bench.log.amounts import MIB, Amounts
from bench.log.writer import Progress, read_progress, start_writer

__all__ = ["measure_memory"]

# Indexes of up to 64 sealed segments stay in memory, about half a MiB each: bounded, and reached
# after 4 GiB. What grows beyond that is a leak.
_GROWTH_MIB_MAX = 48
_SHOWN = 20


def measure_memory(root: str, amounts: Amounts) -> Iterator[Figure]:
    folder = os.path.join(root, "memory")
    writer = start_writer(folder, amounts.memory_bytes)
    samples = list(read_progress(writer))
    assert writer.wait() == 0
    shutil.rmtree(folder)
    last = samples[-1]
    yield Figure(
        figure="memory_growth",
        value=_growth_mib(samples, 0.1),
        unit="MiB",
        target=Target(below=_GROWTH_MIB_MAX),
        details={
            "appended_mib": last.appended_bytes // MIB,
            "from_half_mib": _growth_mib(samples, 0.5),
            "highest_mib": max(sample.resident_bytes for sample in samples) // MIB,
            "samples_mib": tuple(
                sample.resident_bytes // MIB
                for sample in samples[:: max(len(samples) // _SHOWN, 1)]
            ),
        },
    )


def _growth_mib(samples: list[Progress], share: float) -> float:
    """Growth from the moment when this share was appended until the end."""
    goal = samples[-1].appended_bytes * share
    begin = next(sample for sample in samples if sample.appended_bytes >= goal)
    return round((samples[-1].resident_bytes - begin.resident_bytes) / MIB, 1)
