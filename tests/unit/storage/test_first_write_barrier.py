"""A new log in new directories: a power cut takes none of what was acknowledged in it."""

import errno

import pytest

from goqueue.storage import POINT_FILE
from tests.unit.storage.driven_log import DIRECTORY, DrivenLog, path_of
from tests.unit.storage.memory_files import Killed, MemoryFiles

PARENTS = ["", "logs", "logs/orders"]


def assert_parents_are_synced_before_the_point(calls: list[tuple[str, str]]) -> None:
    point = calls.index(("create", path_of(POINT_FILE)))
    synced = [path for call, path in calls[:point] if call == "sync_directory"]
    assert [path for path in synced if path in PARENTS] == PARENTS


def test_the_directories_above_a_new_log_are_synced_before_its_recovery_point_exists() -> None:
    files = MemoryFiles()
    DrivenLog(files).put(b"first")
    made = [path for call, path in files.faults.calls if call == "make_directory"]
    assert made == [*PARENTS[1:], DIRECTORY]
    assert_parents_are_synced_before_the_point(files.faults.calls)


def test_directories_that_a_killed_process_made_are_synced_by_the_next() -> None:
    operations = 0
    while True:
        files = MemoryFiles()
        files.faults.operations_left = operations
        try:
            DrivenLog(files).put(b"first")
        except Killed:
            operations += 1
        else:
            break
        files.faults.operations_left = None
        is_promised = path_of(POINT_FILE) in files.copy()
        files.faults.calls.clear()

        again = DrivenLog(files)
        assert again.put(b"goes on").first == again.log.start + len(again.read_all()) - 1

        if not is_promised:
            assert_parents_are_synced_before_the_point(files.faults.calls)
        assert again.opened.report.is_clean
    assert operations > 8


@pytest.mark.parametrize("path", PARENTS)
def test_a_log_whose_directories_cannot_be_made_durable_takes_nothing(path: str) -> None:
    files = MemoryFiles()
    files.faults.broken["sync_directory", path or "logs"] = errno.EIO
    driven = DrivenLog(files)
    driven.put(b"lost")
    assert driven.log.failure is not None
    assert driven.log.high_watermark == 0
    assert path_of(POINT_FILE) not in files.copy()


def test_the_directories_above_a_log_with_a_promise_are_not_synced_again() -> None:
    files = MemoryFiles()
    DrivenLog(files).put(b"first")
    files.faults.calls.clear()
    DrivenLog(files).put(b"second")
    synced = [path for call, path in files.faults.calls if call == "sync_directory"]
    assert not set(synced) & set(PARENTS)
