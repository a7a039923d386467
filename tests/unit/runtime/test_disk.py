"""The disk thread when it ends by a bug, and stopping a log whose disk fails."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from goqueue.model import DiskEvent, Effect, LogId, LogSettings, Message, Offset, Record, Sync
from goqueue.records import build, encode
from goqueue.runtime import DataDirectory, LocalLog, OsFile, OsFileSystem
from goqueue.runtime.disk import Disk
from goqueue.storage import Storage

LOG = LogId("orders", 0)
PATIENCE_S = 10.0


class Bug(Exception):
    """Something that nobody foresaw."""


@pytest.fixture
def thread_ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a thread ends by an exception, which here is meant to and not told on stderr."""
    ended = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: ended.set())
    return ended


def refuse_to_take(_: list[DiskEvent]) -> None:
    raise Bug


def test_a_disk_thread_that_ended_by_a_bug_takes_nothing_more_and_says_why(
    tmp_path: Path, thread_ended: threading.Event
) -> None:
    disk = Disk(OsFileSystem(str(tmp_path)), refuse_to_take)
    disk.open(LOG, LogSettings())
    disk.start()
    disk.submit([Sync(log=LOG, upto=Offset(0))])
    assert thread_ended.wait(PATIENCE_S)

    with pytest.raises(RuntimeError) as submitted:
        disk.submit([Sync(log=LOG, upto=Offset(0))])
    with pytest.raises(RuntimeError) as closed:
        disk.close()

    assert isinstance(disk.crash, Bug)
    assert submitted.value.__cause__ is closed.value.__cause__ is disk.crash


def test_waiting_for_a_commit_after_a_bug_of_the_disk_thread_ends_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread_ended: threading.Event
) -> None:
    def fail(_: Storage, __: Sequence[Effect]) -> list[DiskEvent]:
        raise Bug

    monkeypatch.setattr(Storage, "carry_out", fail)
    local = LocalLog(str(tmp_path), LOG)
    end = local.append(build([Message(value=b"lost")])).next
    assert thread_ended.wait(PATIENCE_S)

    with pytest.raises(TimeoutError) as late:
        local.wait_for_commit(end, timeout_s=0.01)
    assert isinstance(late.value.__cause__, Bug)

    with pytest.raises(RuntimeError) as closed:
        local.close()
    assert isinstance(closed.value.__cause__, Bug)
    DataDirectory(str(tmp_path)).close()


def test_the_lock_is_given_up_also_when_the_disk_fails_at_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: OsFile) -> None:
        raise OSError(5, "planted")

    local = LocalLog(str(tmp_path), LOG)
    local.wait_for_commit(local.append(build([Message(value=b"kept")])).next)
    monkeypatch.setattr(OsFile, "sync", fail)
    with pytest.raises(OSError, match="planted"):
        local.close()
    monkeypatch.undo()
    with LocalLog(str(tmp_path), LOG) as again:
        assert again.log.end == 1


def test_opening_and_closing_a_log_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    for _ in range(3):
        with LocalLog(str(tmp_path), LOG) as local:
            local.wait_for_commit(local.append(build([Message(value=b"kept")])).next)
    assert count() == before


def test_a_cut_with_good_records_in_it_is_told_with_the_name_of_its_copy(tmp_path: Path) -> None:
    with LocalLog(str(tmp_path), LOG) as local:
        for _ in range(3):
            local.append(build([Message(value=b"v" * 66)]))
        local.wait_for_commit(local.log.end)
    path = tmp_path / "logs" / LOG.topic / "0" / f"{0:020d}.log"
    with path.open("ab") as file:
        behind = Record(offset=4, timestamp=1, priority=2, flags=0, key=b"", value=b"", headers=())
        file.write(bytes(100) + encode(behind))
    told: list[str] = []
    disk = Disk(OsFileSystem(str(tmp_path)), lambda _: None, tell=told.append)
    disk.open(LOG, LogSettings())
    disk.start()
    disk.close()
    [line] = told
    assert ".log.cut-300" in line
    assert "cut 134 bytes" in line
