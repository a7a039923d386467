"""Every file that is opened is closed once; many logs keep few open, and sync together."""

import errno
from collections.abc import Sequence

import msgspec
import pytest

from goqueue.log import Log, LogState
from goqueue.model import (
    Cleanup,
    DiskEvent,
    Effect,
    Failed,
    Flush,
    Instant,
    LogId,
    Message,
    Now,
    Offset,
    Refused,
    Sync,
    Synced,
    Timestamp,
    Write,
)
from goqueue.records import build
from goqueue.storage import FileCommit, SegmentFile, Storage, log_directory, segment_name
from tests.unit.storage.driven_log import DIRECTORY, EPOCH_NS, LOG, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, MemoryFiles

COMPACTING = msgspec.structs.replace(SMALL, cleanup=Cleanup.COMPACT, dirty_percent_min=1)

COUNT = 90

OPERATIONS = ["read", "write", "truncate", "sync", "open", "create", "sync_directory", "remove"]


def filled() -> tuple[Content, DrivenLog]:
    files = MemoryFiles()
    driven = DrivenLog(files, COMPACTING)
    driven.start_epoch(1)
    for number in range(1, COUNT):
        driven.append([Message(key=b"k%d" % (number % 7), value=b"%030d" % number)])
    return files.copy(), driven


CONTENT, WHOLE = filled()

BASES = [segment.base for segment in WHOLE.log.segments]


def in_need_of_repair() -> MemoryFiles:
    """A torn tail, a damaged segment, a left-over one, a lying index, no epochs."""
    content = dict(CONTENT)
    del content[path_of("epochs.json")]
    content[path_of(segment_name(BASES[-1]))] += b"GQ torn"
    harmed = bytearray(content[path_of(segment_name(BASES[1]))])
    harmed[-5] ^= 1
    content[path_of(segment_name(BASES[1]))] = bytes(harmed)
    content[path_of(f"{BASES[0]:020d}.index")] = b"lies"
    content[path_of(segment_name(BASES[0] + 1))] = content[path_of(segment_name(BASES[0]))][-64:]
    return MemoryFiles(content)


def test_a_segment_closed_twice_closes_its_file_once() -> None:
    files = MemoryFiles({path_of(segment_name(0)): b""})
    segment = SegmentFile(files, DIRECTORY, Offset(0), 0, 256)
    segment.open()
    segment.close()
    segment.close()
    assert files.faults.count("close", ".log") == 1


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_opening_that_fails_at_any_file_leaves_none_open(operation: str, is_new: bool) -> None:
    endings = {path for path in CONTENT if not is_new} | {"", "recovery-point", ".log", DIRECTORY}
    for ending in sorted(endings):
        files = MemoryFiles() if is_new else in_need_of_repair()
        files.faults.broken[operation, ending] = errno.EACCES
        storage = Storage(files)
        try:
            storage.open(LOG, COMPACTING)
        except OSError:
            assert files.faults.open_files == [], (operation, ending)
        files.faults.broken.clear()
        storage.close()
        assert files.faults.open_files == [], (operation, ending)


def test_a_log_that_is_closed_leaves_nothing_open() -> None:
    for files in (MemoryFiles(), MemoryFiles(CONTENT), in_need_of_repair()):
        driven = DrivenLog(files, COMPACTING)
        driven.put(b"more")
        driven.maintain()
        driven.carry_out(driven.log.truncate(Offset(1)))
        driven.close()
        assert files.faults.open_files == []


@pytest.mark.parametrize("open_segments_max", [1, 64])
def test_reads_that_meet_damage_leave_no_file_open(open_segments_max: int) -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files, open_segments_max=open_segments_max)
    for base in BASES:
        for ending in (".log", ".index"):
            harmed = files.open(path_of(f"{base:020d}{ending}"))
            harmed.write_at(0, b"\xff" * 100)
            harmed.close()
    for base in BASES:
        for offset in (base, base + 1):
            with pytest.raises(Refused):
                driven.read(offset)
    assert len(files.faults.open_files) <= open_segments_max + 1
    driven.close()
    assert files.faults.open_files == []


def test_a_compaction_that_meets_damage_leaves_no_file_open() -> None:
    content = dict(CONTENT)
    harmed = bytearray(content[path_of(segment_name(BASES[0]))])
    harmed[70] ^= 1
    content[path_of(segment_name(BASES[0]))] = bytes(harmed)
    files = MemoryFiles(content)
    driven = DrivenLog(files, COMPACTING)
    before = sorted(files.faults.open_files)

    driven.maintain()

    assert [gap.first for gap in driven.log.damaged] == [BASES[0] + 1]
    assert set(files.faults.open_files) <= set(before)
    driven.close()
    assert files.faults.open_files == []


def test_a_failed_log_leaves_nothing_open() -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files)
    files.faults.broken["sync", ".log"] = errno.EIO
    driven.put(b"lost")
    assert driven.log.failure is not None
    driven.close()
    assert files.faults.open_files == []


@pytest.mark.parametrize("operation", ["sync", "write", "close"])
def test_a_log_that_cannot_be_stopped_cleanly_leaves_the_others_closed(operation: str) -> None:
    files = MemoryFiles()
    storage = Storage(files)
    for partition in range(3):
        log = msgspec.structs.replace(LOG, partition=partition)
        storage.open(log, SMALL)
        data = build([Message(value=b"kept")])
        write = Write(log=log, segment=Offset(0), position=0, data=data, next_offset=Offset(1))
        storage.carry_out([write, Sync(log=log, upto=Offset(1))])
    files.faults.broken[operation, "/1/recovery-point"] = errno.EIO
    files.faults.calls.clear()

    with pytest.raises(OSError, match="planted"):
        storage.close()

    assert files.faults.open_files == []
    assert files.faults.count("sync", "/0/recovery-point") == 1
    assert files.faults.count("sync", "/2/recovery-point") == 1


def test_a_stop_syncs_the_recovery_points_of_many_logs_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files, together = MemoryFiles(), list[int]()
    storage = Storage(files)
    for partition in range(100):
        log = msgspec.structs.replace(LOG, partition=partition)
        storage.open(log, SMALL)
        data = build([Message(value=b"kept")])
        write = Write(log=log, segment=Offset(0), position=0, data=data, next_offset=Offset(1))
        storage.carry_out([write, Sync(log=log, upto=Offset(1))])
    commit = files.commit

    def counted(commits: Sequence[FileCommit]) -> None:
        together.append(len(commits))
        commit(commits)

    monkeypatch.setattr(files, "commit", counted)
    storage.close()

    assert together == [64, 36]
    assert files.faults.open_files == []


LOGS = [LogId("orders", partition) for partition in range(20)]

LIMIT = 4

NOW = Now(Instant(0), Timestamp(EPOCH_NS))


class Node:
    """Several logs over one storage, each effect carried out when the test says so."""

    def __init__(self, files: MemoryFiles, flush: Flush = Flush.COMMIT) -> None:
        settings = msgspec.structs.replace(SMALL, flush=flush)
        self.storage = Storage(files, open_actives_max=LIMIT)
        self.logs = {
            log: Log(log, settings, self.storage.open(log, settings).state) for log in LOGS
        }

    def append(self, log: LogId, value: bytes = b"value") -> tuple[Effect, ...]:
        return self.logs[log].append(build([Message(value=value)]), NOW).effects

    def carry_out(self, effects: Sequence[Effect]) -> list[DiskEvent]:
        events = self.storage.carry_out(effects)
        for event in events:
            assert self.logs[event.log].handle(event, NOW) == []
        return events

    def read(self, log: LogId) -> memoryview:
        wanted = self.logs[log].read(Offset(0), 1_000)
        assert wanted is not None
        return self.storage.read(wanted)


def test_an_open_log_that_nobody_uses_holds_no_file() -> None:
    files = MemoryFiles()
    node = Node(files)
    for log in LOGS:
        node.carry_out(node.append(log))
    node.storage.close()
    again = Node(files)
    assert files.faults.open_files == []
    again.storage.close()


def test_clean_active_segments_stay_open_up_to_the_limit_and_all_can_be_used() -> None:
    files = MemoryFiles()
    node = Node(files)
    for _ in range(3):
        for log in LOGS:
            node.carry_out(node.append(log))
            assert len(files.faults.open_files) <= LIMIT
    for log in LOGS:
        assert len(node.read(log)) > 0
        assert len(files.faults.open_files) <= LIMIT
    node.storage.close()
    assert files.faults.open_files == []


def test_the_segment_used_last_stays_open() -> None:
    files = MemoryFiles()
    node = Node(files)
    for log in LOGS[:LIMIT]:
        node.carry_out(node.append(log))
    node.read(LOGS[0])
    node.carry_out(node.append(LOGS[LIMIT]))
    first, second = (f"{log_directory(log)}/{segment_name(0)}" for log in LOGS[:2])
    assert first in files.faults.open_files
    assert second not in files.faults.open_files


def test_a_segment_with_unsynced_writes_is_not_closed_before_its_sync() -> None:
    files = MemoryFiles()
    node = Node(files, Flush.INTERVAL)
    for log in LOGS:
        node.carry_out(node.append(log))
    assert len(files.faults.open_files) == len(LOGS)
    for log in LOGS:
        node.read(log)
    assert len(files.faults.open_files) == len(LOGS)

    node.carry_out([Sync(log=log, upto=Offset(1)) for log in LOGS])

    assert len(files.faults.open_files) == LIMIT
    node.storage.close()
    assert files.faults.open_files == []


def test_a_log_that_has_failed_holds_its_file_no_longer_than_others() -> None:
    files = MemoryFiles()
    node = Node(files)
    files.faults.broken["sync", f"/{segment_name(0)}"] = errno.EIO
    for log in LOGS:
        assert [type(event) for event in node.carry_out(node.append(log))] == [Failed]
    assert len(files.faults.open_files) <= LIMIT
    files.faults.broken.clear()
    node.storage.close()
    assert files.faults.open_files == []


def test_a_write_for_which_no_file_can_be_opened_is_refused_and_taken_later() -> None:
    files = MemoryFiles()
    node = Node(files)
    for log in LOGS:
        node.carry_out(node.append(log))
    files.faults.broken["open", ".log"] = errno.EMFILE
    machine = node.logs[LOGS[0]]
    events = node.storage.carry_out(node.append(LOGS[0], b"refused"))
    effects = [effect for event in events for effect in machine.handle(event, NOW)]
    node.storage.carry_out(effects)
    assert machine.failure is None
    assert machine.end == 1
    files.faults.broken.clear()
    later = Now(Instant(NOW.instant + SMALL.full_retry_ns), NOW.wall)
    appended = machine.append(build([Message(value=b"taken")]), later)
    assert node.carry_out(appended.effects) == [Synced(log=LOGS[0], upto=Offset(2))]


# Syncs of several logs


class Backwards(MemoryFiles):
    """Commits files from the last to the first, and remembers how many came together."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[int] = []

    def commit(self, commits: Sequence[FileCommit]) -> None:
        self.rounds.append(len(commits))
        super().commit(commits[::-1])


@pytest.mark.parametrize("failing", [None, 1])
def test_events_come_in_the_same_order_however_the_syncs_are_carried_out(
    failing: int | None,
) -> None:
    outcomes: list[list[DiskEvent]] = []
    backwards = Backwards()
    for files in (MemoryFiles(), backwards):
        storage = Storage(files)
        effects: list[Effect] = []
        for log in LOGS[:3]:
            storage.open(log, SMALL)
            machine = Log(log, SMALL, LogState())
            effects += machine.append(build([Message(value=b"value")]), NOW).effects
        if failing is not None:
            files.faults.broken["sync", f"/{failing}/{segment_name(0)}"] = errno.EIO
        outcomes.append(storage.carry_out(effects))
    assert outcomes[0] == outcomes[1]
    expected = [Failed if log.partition == failing else Synced for log in LOGS[:3]]
    assert [type(event) for event in outcomes[0]] == expected
    assert 3 in backwards.rounds
