"""The disk thread on real files: several logs, a disk that fails, and an end by a bug."""

import os
import queue
import resource
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from goqueue.log import Log, LogState
from goqueue.model import (
    BackupEvent,
    Create,
    Created,
    Delete,
    Deleted,
    DiskEvent,
    Effect,
    Failed,
    LogId,
    LogSettings,
    Message,
    Offset,
    Reshape,
    Save,
    Slice,
    Sweep,
    Sync,
    Synced,
)
from goqueue.records import build
from goqueue.runtime import DataDirectory, EventLog, LocalLog, OsFileSystem, read_clock
from goqueue.runtime.disk import Disk
from goqueue.runtime.os_files import raise_descriptor_limit
from goqueue.storage import POINT_FILE, FileCommit, Storage, log_directory, read_point, segment_name
from goqueue.storage.log_files import LogFiles

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


def refuse_to_take(_: Sequence[DiskEvent | BackupEvent]) -> None:
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
    def fail(_: OsFileSystem, commits: Sequence[FileCommit]) -> None:
        for commit in commits:
            commit.sync_error = OSError(5, "planted")

    local = LocalLog(str(tmp_path), LOG)
    local.wait_for_commit(local.append(build([Message(value=b"kept")])).next)
    monkeypatch.setattr(OsFileSystem, "commit", fail)
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


LOGS = [LogId("orders", partition) for partition in range(30)]

SETTINGS = LogSettings()


class Shell:
    """A disk and the listener to its events."""

    def __init__(self, root: Path) -> None:
        self.events: queue.SimpleQueue[Sequence[DiskEvent | BackupEvent]] = queue.SimpleQueue()
        self.told: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.disk = Disk(OsFileSystem(str(root)), self.events.put, log=EventLog(self.told.put))

    def wait_for_events(self, count: int) -> list[DiskEvent]:
        happened: list[DiskEvent] = []
        while len(happened) < count:
            happened += [
                each for each in self.events.get(timeout=PATIENCE_S) if isinstance(each, DiskEvent)
            ]
        return happened


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    made.disk.start()
    yield made
    made.disk.close()


def create(*logs: LogId) -> list[Effect]:
    return [Reshape(log=log, change=Create(SETTINGS)) for log in logs]


def first_record(log: LogId) -> tuple[Effect, ...]:
    machine = Log(log, SETTINGS, LogState())
    return machine.append(build([Message(value=b"value")]), read_clock()).effects


def whole(log: LogId) -> Slice:
    return Slice(log=log, segment=Offset(0), offset=Offset(0), below=Offset(1), bytes_max=1_000)


def test_logs_are_created_written_read_and_deleted(shell: Shell, tmp_path: Path) -> None:
    shell.disk.submit(create(*LOGS))
    assert shell.wait_for_events(30) == [Created(log=log) for log in LOGS]
    shell.disk.submit([effect for log in LOGS for effect in first_record(log)])
    assert shell.wait_for_events(30) == [Synced(log=log, upto=Offset(1)) for log in LOGS]
    assert all(len(shell.disk.read(whole(log))) > 0 for log in LOGS)
    shell.disk.submit([Reshape(log=log, change=Delete()) for log in LOGS])
    assert shell.wait_for_events(30) == [Deleted(log=log) for log in LOGS]
    shell.disk.submit([*create(LOGS[0]), *first_record(LOGS[0])])
    assert shell.wait_for_events(2) == [
        Created(log=LOGS[0]),
        Synced(log=LOGS[0], upto=Offset(1)),
    ]
    assert [path.name for path in (tmp_path / "logs" / "orders").iterdir()] == ["0"]


def test_what_an_earlier_process_left_in_the_trash_is_removed_between_other_work(
    tmp_path: Path,
) -> None:
    (tmp_path / "trash" / "3").mkdir(parents=True)
    (tmp_path / "trash" / "3" / "left").write_bytes(b"by an earlier process")
    shell = Shell(tmp_path)
    shell.disk.start()
    for log in LOGS[:5]:
        # Each event is of another turn of the thread, and each turn removes one thing more.
        shell.disk.submit(create(log))
        assert shell.wait_for_events(1) == [Created(log=log)]
    shell.disk.close()
    assert list((tmp_path / "trash").iterdir()) == []


def break_sync(path: Path) -> None:
    """From now on the open file takes writes, and every sync of it fails."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == str(path):
                null = os.open("/dev/null", os.O_RDWR)
                os.dup2(null, int(name))
                os.close(null)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9, 30])
def test_a_sync_that_fails_among_many_fails_its_log_alone(
    shell: Shell, tmp_path: Path, count: int
) -> None:
    logs = LOGS[:count]
    broken = logs[count // 2]
    shell.disk.submit([*create(*logs), *(e for log in logs for e in first_record(log))])
    shell.wait_for_events(2 * count)
    break_sync(tmp_path / log_directory(broken) / segment_name(Offset(0)))
    second: list[Effect] = []
    for log in logs:
        machine = Log(log, SETTINGS, LogState())
        machine.append(build([Message(value=b"value")]), read_clock())
        second += machine.append(build([Message(value=b"value")]), read_clock()).effects
    shell.disk.submit(second)
    events = shell.wait_for_events(count)
    assert [event.log for event in events] == logs
    assert [event.log for event in events if isinstance(event, Failed)] == [broken]


def test_an_idle_thread_writes_the_recovery_point_after_the_commit_was_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path)
    point = tmp_path / log_directory(LOGS[0]) / POINT_FILE
    save, is_saved = LogFiles.save_point, threading.Event()
    at_the_save: list[bool] = []

    def watched(files: LogFiles) -> None:
        at_the_save.append(shell.events.empty())
        save(files)
        is_saved.set()

    monkeypatch.setattr(LogFiles, "save_point", watched)
    shell.disk.start()
    shell.disk.submit([*create(LOGS[0]), *first_record(LOGS[0])])
    assert is_saved.wait(PATIENCE_S)
    reached = read_point(point.read_bytes())
    shell.disk.close()

    # Events wait in the queue of the shell from the moment they are posted.
    assert at_the_save == [False]
    assert reached is not None
    assert reached.offset == 1


def test_logs_are_opened_while_the_thread_carries_out_others(shell: Shell) -> None:
    shell.disk.submit(create(*LOGS))
    shell.wait_for_events(30)
    shell.disk.submit([effect for log in LOGS for effect in first_record(log)])
    others = [LogId("opened", partition) for partition in range(50)]
    assert [shell.disk.open(log, SETTINGS).state for log in others] == [LogState()] * 50
    shell.wait_for_events(30)
    shell.disk.submit(first_record(others[-1]))
    assert shell.wait_for_events(1) == [Synced(log=others[-1], upto=Offset(1))]


# Snapshots and sweeps


def test_of_several_snapshots_of_one_name_the_newest_is_brought_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.disk.start()
    for number in range(5):
        shell.disk.submit([Save(name="groups", data=b"%d" % number)])
    shell.disk.close()
    assert Shell(tmp_path).disk.load("groups") == b"4"
    assert Shell(tmp_path).disk.load("absent") is None
    assert shell.disk.snapshots_lost == 0


def test_a_snapshot_that_cannot_be_saved_is_counted_and_told_and_nothing_else_happens(
    tmp_path: Path,
) -> None:
    (tmp_path / "snapshots").write_bytes(b"in the way")
    shell = Shell(tmp_path)
    shell.disk.start()
    shell.disk.submit([Save(name="groups", data=b"lost"), *create(LOGS[0])])
    assert shell.wait_for_events(1) == [Created(log=LOGS[0])]
    assert b"snapshot groups" in shell.told.get(timeout=PATIENCE_S)
    shell.disk.close()
    assert shell.disk.snapshots_lost == 1
    assert shell.disk.crash is None


def test_a_sweep_tells_what_it_moved(tmp_path: Path) -> None:
    (tmp_path / "logs" / "stray" / "0").mkdir(parents=True)
    shell = Shell(tmp_path)
    shell.disk.start()
    shell.disk.submit([Sweep(topics=("orders",))])
    told = shell.told.get(timeout=PATIENCE_S)
    shell.disk.close()
    assert b"logs/stray" in told
    assert b"unclaimed/1/stray" in told
    assert (tmp_path / "unclaimed" / "1" / "stray" / "0").is_dir()


def test_a_disk_that_was_never_started_stops_cleanly(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.disk.open(LOGS[0], SETTINGS)
    shell.disk.close()
    assert shell.disk.crash is None


# The limit of the system


def test_the_descriptor_limit_is_raised_to_the_most_that_is_allowed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 256), before[1]))
        assert raise_descriptor_limit() == before[1]
        assert raise_descriptor_limit() == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_directory_is_moved_with_its_files_and_removed_when_empty(tmp_path: Path) -> None:
    files = OsFileSystem(str(tmp_path))
    files.make_directory("a")
    files.make_directory("b")
    files.create("a/file").close()
    files.rename("a", "b/c")
    assert (tmp_path / "b" / "c" / "file").exists()
    with pytest.raises(OSError, match="not empty"):
        files.remove_directory("b/c")
    os.unlink(tmp_path / "b" / "c" / "file")
    files.remove_directory("b/c")
    assert list((tmp_path / "b").iterdir()) == []
    with pytest.raises(OSError, match=r"(?i)read-only"):
        OsFileSystem(str(tmp_path), is_read_only=True).remove_directory("b")


def test_writes_that_take_longer_than_allowed_are_told(tmp_path: Path) -> None:
    told: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    events: queue.SimpleQueue[Sequence[DiskEvent | BackupEvent]] = queue.SimpleQueue()
    # Everything takes longer than one nanosecond.
    disk = Disk(OsFileSystem(str(tmp_path)), events.put, log=EventLog(told.put), slow_ns=1)
    disk.start()
    disk.submit(create(*LOGS[:3]))
    events.get(timeout=PATIENCE_S)
    line = told.get(timeout=PATIENCE_S)
    disk.close()
    assert b"disk_slow" in line
    assert b"logs=3" in line
