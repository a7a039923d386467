"""Logs that are created and deleted while others are used, and logs that no topic claims."""

import errno

import msgspec
import pytest

from goqueue.log import Log, LogState
from goqueue.model import (
    Cleanup,
    Code,
    Compact,
    Create,
    Created,
    Delete,
    Deleted,
    DiskEvent,
    Effect,
    Failed,
    LogId,
    Message,
    Offset,
    Refused,
    Reshape,
    Rewind,
    Roll,
    SaveEpochs,
    Seek,
    Slice,
    Sync,
    Synced,
    Timestamp,
    Truncate,
    Write,
)
from goqueue.records import build
from goqueue.storage import Moved, Storage, find_logs, log_directory, segment_name
from tests.unit.storage.driven_log import EPOCH_NS, SMALL, DrivenLog
from tests.unit.storage.memory_files import MemoryFiles

LOGS = [LogId("orders", partition) for partition in range(3)]

LOG = LOGS[0]

DIRECTORY = log_directory(LOG)

COMPACTING = msgspec.structs.replace(SMALL, cleanup=Cleanup.COMPACT, dirty_percent_min=1)


def create(*logs: LogId) -> list[Effect]:
    return [Reshape(log=log, change=Create(SMALL)) for log in logs]


def delete(*logs: LogId) -> list[Effect]:
    return [Reshape(log=log, change=Delete()) for log in logs]


def first_record(log: LogId, value: bytes = b"first") -> list[Effect]:
    """What a new log asks for when its first record comes."""
    stamped = build([Message(value=value, timestamp=EPOCH_NS)])
    return [
        Write(log=log, segment=Offset(0), position=0, data=stamped, next_offset=Offset(1)),
        Sync(log=log, upto=Offset(1)),
    ]


def whole(log: LogId) -> Slice:
    return Slice(log=log, segment=Offset(0), offset=Offset(0), below=Offset(1), bytes_max=1_000)


def kinds(events: list[DiskEvent]) -> list[type[DiskEvent]]:
    return [type(event) for event in events]


def work(storage: Storage) -> None:
    while storage.has_background_work:
        assert storage.work() == []


# Creating


def test_a_created_log_takes_records_and_is_there_after_a_restart() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    assert storage.carry_out(create(LOG)) == [Created(log=LOG)]
    assert storage.carry_out(first_record(LOG)) == [Synced(log=LOG, upto=Offset(1))]
    assert len(storage.read(whole(LOG))) > 0
    opened = Storage(MemoryFiles(files.copy())).open(LOG, SMALL)
    assert opened.state.end == 1
    assert opened.report.is_clean


def test_a_created_log_is_empty_after_a_restart_without_a_record() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out(create(LOG))
    storage.close()
    assert Storage(files).open(LOG, SMALL).state == LogState()


def test_logs_created_in_one_call_share_one_sync_per_directory() -> None:
    files = MemoryFiles()
    events = Storage(files).carry_out(create(*LOGS))
    assert events == [Created(log=log) for log in LOGS]
    synced = [path for call, path in files.faults.calls if call == "sync_directory"]
    assert synced == ["", "logs", "logs/orders"]
    assert files.faults.count("sync") == 0


def test_a_log_may_be_created_and_written_to_in_one_call() -> None:
    events = Storage(MemoryFiles()).carry_out([*create(*LOGS), *first_record(LOGS[1])])
    assert events == [*(Created(log=log) for log in LOGS), Synced(log=LOGS[1], upto=Offset(1))]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize(
    ("operation", "path"),
    [("make_directory", "orders/1"), ("make_directory", "orders"), ("sync_directory", "orders")],
)
def test_a_log_that_cannot_be_made_has_failed_and_leaves_nothing(
    operation: str, path: str, number: int
) -> None:
    files = MemoryFiles()
    storage = Storage(files)
    files.faults.broken[operation, path] = number
    events = storage.carry_out([*create(LOGS[1]), *first_record(LOGS[1])])
    assert kinds(events) == [Failed]
    assert files.kind(log_directory(LOGS[1])) is None
    with pytest.raises(Refused):
        storage.read(whole(LOGS[1]))
    files.faults.broken.clear()
    assert storage.carry_out(create(LOGS[1])) == [Created(log=LOGS[1])]
    storage.close()
    assert files.faults.open_files == []


def test_one_log_that_cannot_be_made_leaves_the_others_of_the_call_alone() -> None:
    files = MemoryFiles()
    files.faults.broken["make_directory", "orders/1"] = errno.EIO
    events = Storage(files).carry_out(create(*LOGS))
    assert sorted(str(event.log) for event in events if isinstance(event, Created)) == [
        "orders-0",
        "orders-2",
    ]
    assert [event.log for event in events if isinstance(event, Failed)] == [LOGS[1]]


@pytest.mark.parametrize("suffix", [".log", ".log.quarantined", ".log.quarantined-1"])
def test_records_that_lie_where_a_log_is_to_be_made_are_never_overwritten(suffix: str) -> None:
    path = f"{DIRECTORY}/{0:020d}{suffix}"
    files = MemoryFiles({path: b"records"})
    storage = Storage(files)
    [failed] = storage.carry_out(create(LOG))
    assert isinstance(failed, Failed)
    assert "holds records" in failed.reason
    assert files.copy() == {path: b"records"}
    assert files.faults.open_files == []


def test_a_log_whose_records_were_all_deleted_is_not_taken_for_a_new_one() -> None:
    files = MemoryFiles()
    settings = msgspec.structs.replace(SMALL, retention_ns=1)
    driven = DrivenLog(files, settings)
    driven.put(b"old")
    driven.pass_time(10**12)
    driven.maintain()
    assert driven.log.start == driven.log.end == 1
    before = files.copy()
    [failed] = Storage(files).carry_out(create(LOG))
    assert isinstance(failed, Failed)
    assert files.copy().keys() == before.keys()


def test_a_log_that_somebody_began_to_make_is_made_to_the_end() -> None:
    files = MemoryFiles({f"{DIRECTORY}/{segment_name(0)}": b""})
    storage = Storage(files)
    assert storage.carry_out(create(LOG)) == [Created(log=LOG)]
    assert kinds(storage.carry_out(first_record(LOG))) == [Synced]


def test_a_file_in_the_way_of_a_log_fails_it() -> None:
    files = MemoryFiles({DIRECTORY: b"not a directory"})
    [failed] = Storage(files).carry_out(create(LOG))
    assert isinstance(failed, Failed)
    assert files.copy() == {DIRECTORY: b"not a directory"}


# Deleting


def test_a_deleted_log_is_gone_with_all_its_files_and_its_name_is_free() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out([*create(LOG), *first_record(LOG)])
    assert storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
    work(storage)
    assert files.copy() == {}
    assert files.faults.open_files == []
    assert [entry.name for entry in files.entries("logs")] == []
    assert [entry.name for entry in files.entries("trash")] == []

    assert storage.carry_out(create(LOG)) == [Created(log=LOG)]
    assert kinds(storage.carry_out(first_record(LOG))) == [Synced]


def test_the_other_partitions_of_a_topic_outlive_a_deleted_one() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    for log in LOGS:
        storage.carry_out([*create(log), *first_record(log)])
    storage.carry_out(delete(LOGS[1]))
    work(storage)
    assert len(storage.read(whole(LOGS[0]))) > 0
    assert Storage(MemoryFiles(files.copy())).open(LOGS[2], SMALL).state.end == 1


def test_logs_deleted_in_one_call_share_their_syncs() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out([*create(*LOGS), *(effect for log in LOGS for effect in first_record(log))])
    files.faults.calls.clear()
    assert storage.carry_out(delete(*LOGS)) == [Deleted(log=log) for log in LOGS]
    synced = [path for call, path in files.faults.calls if call == "sync_directory"]
    assert synced == ["", "trash", "logs/orders"]


def test_no_file_of_a_deleted_log_is_removed_before_its_move_is_durable() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out([*create(LOG), *first_record(LOG)])
    files.faults.calls.clear()
    storage.carry_out(delete(LOG))
    work(storage)
    calls = files.faults.calls
    removed = min(index for index, (call, _) in enumerate(calls) if call == "remove")
    assert calls.index(("rename", DIRECTORY)) < calls.index(("sync_directory", "trash")) < removed
    assert calls.index(("sync_directory", "logs/orders")) < removed


def test_effects_behind_a_deletion_do_nothing() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out([*create(LOG), *first_record(LOG)])
    late: list[Effect] = [
        Sync(log=LOG, upto=Offset(1)),
        *first_record(LOG),
        *(
            Reshape(log=LOG, change=change)
            for change in (
                Roll(Offset(1)),
                Truncate(Offset(0)),
                Rewind(Offset(0)),
                SaveEpochs(()),
                Compact(groups=(), dirty_from=Offset(0), tombstones_before=Timestamp(0)),
            )
        ),
    ]
    assert storage.carry_out([*delete(LOG), *late]) == [Deleted(log=LOG)]
    assert storage.carry_out(late) == []
    work(storage)
    assert files.copy() == {}


def test_a_sync_before_a_deletion_in_the_same_call_is_not_answered() -> None:
    storage = Storage(MemoryFiles())
    storage.carry_out(create(LOG))
    assert storage.carry_out([*first_record(LOG), *delete(LOG)]) == [Deleted(log=LOG)]


def test_a_log_deleted_and_made_again_in_one_call_inherits_nothing() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out([*create(LOG), *first_record(LOG, b"old")])
    again = [*delete(LOG), Sync(log=LOG, upto=Offset(1)), *create(LOG), *first_record(LOG, b"new")]
    events = storage.carry_out(again)
    assert events == [Deleted(log=LOG), Created(log=LOG), Synced(log=LOG, upto=Offset(1))]
    work(storage)
    assert storage.read(whole(LOG)).tobytes().endswith(b"new")
    assert not any(b"old" in data for data in files.copy().values())


def test_a_read_of_a_deleted_log_is_refused() -> None:
    storage = Storage(MemoryFiles())
    storage.carry_out([*create(LOG), *first_record(LOG), *delete(LOG)])
    seek = Seek(
        log=LOG, segment=Offset(0), timestamp=Timestamp(0), offset=Offset(0), below=Offset(1)
    )
    with pytest.raises(Refused) as read:
        storage.read(whole(LOG))
    with pytest.raises(Refused) as found:
        storage.time_search.find([seek])
    assert read.value.code is found.value.code is Code.TOPIC_NOT_FOUND


def test_a_failed_log_can_be_deleted_and_made_again() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out(create(LOG))
    files.faults.broken["sync", ".log"] = errno.EIO
    assert kinds(storage.carry_out(first_record(LOG))) == [Failed]
    files.faults.broken.clear()
    assert storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
    work(storage)
    assert files.faults.open_files == []
    assert storage.carry_out(create(LOG)) == [Created(log=LOG)]
    assert kinds(storage.carry_out(first_record(LOG))) == [Synced]


def test_a_log_that_is_being_compacted_can_be_deleted() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, COMPACTING)
    for number in range(90):
        driven.append([Message(key=b"k%d" % (number % 7), value=b"%030d" % number)])
    driven.carry_out(driven.log.maintain(driven.now))
    assert driven.storage.has_background_work
    driven.storage.work()
    assert driven.storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
    work(driven.storage)
    assert files.copy() == {}
    assert files.faults.open_files == []


def test_a_log_that_was_never_opened_can_be_deleted() -> None:
    files = MemoryFiles({f"{DIRECTORY}/{segment_name(0)}": b"whatever"})
    storage = Storage(files)
    assert storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
    assert storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
    work(storage)
    assert files.copy() == {}


@pytest.mark.parametrize(
    ("operation", "path"), [("rename", DIRECTORY), ("sync_directory", "trash")]
)
def test_a_deletion_that_is_refused_fails_the_log_and_removes_no_file(
    operation: str, path: str
) -> None:
    files = MemoryFiles()
    storage = Storage(files)
    storage.carry_out([*create(LOG), *first_record(LOG)])
    before = sorted(files.copy().values())
    files.faults.broken[operation, path] = errno.EIO
    assert kinds(storage.carry_out(delete(LOG))) == [Failed]
    work(storage)
    assert sorted(files.copy().values()) == before
    assert files.faults.open_files == []
    files.faults.broken.clear()
    assert storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]


def test_what_cannot_be_removed_from_the_trash_is_removed_after_the_next_start() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    for log in LOGS:
        storage.carry_out([*create(log), *first_record(log)])
    files.faults.broken["remove", ".log"] = errno.EIO
    assert storage.carry_out(delete(*LOGS)) == [Deleted(log=log) for log in LOGS]
    work(storage)
    assert files.faults.count("remove", ".log") == len(LOGS)
    files.faults.broken.clear()
    storage.carry_out(create(LOG))
    storage.close()

    again = Storage(files)
    assert again.find_trash() == len(LOGS)
    work(again)
    assert files.copy() == {}
    assert again.find_trash() == 0


def test_what_is_deleted_later_never_meets_what_an_earlier_process_left_in_the_trash() -> None:
    files = MemoryFiles({"trash/1/a": b"left", "trash/7/a": b"left", "trash/x": b"foreign"})
    storage = Storage(files)
    storage.carry_out([*create(LOG), *first_record(LOG)])
    assert storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
    assert "trash/8" in {path.rpartition("/")[0] for path in files.copy()}
    assert storage.find_trash() == 4
    work(storage)
    assert files.copy() == {}


def test_directories_within_a_deleted_log_go_too_but_are_not_followed_for_ever() -> None:
    deep = "/".join(["d"] * 20)
    files = MemoryFiles({f"{DIRECTORY}/a/b/c": b"", f"logs/orders/1/{deep}/file": b""})
    storage = Storage(files)
    storage.carry_out(delete(LOGS[0], LOGS[1]))
    work(storage)
    assert list(files.copy()) == [f"trash/2/{deep}/file"]


def test_the_core_may_open_what_was_created_in_an_earlier_life() -> None:
    files = MemoryFiles()
    Storage(files).carry_out(create(*LOGS))
    storage = Storage(files)
    for log in LOGS:
        machine = Log(log, SMALL, storage.open(log, SMALL).state)
        assert machine.end == 0
    assert storage.carry_out(first_record(LOG)) == [Synced(log=LOG, upto=Offset(1))]


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


def test_a_sweep_leaves_a_log_alone_that_was_opened_since_the_names_were_collected() -> None:
    storage = Storage(MemoryFiles(CONTENT))
    storage.open(LogId("new", 0), SMALL)
    (moved,) = storage.sweep(["orders"])
    assert moved.old == "logs/stray"


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
