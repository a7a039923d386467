"""What the disk does without us: the numbers that every other figure rests on."""

import os
import statistics
from collections.abc import Iterator
from random import Random
from time import perf_counter

from bench.figure import Figure
from bench.log.amounts import MIB, Amounts

__all__ = ["measure_disk"]

_PAGE = 4096


def measure_disk(root: str, amounts: Amounts) -> Iterator[Figure]:
    path = os.path.join(root, "disk")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield _sequential(descriptor, amounts.disk_bytes)
        yield _cached_read(descriptor, amounts.disk_bytes)
        yield _small_syncs(descriptor, amounts.small_syncs)
    finally:
        os.close(descriptor)
        os.unlink(path)


def _sequential(descriptor: int, size: int) -> Figure:
    block = Random(0).randbytes(MIB)
    began = perf_counter()
    for _ in range(size // MIB):
        os.write(descriptor, block)
    written_s = perf_counter() - began
    os.fdatasync(descriptor)
    seconds = perf_counter() - began
    return Figure(
        figure="disk_write",
        value=round(size / seconds / 1e6, 1),
        unit="MB/s",
        details={
            "what": "1 MiB writes, one fdatasync at the end",
            "page_cache_mb_per_s": round(size / written_s / 1e6, 1),
        },
    )


def _cached_read(descriptor: int, size: int) -> Figure:
    began = perf_counter()
    for position in range(0, size, MIB):
        os.pread(descriptor, MIB, position)
    seconds = perf_counter() - began
    return Figure(
        figure="disk_cached_read",
        value=round(size / seconds / 1e9, 3),
        unit="GB/s",
        details={"what": "1 MiB preads from the page cache"},
    )


def _small_syncs(descriptor: int, count: int) -> Figure:
    block = bytes(_PAGE)
    took_ms: list[float] = []
    for _ in range(count):
        began = perf_counter()
        os.write(descriptor, block)
        os.fdatasync(descriptor)
        took_ms.append((perf_counter() - began) * 1e3)
    return Figure(
        figure="disk_sync",
        value=round(statistics.median(took_ms), 3),
        unit="ms",
        details={"what": "4 KiB appended and fdatasync", "slowest_ms": round(max(took_ms), 3)},
    )
