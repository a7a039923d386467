"""Logs what a node does: its recovery, what it reports, and the state of its storage.

The core has no log: it returns `Report` effects, and keeps in `StorageHealth` what the disk does
not serve. This module turns both into events of the log.

Cost: one comparison after each turn while nothing changes.
"""

import threading
import time
from collections.abc import Callable

from goqueue.broker import StorageHealth
from goqueue.model import LogId, NodeRecovered, NodeReport
from goqueue.model.requests import DamagedOffsets
from goqueue.runtime.event_log import EventLog
from goqueue.storage import RecoveryReport

__all__ = ["NodeLog"]

_RANGES_MAX = 100
_PROGRESS_S = 10.0


class NodeLog:
    """The log of one life of a node."""

    def __init__(
        self,
        log: EventLog,
        *,
        previous_end: str,
        free_bytes: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`previous_end` is how the life before ended; `free_bytes` asks the volume."""
        self._log = log
        self._recovery = _RecoveryLog(log, previous_end, monotonic)
        self._storage = _StorageLog(log, free_bytes, monotonic)
        # Called in the thread that opens a log.
        self.opened = self._recovery.opened
        # Called after each turn.
        self.check = self._storage.check

    def report(self, report: NodeReport) -> None:
        """Log what the core reports."""
        if isinstance(report, NodeRecovered):
            self._recovery.recovered(report)
        else:
            self._log.report(report)


class _RecoveryLog:
    """Adds up what openings report, until the node serves."""

    def __init__(
        self,
        log: EventLog,
        previous_end: str,
        monotonic: Callable[[], float],
    ) -> None:
        self._log = log
        self._previous_end = previous_end
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._began = self._told = monotonic()
        self._logs_opened = 0
        self._scanned_bytes = 0
        self._removed_bytes = 0

    def opened(self, log: LogId, report: RecoveryReport) -> None:
        """A log was opened; called in the thread that did it."""
        with self._guard:
            self._logs_opened += 1
            self._scanned_bytes += report.scanned_bytes
            self._removed_bytes += 0 if report.cut is None else report.cut.size
            now = self._monotonic()
            if is_slow := now - self._told >= _PROGRESS_S:
                self._told = now
        self._report_cut(log, report)
        if is_slow:
            self._log(
                "recovery_progress",
                logs_opened=self._logs_opened,
                scanned_bytes=self._scanned_bytes,
                elapsed_s=round(now - self._began, 3),
            )

    def _report_cut(self, log: LogId, report: RecoveryReport) -> None:
        cut = report.cut
        if cut is None:
            return
        if cut.has_good_records:
            self._log(
                "log_tail_cut",
                log=str(log),
                segment=cut.segment,
                position=cut.position,
                removed_bytes=cut.size,
                reason=cut.reason,
                copy=cut.kept or f"none: {cut.not_kept}",
            )
        else:
            self._log(
                "torn_write_removed",
                log=str(log),
                segment=cut.segment,
                position=cut.position,
                removed_bytes=cut.size,
                reason=cut.reason,
            )

    def recovered(self, recovered: NodeRecovered) -> None:
        """The node serves."""
        self._log.report(
            recovered,
            recovery_s=round(self._monotonic() - self._began, 3),
            logs_opened=self._logs_opened,
            scanned_bytes=self._scanned_bytes,
            removed_bytes=self._removed_bytes,
            previous_end=self._previous_end,
        )


class _StorageLog:
    """Logs each change once."""

    def __init__(
        self,
        log: EventLog,
        free_bytes: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._log = log
        self._free_bytes = free_bytes
        self._monotonic = monotonic
        self._version = 0
        self._full_since: float | None = None
        self._damaged: dict[DamagedOffsets, None] = {}
        self._failed: dict[LogId, str] = {}

    def check(self, storage: StorageHealth) -> None:
        """Log what changed since the last call."""
        if storage.version == self._version:
            return
        self._version = storage.version
        self._check_space(storage)
        self._check_damage(dict.fromkeys(storage.damaged(_RANGES_MAX)))
        self._check_failures(storage.failed)

    def _check_space(self, storage: StorageHealth) -> None:
        full = storage.full
        if full and self._full_since is None:
            self._full_since = self._monotonic()
            named = tuple(map(str, full))
            self._log("disk_full", logs=named, free_bytes=self._free_bytes())
        elif self._full_since is not None and not full:
            full_s = round(self._monotonic() - self._full_since, 3)
            self._full_since = None
            self._log("disk_free", full_s=full_s)

    def _check_damage(self, damaged: dict[DamagedOffsets, None]) -> None:
        for each in damaged:
            if each not in self._damaged:
                self._log(
                    "records_damaged",
                    log=str(each.log),
                    first=each.first,
                    next_offset=each.below,
                    reason=each.reason,
                )
        if self._damaged and not damaged:
            self._log("damage_gone")
        self._damaged = damaged

    def _check_failures(self, failed: dict[LogId, str]) -> None:
        for log, reason in failed.items():
            if log not in self._failed:
                self._log("log_failed", log=str(log), reason=reason)
        self._failed = dict(failed)
