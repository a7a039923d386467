"""A data directory: its secret, and files that somebody else put into it."""

import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from goqueue.model import LogId, LogSettings, Message
from goqueue.records import build
from goqueue.runtime import DataDirectory, LocalLog, OsFileSystem


def key_of(root: Path) -> bytes:
    directory = DataDirectory(str(root))
    try:
        return directory.receipt_key()
    finally:
        directory.close()


def test_the_key_of_receipts_is_made_once_and_kept(tmp_path: Path) -> None:
    first = key_of(tmp_path / "data")

    assert len(first) == 32
    assert key_of(tmp_path / "data") == first


def test_two_directories_have_two_keys(tmp_path: Path) -> None:
    assert key_of(tmp_path / "one") != key_of(tmp_path / "other")


def test_nobody_else_may_read_the_key(tmp_path: Path) -> None:
    key_of(tmp_path)

    assert (tmp_path / "receipt-key").stat().st_mode & 0o777 == 0o600


def test_a_key_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    first = key_of(tmp_path)
    (tmp_path / "receipt-key").write_bytes(first[:10])

    assert len(key_of(tmp_path)) == 32


def test_a_directory_says_how_the_last_node_on_it_ended(tmp_path: Path) -> None:
    def end_of_last(*, stops: bool, is_node: bool = True) -> str:
        directory = DataDirectory(str(tmp_path))
        if is_node:
            directory.record_start()
        if stops:
            directory.record_clean_stop()
        directory.close()
        return directory.previous_end

    assert end_of_last(stops=False) == "none"
    assert end_of_last(stops=True) == "crash"
    assert end_of_last(stops=False) == "clean"
    # Tools, and nodes that do not start, change nothing about it.
    assert end_of_last(stops=False, is_node=False) == "crash"
    assert end_of_last(stops=True) == "crash"
    assert end_of_last(stops=False, is_node=False) == "clean"
    assert end_of_last(stops=False, is_node=False) == "clean"


def test_how_a_node_of_an_older_version_ended_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711\n")
    directory = DataDirectory(str(tmp_path))
    directory.close()
    assert directory.previous_end == "unknown"


LOG = LogId("orders", 0)

SETTINGS = LogSettings(segment_bytes=2_000, index_interval_bytes=256, retention_ns=None)

COUNT = 60

TIB = 1 << 40

MEMORY_MAX = 64 * 1024 * 1024

PATIENCE_S = 10.0

CACHES = [f"{0:020d}.index", f"{0:020d}.timeindex", "epochs.json"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with LocalLog(str(tmp_path), LOG, SETTINGS) as local:
        for number in range(COUNT):
            local.append(build([Message(value=b"%050d" % number)]))
        local.wait_for_commit(local.log.end)
        assert len(local.log.segments) > 1
    return tmp_path / "logs" / "orders" / "0"


def opened_and_read(root: Path) -> tuple[int, bool]:
    """The end of the log, and whether its first and last records can be read."""
    with LocalLog(str(root), LOG, SETTINGS) as local:
        first, last = local.read(local.log.start), local.read(local.log.segments[-1].base)
        return local.log.end, bool(first) and bool(last)


@pytest.mark.parametrize("name", ["recovery-point", *CACHES])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_file_of_a_tebibyte_does_not_use_up_the_memory(
    tmp_path: Path, directory: Path, name: str, is_last: bool
) -> None:
    if is_last:
        last = max(path.stem for path in directory.glob("*.log"))
        name = name.replace(f"{0:020d}", last)
    os.truncate(directory / name, TIB)
    tracemalloc.start()
    try:
        assert opened_and_read(tmp_path) == (COUNT, True)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CACHES)
def test_a_named_pipe_in_the_place_of_a_cache_does_not_hold_up_the_opening(
    tmp_path: Path, directory: Path, name: str
) -> None:
    (directory / name).unlink()
    os.mkfifo(directory / name)
    found: list[tuple[int, bool]] = []
    opening = threading.Thread(target=lambda: found.append(opened_and_read(tmp_path)), daemon=True)
    opening.start()
    opening.join(PATIENCE_S)
    assert found == [(COUNT, True)]


def test_a_named_pipe_does_not_hold_up_a_reader_of_a_read_only_directory(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused: list[OSError] = []

    def look() -> None:
        try:
            OsFileSystem(str(tmp_path), is_read_only=True).open("pipe")
        except OSError as error:
            refused.append(error)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(PATIENCE_S)
    assert [error.strerror for error in refused] == ["not a regular file"]
