"""Snapshots are caches: replaced as a whole, and never in the way of a start."""

import errno

import msgspec
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


class Row(msgspec.Struct, frozen=True, array_like=True):
    """As a producer in a snapshot."""

    number: int
    ranges: list[tuple[int, int]]


class Large(msgspec.Struct, frozen=True, kw_only=True):
    """As the snapshot of a partition."""

    topic: int
    column: bytes
    columns: tuple[bytes, bytes]
    rows: list[Row]
    name: str = 'a "name"'


@pytest.mark.parametrize("size", [0, 1, 3, 500, 501, 98_304, 98_305, 200_000])
def test_a_snapshot_that_is_encoded_in_parts_is_the_same_as_one_in_a_piece(size: int) -> None:
    column = bytes(number % 251 for number in range(size))
    rows = [Row(number, [(number, number + 1)]) for number in range(min(size, 1_200))]
    value = Large(topic=7, column=column, columns=(column, column[::-1]), rows=rows)
    storage = Storage(MemoryFiles())
    storage.save("delays-7-0", value)

    assert storage.load("delays-7-0") == msgspec.json.encode(value)


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


NAMES = tuple(f"delays-1-{number}" for number in range(100))


def test_many_snapshots_are_saved_with_one_sync_of_their_directory() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.save("groups", b"")
    files.faults.calls.clear()

    assert storage.save_together({name: name.encode() for name in NAMES}) == []

    assert [Storage(files).load(name) for name in NAMES] == [name.encode() for name in NAMES]
    assert files.faults.count("sync_directory") == 1
    assert files.faults.open_files == []


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_of_many_snapshots_one_that_fails_keeps_its_old_content(operation: str) -> None:
    files = MemoryFiles({"snapshots/delays-1-7.json": b"old"})
    files.faults.broken[operation, "delays-1-7.json.tmp"] = errno.EIO
    storage = Storage(files)

    assert storage.save_together(dict.fromkeys(NAMES, b"new")) == ["delays-1-7"]

    assert storage.load("delays-1-7") == b"old"
    assert storage.load("delays-1-8") == b"new"
    assert files.faults.open_files == []


def test_a_kill_at_any_operation_leaves_each_of_many_snapshots_old_or_new() -> None:
    operations = 0
    old = {f"snapshots/{name}.json": b"old" for name in NAMES[:3]}
    while True:
        files = MemoryFiles(old)
        files.faults.operations_left = operations
        try:
            Storage(files).save_together(dict.fromkeys(NAMES[:3], b"new"))
        except Killed:
            operations += 1
        else:
            break
        again = Storage(MemoryFiles(files.copy()))
        assert all(again.load(name) in {b"old", b"new"} for name in NAMES[:3])
        assert again.save_together(dict.fromkeys(NAMES[:3], b"next")) == []
        assert again.load(NAMES[0]) == b"next"
    assert operations > 9
