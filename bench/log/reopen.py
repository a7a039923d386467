"""Opening a large log: after a clean stop, and after kill -9 of a process that was appending."""

import os
import shutil
from collections.abc import Iterator
from time import perf_counter

import msgspec

from bench.figure import Figure, Target
from bench.log.amounts import MIB, Amounts
from bench.log.append import LOG
from bench.log.writer import read_progress, start_writer
from goqueue.model import Flush, LogSettings, Offset
from goqueue.runtime import LocalLog
from goqueue.storage import RecoveryReport, log_directory

__all__ = ["measure_reopen"]

_SETTINGS = LogSettings(flush=Flush.INTERVAL)
# The victim is killed past the first segment boundary after this much, so the log is longer, and
# the kill does not always come at the same place in a segment.
_KILLED_AFTER_BYTES = 160 * MIB


class _Reopened(msgspec.Struct, frozen=True):
    """How long opening took, and what was there."""

    seconds: float
    size: int
    end: Offset
    report: RecoveryReport


def measure_reopen(root: str, amounts: Amounts) -> Iterator[Figure]:
    folder = os.path.join(root, "reopen")
    writer = start_writer(folder, amounts.reopen_bytes)
    committed = [progress.committed for progress in read_progress(writer)][-1]
    assert writer.wait() == 0
    warm = _reopen(folder)
    assert warm.end == committed
    _forget_pages(folder)
    cold = _reopen(folder)
    yield _figure("reopen_clean", warm, Target(below=0.5))
    yield _figure("reopen_clean_cold", cold, Target(below=0.5))
    acknowledged = _kill_while_appending(folder, amounts)
    killed = _reopen(folder)
    assert killed.end >= acknowledged, "an acknowledged record was lost"
    yield _figure("reopen_killed", killed, Target(below=3.0))
    acknowledged = _kill_while_appending(folder, amounts)
    _forget_pages(folder)
    killed = _reopen(folder)
    assert killed.end >= acknowledged, "an acknowledged record was lost"
    yield _figure("reopen_killed_cold", killed, Target(below=3.0))
    shutil.rmtree(folder)


def _kill_while_appending(folder: str, amounts: Amounts) -> int:
    """Append more in another process and kill it half way; the last offset it acknowledged."""
    size = min(_KILLED_AFTER_BYTES, amounts.reopen_bytes)
    writer = start_writer(folder, 2 * size)
    acknowledged = 0
    for progress in read_progress(writer):
        acknowledged = progress.committed
        if progress.appended_bytes >= size:
            writer.kill()
    assert writer.wait() != 0, "the process ended before it was killed"
    return acknowledged


def _reopen(folder: str) -> _Reopened:
    began = perf_counter()
    log = LocalLog(folder, LOG, _SETTINGS)
    seconds = perf_counter() - began
    with log:
        return _Reopened(seconds, log.log.size, log.log.end, log.report)


def _forget_pages(folder: str) -> None:
    """Drop the log from the page cache, as after a reboot."""
    os.sync()
    files = os.path.join(folder, log_directory(LOG))
    for name in os.listdir(files):
        descriptor = os.open(os.path.join(files, name), os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _figure(name: str, reopened: _Reopened, target: Target) -> Figure:
    cut = reopened.report.cut
    return Figure(
        figure=name,
        value=round(reopened.seconds, 4),
        unit="s",
        target=target,
        details={
            "log_mib": reopened.size // MIB,
            "scanned_bytes": reopened.report.scanned_bytes,
            "cut_bytes": cut.size if cut else 0,
            "rebuilt_indexes": len(reopened.report.rebuilt_indexes),
            "page_cache": "cold" if name.endswith("cold") else "warm",
        },
    )
