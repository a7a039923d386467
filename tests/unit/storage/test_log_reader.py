"""Reads that meet damage or a lost index: no event loop scans a segment, no scan holds a lock."""

import threading

import msgspec
import pytest

from goqueue.model import Create, Delete, Message, Offset, Reshape, Slice
from goqueue.storage import DamageFound, RebuildNeeded, Storage
from tests.unit.storage.driven_log import LOG, SMALL, DrivenLog
from tests.unit.storage.memory_files import MemoryFiles

# Every hundred records a new segment.
SETTINGS = msgspec.structs.replace(SMALL, segment_bytes=20_000, index_interval_bytes=500)
SEGMENT = "00000000000000000000.log"
INDEX = "00000000000000000000.index"


def reopened(*, is_damaged: bool = False, has_index: bool = True) -> tuple[DrivenLog, MemoryFiles]:
    """A log of several segments that an earlier process wrote."""
    files = MemoryFiles()
    driven = DrivenLog(files, SETTINGS)
    for _ in range(200):
        driven.append([Message(value=bytes(200))])
    driven.close()
    content = files.copy()
    (path,) = (path for path in content if path.endswith(SEGMENT))
    if is_damaged:
        content[path] = content[path][:2_000] + b"?" * 10 + content[path][2_010:]
    files = MemoryFiles(content)
    driven = DrivenLog(files, SETTINGS, open_segments_max=1)
    if not has_index:
        lose_index(files)
    return driven, files


def lose_index(files: MemoryFiles) -> None:
    """Lose the index of a segment since the log was opened."""
    (path,) = (path for path in files.copy() if path.endswith(INDEX))
    files.remove(path)


def early(driven: DrivenLog) -> Slice:
    wanted = driven.log.read(Offset(5), 2_000)
    assert wanted is not None
    return wanted


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_read_that_may_not_scan_reads_a_bounded_part_of_the_segment(is_damaged: bool) -> None:
    driven, files = reopened(is_damaged=is_damaged, has_index=is_damaged)
    files.faults.calls.clear()
    with pytest.raises(RebuildNeeded) as needed:
        driven.storage.read(early(driven), may_scan=False)

    assert (needed.value.log, needed.value.base) == (LOG, 0)
    # Its two last marks and what follows them, and then the slice itself.
    assert files.faults.count("read", SEGMENT) <= 6


def test_a_lost_index_is_rebuilt_once_and_then_reads_need_no_scan() -> None:
    driven, files = reopened(has_index=False)
    with pytest.raises(RebuildNeeded) as needed:
        driven.storage.read(early(driven), may_scan=False)
    driven.storage.reader.rebuild(needed.value)

    assert len(driven.storage.read(early(driven), may_scan=False))
    assert files.faults.count("write", INDEX) == 1


def test_a_scan_finds_the_damage_that_a_read_met() -> None:
    driven, _ = reopened(is_damaged=True)
    with pytest.raises(RebuildNeeded) as needed:
        driven.storage.read(early(driven), may_scan=False)
    driven.storage.reader.rebuild(needed.value)

    wanted = driven.log.read(Offset(8), 2_000)
    assert wanted is not None
    with pytest.raises(DamageFound) as found:
        driven.storage.read(wanted, may_scan=False)
    assert found.value.event.first == 8
    assert len(driven.read_all()) == 199


def test_a_read_is_refused_if_it_needs_a_scan_again_right_after_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driven, _ = reopened(has_index=False)
    monkeypatch.setattr(driven.storage.reader, "rebuild", lambda _: None)
    with pytest.raises(OSError, match="index"):
        driven.storage.read(early(driven))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_scan_for_a_read_holds_no_lock(is_damaged: bool) -> None:
    driven, files = reopened(is_damaged=is_damaged)
    guard = threading.RLock()
    storage = Storage(files, guard=guard, open_segments_max=1)
    storage.open(LOG, SETTINGS)
    if not is_damaged:
        lose_index(files)
    with pytest.raises(RebuildNeeded) as needed:
        storage.read(early(driven), may_scan=False)
    could_read: list[bool] = []
    meet, patch = files.faults.meet, pytest.MonkeyPatch()

    def lock() -> None:
        could_read.append(guard.acquire(blocking=False))
        if could_read[-1]:
            guard.release()

    def met(operation: str, path: str) -> None:
        meet(operation, path)
        if operation == "read" and path.endswith(SEGMENT):
            patch.undo()
            other = threading.Thread(target=lock)
            other.start()
            other.join()

    patch.setattr(files.faults, "meet", met)
    storage.reader.rebuild(needed.value)
    assert could_read == [True]


def test_a_log_that_was_created_anew_gets_no_index_of_the_one_before() -> None:
    driven, files = reopened(has_index=False)
    with pytest.raises(RebuildNeeded) as needed:
        driven.storage.read(early(driven), may_scan=False)
    meet, patch = files.faults.meet, pytest.MonkeyPatch()

    def met(operation: str, path: str) -> None:
        meet(operation, path)
        if operation == "read" and path.endswith(SEGMENT):
            patch.undo()
            changes = (Delete(), Create(SETTINGS))
            driven.storage.carry_out([Reshape(log=LOG, change=each) for each in changes])

    patch.setattr(files.faults, "meet", met)
    driven.storage.reader.rebuild(needed.value)
    assert files.faults.count("write", INDEX) == 0
