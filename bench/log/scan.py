"""Scanning slices into columns, every sum checked, against one bare sum over the same bytes."""

import os
from collections.abc import Iterator
from time import perf_counter

from bench.figure import Figure, Rounds, Target
from bench.log.amounts import MIB, Amounts
from bench.log.append import VALUE_SIZES
from bench.log.read import StoredLog, read_slices
from goqueue import records
from goqueue.runtime import LocalLog

__all__ = ["measure_scan"]

_TARGETS = {"1KiB": Target(at_least=1.5)}
_HELD_BYTES = 128 * MIB


def measure_scan(root: str, amounts: Amounts) -> Iterator[Figure]:
    for size_name, value_size in VALUE_SIZES.items():
        stored = StoredLog(
            os.path.join(root, "scan"), value_size, min(amounts.append_bytes, _HELD_BYTES)
        )
        with stored.fill() as log:
            slices = list(read_slices(log, stored.record_size))
            in_memory, from_log = Rounds(), Rounds()
            for _ in range(amounts.read_rounds):
                raw_s = _sum(slices)
                in_memory.add(_scan(iter(slices)), raw_s)
                from_log.add(_scan_log(log, stored.record_size), raw_s)
        stored.remove()
        target = _TARGETS.get(size_name)
        yield _figure(f"scan_{size_name}", stored, in_memory, target)
        yield _figure(f"scan_{size_name}_with_read", stored, from_log, target)


def _scan(slices: Iterator[memoryview]) -> float:
    began = perf_counter()
    for data in slices:
        assert records.scan(data).end == len(data)
    return perf_counter() - began


def _scan_log(log: LocalLog, record_size: int) -> float:
    return _scan(read_slices(log, record_size))


def _sum(slices: list[memoryview]) -> float:
    began = perf_counter()
    for data in slices:
        records.crc32c(data)
    return perf_counter() - began


def _figure(name: str, stored: StoredLog, rounds: Rounds, target: Target | None) -> Figure:
    return Figure(
        figure=name,
        value=round(stored.size / rounds.ours_s / 1e9, 3),
        unit="GB/s",
        raw=round(stored.size / rounds.raw_s / 1e9, 3),
        ratio=rounds.ratio,
        target=target,
        details={
            "ratios": rounds.ratios,
            "mib": stored.size // MIB,
            "raw": "one CRC-32C over each slice",
        },
    )
