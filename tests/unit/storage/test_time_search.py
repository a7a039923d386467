"""Searches by time: no event loop scans a segment, and a scan during which the log changes."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from goqueue.model import (
    Code,
    Create,
    Delete,
    Effect,
    Message,
    Offset,
    Refused,
    Reshape,
    Timestamp,
)
from goqueue.storage import ScanNeeded, Storage
from tests.unit.storage.driven_log import EPOCH_NS, LOG, SMALL, DrivenLog
from tests.unit.storage.memory_files import MemoryFiles

LARGE = msgspec.structs.replace(SMALL, segment_bytes=1 << 20, index_interval_bytes=200)
SEGMENT = "00000000000000000000.log"


def stamp(number: int) -> Timestamp:
    return Timestamp(EPOCH_NS - 1_000_000 + number)


def append(driven: DrivenLog, first: int, count: int) -> None:
    driven.append([Message(value=bytes(50), timestamp=stamp(first + n)) for n in range(count)])


def reopened() -> tuple[DrivenLog, MemoryFiles]:
    """A log that was opened with the index of an earlier process."""
    files = MemoryFiles()
    driven = DrivenLog(files, LARGE)
    append(driven, 0, 100)
    driven.close()
    files = MemoryFiles(files.copy())
    return DrivenLog(files, LARGE), files


def quick(driven: DrivenLog, number: int) -> Offset | None:
    seeks = driven.log.seek(stamp(number))
    return driven.storage.time_search.find(seeks, may_scan=False)


def test_the_first_search_after_a_restart_needs_a_scan_and_the_next_does_not() -> None:
    driven, files = reopened()
    with pytest.raises(ScanNeeded):
        quick(driven, 50)

    assert driven.seek(stamp(50)) == 50
    files.faults.calls.clear()
    assert quick(driven, 51) == 51
    assert files.faults.count("read") == 1
    # The marks in the files were right.
    assert files.faults.count("write") == 0


def while_scanned(files: MemoryFiles, do: Callable[[], object]) -> None:
    """Do something between the first and the second read of a scan."""
    patch, meet = pytest.MonkeyPatch(), files.faults.meet

    def met(operation: str, path: str) -> None:
        meet(operation, path)
        if operation == "read" and path.endswith(SEGMENT):
            patch.undo()
            do()

    patch.setattr(files.faults, "meet", met)


def test_what_is_appended_while_a_segment_is_scanned_is_found_by_the_next_search() -> None:
    driven, files = reopened()
    while_scanned(files, lambda: append(driven, 100, 40))
    assert driven.seek(stamp(50)) == 50

    assert [quick(driven, number) for number in (20, 99, 100, 139)] == [20, 99, 100, 139]


def test_a_scan_of_records_that_were_truncated_meanwhile_leaves_no_index() -> None:
    driven, files = reopened()

    def cut() -> None:
        driven.carry_out(driven.log.truncate(Offset(30)))
        driven.rest()
        for number in range(30, 100):
            driven.append([Message(value=bytes(70), timestamp=stamp(1000 + number))])

    while_scanned(files, cut)
    driven.seek(stamp(10))

    assert quick(driven, 10) == 10
    assert quick(driven, 40) == 30
    assert quick(driven, 1099) == 99


def test_a_search_far_behind_the_first_record_of_a_time_is_not_done_at_once() -> None:
    settings = msgspec.structs.replace(LARGE, segment_bytes=64 << 20, index_interval_bytes=4096)
    driven = DrivenLog(MemoryFiles(), settings)
    append(driven, 100, 1)
    for _ in range(30):
        # Older than the first: nothing tells where the next newer one is.
        driven.append([Message(value=bytes(100_000), timestamp=stamp(0))])
    append(driven, 100, 1)
    seek = driven.log.seek(stamp(100))[0]
    later = msgspec.structs.replace(seek, offset=Offset(1))

    search = driven.storage.time_search
    assert search.find([seek], may_scan=False) == 0
    with pytest.raises(ScanNeeded):
        search.find([later], may_scan=False)
    assert search.find([later]) == 31


def test_a_scan_holds_no_lock() -> None:
    driven, files = reopened()
    seeks = driven.log.seek(stamp(50))
    guard = threading.Lock()
    storage = Storage(files, guard=guard)
    storage.open(LOG, LARGE)
    is_held: list[bool] = []

    while_scanned(files, lambda: is_held.append(guard.locked()))
    assert storage.time_search.find(seeks) == 50
    assert is_held == [False]


def test_a_search_is_refused_if_its_log_was_deleted_and_created_while_it_was_scanned() -> None:
    driven, files = reopened()
    anew: list[Effect] = [
        Reshape(log=LOG, change=Delete()),
        Reshape(log=LOG, change=Create(LARGE)),
    ]
    while_scanned(files, lambda: driven.storage.carry_out(anew))

    with pytest.raises(Refused) as refused:
        driven.storage.time_search.find(driven.log.seek(stamp(50)))
    assert refused.value.code is Code.TOPIC_NOT_FOUND
