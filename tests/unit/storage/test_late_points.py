"""Recovery points are written after the events of a commit, at most every 200 ms per log."""

import errno

import msgspec
import pytest

from goqueue.log import Log
from goqueue.model import (
    MILLISECOND,
    Delete,
    Effect,
    Flush,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Reshape,
    Timestamp,
)
from goqueue.records import build
from goqueue.storage import POINT_FILE, Storage, log_directory, read_point
from tests.unit.storage.driven_log import LOG, SMALL, DrivenLog
from tests.unit.storage.memory_files import MemoryFiles

DELAY_NS = 200 * MILLISECOND
LARGE = msgspec.structs.replace(SMALL, segment_bytes=1_000_000)


class Shop:
    """Logs of one storage, each with one record and its recovery point; the test moves the clock.

    Unlike in a `DrivenLog`, no recovery point is written unless the test asks for it.
    """

    def __init__(self, *logs: LogId, settings: LogSettings = LARGE) -> None:
        self.files = MemoryFiles()
        self.ticks = 0
        self.storage = Storage(self.files, ticks=lambda: self.ticks)
        self.logs = {
            log: Log(log, settings, self.storage.open(log, settings).state) for log in logs
        }
        for log in logs:
            self.put(log)
        self.pass_time(DELAY_NS)
        while self.storage.next_point_at is not None:
            self.storage.save_points()
        self.files.faults.calls.clear()

    @property
    def now(self) -> Now:
        return Now(Instant(self.ticks), Timestamp(self.ticks))

    def pass_time(self, nanoseconds: int) -> None:
        self.ticks += nanoseconds

    def carry_out(self, effects: list[Effect], log: LogId = LOG) -> None:
        while effects:
            events = self.storage.carry_out(effects)
            effects = [
                effect for event in events for effect in self.logs[log].handle(event, self.now)
            ]

    def put(self, log: LogId = LOG) -> None:
        appended = self.logs[log].append(build([Message(value=b"value")]), self.now)
        self.carry_out(list(appended.effects), log)

    def point(self, log: LogId = LOG) -> int:
        """The offset that the recovery point on disk names."""
        found = read_point(self.files.copy()[f"{log_directory(log)}/{POINT_FILE}"])
        assert found is not None
        return found.offset

    def saves(self) -> int:
        return self.files.faults.count("write", POINT_FILE)


def test_a_point_is_written_200_ms_after_its_sync_and_not_before() -> None:
    shop = Shop(LOG)
    shop.put()
    shop.pass_time(DELAY_NS - 1)
    shop.storage.save_points()
    assert (shop.point(), shop.saves()) == (1, 0)

    shop.pass_time(1)
    shop.storage.save_points()

    assert (shop.point(), shop.saves()) == (2, 1)
    assert shop.storage.next_point_at is None


def test_many_commits_of_a_log_share_one_point_and_it_is_that_of_the_last() -> None:
    shop = Shop(LOG)
    for _ in range(50):
        shop.put()
        shop.storage.save_points()
        shop.pass_time(10 * MILLISECOND)
    shop.pass_time(DELAY_NS)
    shop.storage.save_points()

    assert shop.point() == 51
    assert shop.saves() == 3


def test_a_busy_log_is_not_put_off_by_its_own_commits() -> None:
    shop = Shop(LOG)
    shop.put()
    due_at = shop.storage.next_point_at
    shop.pass_time(DELAY_NS // 2)
    shop.put()
    assert shop.storage.next_point_at == due_at == shop.ticks + DELAY_NS // 2


def test_a_late_point_names_what_was_synced_and_nothing_that_was_written_since() -> None:
    shop = Shop(LOG, settings=msgspec.structs.replace(LARGE, flush=Flush.INTERVAL))
    shop.put()
    shop.pass_time(LARGE.flush_interval_ns)
    shop.carry_out(shop.logs[LOG].expire(shop.now))
    synced = shop.logs[LOG].watermarks.durable
    assert synced == 2
    shop.put()
    shop.pass_time(DELAY_NS)
    shop.files.faults.calls.clear()

    shop.storage.save_points()

    assert shop.files.faults.count("sync") == 0
    assert shop.point() == synced
    assert shop.logs[LOG].end == synced + 1


def test_a_truncation_is_not_undone_by_a_point_from_before_it() -> None:
    shop = Shop(LOG)
    for _ in range(5):
        shop.put()
    shop.carry_out(shop.logs[LOG].truncate(Offset(3)))
    shop.pass_time(DELAY_NS)
    shop.storage.save_points()

    assert shop.point() == 3
    again = DrivenLog(MemoryFiles(shop.files.copy()), LARGE)
    assert not again.log.damaged
    assert again.log.end == 3


def test_a_process_that_is_killed_before_the_point_is_written_loses_nothing() -> None:
    shop = Shop(LOG)
    for _ in range(20):
        shop.put()
    assert shop.point() == 1

    again = DrivenLog(MemoryFiles(shop.files.copy()), LARGE)

    assert len(again.read_all()) == 21
    assert again.opened.report.is_clean
    assert again.opened.report.scanned_bytes > 0


def test_a_clean_stop_leaves_no_point_behind() -> None:
    shop = Shop(LOG)
    for _ in range(20):
        shop.put()
    shop.storage.close()

    assert shop.point() == 21
    assert shop.storage.next_point_at is None
    assert DrivenLog(MemoryFiles(shop.files.copy()), LARGE).opened.report.scanned_bytes == 0


def test_a_call_writes_a_few_points_and_the_oldest_first() -> None:
    logs = [LogId("orders", number) for number in range(20)]
    shop = Shop(*logs)
    for log in reversed(logs):
        shop.put(log)
    shop.pass_time(DELAY_NS)

    shop.storage.save_points()

    assert [log for log in logs if shop.point(log) == 2] == logs[-8:]
    shop.storage.save_points()
    shop.storage.save_points()
    assert all(shop.point(log) == 2 for log in logs)
    assert shop.saves() == 20


def test_a_deleted_log_gets_no_point() -> None:
    shop = Shop(LOG)
    shop.put()
    shop.storage.carry_out([Reshape(log=LOG, change=Delete())])
    shop.pass_time(DELAY_NS)
    shop.storage.save_points()
    assert shop.saves() == 0


def test_a_failed_log_gets_no_point() -> None:
    shop = Shop(LOG)
    shop.put()
    shop.files.faults.broken["sync", ".log"] = errno.EIO
    shop.put()
    assert shop.logs[LOG].failure is not None
    shop.pass_time(DELAY_NS)
    shop.storage.save_points()
    assert shop.saves() == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_point_that_cannot_be_written_leaves_the_one_before_and_the_next_one_succeeds(
    number: int,
) -> None:
    shop = Shop(LOG)
    shop.put()
    shop.files.faults.broken["write", POINT_FILE] = number
    shop.pass_time(DELAY_NS)
    shop.storage.save_points()
    assert shop.point() == 1
    assert shop.storage.next_point_at is None
    shop.files.faults.broken.clear()

    shop.put()
    shop.pass_time(DELAY_NS)
    shop.storage.save_points()

    assert shop.point() == 3
    assert shop.logs[LOG].failure is None
