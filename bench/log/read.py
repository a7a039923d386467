"""Sequential reads of raw slices against os.pread of the same byte ranges, page cache warm.

Three cases: a log that this process wrote (sums are not checked again), a reopened log read for
the first time (every sum is checked), and read once more.
"""

import os
import shutil
from collections.abc import Iterator
from time import perf_counter

import msgspec

from bench.figure import Figure, Rounds, Target
from bench.log.amounts import BATCH_RECORDS, MIB, SLICE_BYTES, Amounts
from bench.log.append import LOG, VALUE_SIZES, append_all, make_messages
from goqueue import records
from goqueue.model import Flush, LogSettings, Offset
from goqueue.runtime import LocalLog
from goqueue.storage import log_directory, segment_name

__all__ = ["StoredLog", "measure_read", "read_slices"]

_TARGET = Target(ratio_at_least=0.8)
_SETTINGS = LogSettings(flush=Flush.INTERVAL)


class StoredLog:
    """A log on disk whose records are all of one size, so that positions follow from offsets."""

    def __init__(self, root: str, value_size: int, size: int) -> None:
        self._root = root
        self._template = records.build(make_messages(value_size))
        self.record_size = len(self._template) // BATCH_RECORDS
        self._batches = max(size // len(self._template), 1)
        self.size = self._batches * len(self._template)

    def fill(self) -> LocalLog:
        """Write it; the log stays open, as one written by this process."""
        log = self.open()
        append_all(log, (bytearray(self._template) for _ in range(self._batches)))
        return log

    def open(self) -> LocalLog:
        return LocalLog(self._root, LOG, _SETTINGS)

    def remove(self) -> None:
        shutil.rmtree(self._root)


def read_slices(log: LocalLog, record_size: int) -> Iterator[memoryview]:
    """Slice after slice; the next offset is reckoned, since all records are of one size."""
    offset = log.log.start
    while (data := log.read(offset, SLICE_BYTES)) is not None:
        yield data
        offset = Offset(offset + len(data) // record_size)


class _Range(msgspec.Struct, frozen=True):
    """What one slice was on disk."""

    descriptor: int
    size: int
    position: int


class _RawRanges:
    """The byte ranges behind the slices of a log, read without it."""

    def __init__(self, root: str, log: LocalLog, record_size: int) -> None:
        folder = os.path.join(root, log_directory(LOG))
        bases = [segment.base for segment in log.log.segments]
        self._descriptors = {
            base: os.open(os.path.join(folder, segment_name(base)), os.O_RDONLY) for base in bases
        }
        self._ranges: list[_Range] = []
        offset = 0
        for data in read_slices(log, record_size):
            base = max(known for known in bases if known <= offset)
            position = (offset - base) * record_size
            self._ranges.append(_Range(self._descriptors[base], len(data), position))
            offset += len(data) // record_size

    def read(self) -> float:
        """The seconds it takes; like a reader of slices, it holds one while it gets the next."""
        data = b""
        began = perf_counter()
        for place in self._ranges:
            data = os.pread(place.descriptor, place.size, place.position)
        seconds = perf_counter() - began
        assert not self._ranges or len(data) == self._ranges[-1].size
        return seconds

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)


def measure_read(root: str, amounts: Amounts) -> Iterator[Figure]:
    for size_name, value_size in VALUE_SIZES.items():
        folder = os.path.join(root, "read")
        stored = StoredLog(folder, value_size, amounts.append_bytes)
        with stored.fill() as log:
            raw = _RawRanges(folder, log, stored.record_size)
            rounds = Rounds()
            for number in range(amounts.read_rounds):
                _add_round(rounds, raw, log, stored.record_size, is_raw_first=number % 2 == 1)
        yield _figure(f"read_{size_name}_written", stored, rounds)
        first, again = Rounds(), Rounds()
        for number in range(amounts.read_rounds):
            is_raw_first = number % 2 == 1
            with stored.open() as log:
                _add_round(first, raw, log, stored.record_size, is_raw_first=is_raw_first)
                _add_round(again, raw, log, stored.record_size, is_raw_first=is_raw_first)
        raw.close()
        stored.remove()
        yield _figure(f"read_{size_name}_reopened_first", stored, first)
        yield _figure(f"read_{size_name}_reopened_again", stored, again)


def _add_round(
    rounds: Rounds, raw: _RawRanges, log: LocalLog, record_size: int, *, is_raw_first: bool
) -> None:
    if is_raw_first:
        raw_s = raw.read()
        rounds.add(_read_all(log, record_size), raw_s)
    else:
        ours_s = _read_all(log, record_size)
        rounds.add(ours_s, raw.read())


def _read_all(log: LocalLog, record_size: int) -> float:
    began = perf_counter()
    for _ in read_slices(log, record_size):
        pass
    return perf_counter() - began


def _figure(name: str, stored: StoredLog, rounds: Rounds) -> Figure:
    # The first pass over a reopened log does more than raw reads do: it is shown, not judged.
    is_first_pass = name.endswith("first")
    return Figure(
        figure=name,
        value=round(stored.size / rounds.ours_s / 1e9, 3),
        unit="GB/s",
        raw=round(stored.size / rounds.raw_s / 1e9, 3),
        ratio=rounds.ratio,
        target=None if is_first_pass else _TARGET,
        details={
            "ratios": rounds.ratios,
            "mib": stored.size // MIB,
            "sums": "checked" if is_first_pass else "checked before",
        },
    )
