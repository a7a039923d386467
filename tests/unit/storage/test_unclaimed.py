"""Logs that no topic claims are moved aside, whole, and never deleted."""

import errno

import pytest

from goqueue.model import LogId
from goqueue.storage import Moved, Storage, find_logs
from tests.unit.storage.driven_log import SMALL
from tests.unit.storage.memory_files import MemoryFiles

CONTENT = {
    "logs/orders/0/00000000000000000000.log": b"",
    "logs/stray/0/00000000000000000000.log": b"kept",
    "logs/stray/1/00000000000000000007.log": b"kept too",
    "logs/a-file": b"foreign",
    "logs/not a topic/file": b"foreign",
}


def test_a_sweep_moves_what_no_topic_claims_and_says_so() -> None:
    files = MemoryFiles(CONTENT)
    moved = Storage(files).sweep(["orders", "absent"])
    assert moved == (Moved(old="logs/stray", new="unclaimed/1/stray"),)
    assert files.copy() == {
        path.replace("logs/stray", "unclaimed/1/stray"): data for path, data in CONTENT.items()
    }
    assert find_logs(files)[0] == [LogId("orders", 0)]


def test_a_sweep_that_finds_nothing_changes_nothing() -> None:
    for content in ({}, {"logs/orders/0/file": b""}):
        files = MemoryFiles(content)
        assert Storage(files).sweep(["orders"]) == ()
        assert not {call for call, _ in files.faults.calls} & {"rename", "make_directory"}


def test_a_second_sweep_keeps_what_the_first_one_moved() -> None:
    files = MemoryFiles(CONTENT)
    storage = Storage(files)
    storage.sweep(["orders"])
    storage.open(LogId("stray", 0), SMALL)
    storage.close()
    assert Storage(files).sweep(["orders"]) == (Moved(old="logs/stray", new="unclaimed/2/stray"),)
    assert files.copy()["unclaimed/1/stray/0/00000000000000000000.log"] == b"kept"


def test_the_new_place_is_durable_before_anything_is_moved_there() -> None:
    files = MemoryFiles(CONTENT)
    Storage(files).sweep([])
    calls = files.faults.calls
    first = min(index for index, (call, _) in enumerate(calls) if call == "rename")
    last = max(index for index, (call, _) in enumerate(calls) if call == "rename")
    assert calls.index(("sync_directory", "")) < first
    assert calls.index(("sync_directory", "unclaimed")) < first
    assert calls.index(("sync_directory", "unclaimed/1")) > last
    assert calls.index(("sync_directory", "logs")) > last


def test_a_sweep_that_is_refused_raises_and_loses_nothing() -> None:
    files = MemoryFiles(CONTENT)
    files.faults.broken["rename", "stray"] = errno.EIO
    with pytest.raises(OSError, match="planted"):
        Storage(files).sweep(["orders"])
    assert files.copy() == CONTENT


@pytest.mark.parametrize("directory", ["unclaimed/1", "logs"])
def test_a_move_that_may_not_be_durable_does_not_free_the_name(directory: str) -> None:
    files = MemoryFiles(CONTENT)
    files.faults.broken["sync_directory", directory] = errno.EIO
    with pytest.raises(OSError, match="planted"):
        Storage(files).sweep(["orders"])
    assert files.copy() == CONTENT


def test_a_move_that_a_crash_cut_short_is_made_durable_before_its_name_is_free() -> None:
    moved = {
        path.replace("logs/stray", "unclaimed/1/stray"): data for path, data in CONTENT.items()
    }
    files = MemoryFiles(moved)
    assert Storage(files).sweep(["orders"]) == ()
    synced = [path for call, path in files.faults.calls if call == "sync_directory"]
    assert synced == ["unclaimed/1", "logs"]
