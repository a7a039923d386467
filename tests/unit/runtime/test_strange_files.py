"""Files that somebody put into a data directory, far too large or of another kind."""

import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from goqueue.model import LogId, LogSettings, Message
from goqueue.records import build
from goqueue.runtime import LocalLog, OsFileSystem

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
