"""Snapshots are caches: replaced as a whole, and never in the way of a start."""

import errno

import pytest

from goqueue.model import Code, Refused
from goqueue.storage import Storage
from tests.unit.storage.memory_files import Killed, MemoryFiles

PATH = "snapshots/groups.json"


def test_a_snapshot_is_brought_back_by_another_process() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.save("groups", b"one")
    storage.save("groups", b"two")
    storage.save("other", b"three")
    assert Storage(files).load("groups") == b"two"
    assert Storage(files).load("other") == b"three"


def test_there_is_no_snapshot_where_none_was_saved() -> None:
    assert Storage(MemoryFiles()).load("groups") is None
    assert Storage(MemoryFiles({"snapshots/groups.json/file": b""})).load("groups") is None


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_snapshot_that_cannot_be_read_is_none(operation: str) -> None:
    files = MemoryFiles({PATH: b"kept"})
    files.faults.broken[operation, PATH] = errno.EIO
    assert Storage(files).load("groups") is None
    assert files.faults.open_files == []


def test_a_snapshot_that_is_too_large_is_neither_saved_nor_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.storage.snapshots._BYTES_MAX", 10)
    files = MemoryFiles({PATH: b"x" * 11})
    storage = Storage(files)
    assert storage.load("groups") is None
    assert files.faults.count("read") == 0
    with pytest.raises(OSError, match="larger"):
        storage.save("groups", b"x" * 11)
    storage.save("groups", b"x" * 10)
    assert storage.load("groups") == b"x" * 10


def test_a_kill_at_any_operation_leaves_the_old_snapshot_or_the_new() -> None:
    operations = 0
    while True:
        files = MemoryFiles({PATH: b"old"})
        files.faults.operations_left = operations
        try:
            Storage(files).save("groups", b"new")
        except Killed:
            operations += 1
        else:
            break
        again = Storage(MemoryFiles(files.copy()))
        assert again.load("groups") in {b"old", b"new"}
        again.save("groups", b"next")
        assert again.load("groups") == b"next"
    assert operations > 3


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0"])
def test_a_hostile_name_never_becomes_a_path(name: str) -> None:
    storage = Storage(MemoryFiles())
    with pytest.raises(Refused) as saved:
        storage.save(name, b"")
    with pytest.raises(Refused) as loaded:
        storage.load(name)
    assert saved.value.code is loaded.value.code is Code.NAME_INVALID
