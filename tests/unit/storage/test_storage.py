"""What storage makes of a disk that refuses: full is a pause, anything else is the end."""

import errno

import msgspec
import pytest

from goqueue.log import Log, LogState
from goqueue.model import (
    Code,
    Dropped,
    Effect,
    Failed,
    Filled,
    Flush,
    Message,
    Offset,
    Refused,
    Synced,
)
from goqueue.records import build
from tests.unit.storage.driven_log import LOG, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import MemoryFiles

FIRST_LOG = f"{0:020d}.log"


def gather(driven: DrivenLog, *values: bytes) -> list[Effect]:
    """The effects of many appends, none of them carried out yet."""
    effects: list[Effect] = []
    for value in values:
        effects += driven.log.append(build([Message(value=value)]), driven.now).effects
    return effects


# Group commit


def test_many_batches_handed_over_at_once_share_one_sync() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    effects = gather(driven, *(b"%d" % number for number in range(30)))
    files.faults.calls.clear()

    events = driven.carry_out(effects)

    assert files.faults.count("sync", ".log") == 1
    assert events == [Synced(log=LOG, upto=Offset(30))]
    assert driven.log.high_watermark == 30


def test_batches_handed_over_at_once_are_one_write_and_a_commit_touches_nothing_else() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"first")
    effects = gather(driven, *(b"%d" % number for number in range(30)))
    files.faults.calls.clear()

    driven.storage.carry_out(effects)

    assert files.faults.calls == [("write", path_of(FIRST_LOG)), ("sync", path_of(FIRST_LOG))]


def test_a_new_segment_between_batches_parts_their_writes() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    effects = gather(driven, *(b"%40d" % number for number in range(60)))

    driven.carry_out(effects)

    segments = len(driven.log.segments)
    assert segments >= 3
    assert files.faults.count("write", ".log") == segments
    assert list(driven.read_all()) == list(range(60))
    assert DrivenLog(MemoryFiles(files.copy())).read_all() == driven.read_all()


def test_a_disk_that_fails_in_a_write_of_many_batches_is_not_tried_again() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"kept")
    effects = gather(driven, b"one", b"two", b"three")
    files.faults.broken["write", ".log"] = errno.EIO
    files.faults.calls.clear()

    events = driven.carry_out(effects)

    assert [type(event) for event in events] == [Failed]
    assert files.faults.count("write", ".log") == 1


def test_of_batches_that_find_no_space_together_as_many_are_kept_as_fit() -> None:
    size = len(build([Message(value=b"%40d" % 0)]))
    for room in range(0, 4 * size, 7):
        files = MemoryFiles()
        driven = DrivenLog(files)
        driven.put(b"kept")
        effects = gather(driven, *(b"%40d" % number for number in range(4)))
        files.faults.room = room

        driven.carry_out(effects)

        assert driven.log.end == driven.log.high_watermark == 1 + room // size
        assert len(driven.read_all()) == 1 + room // size
        assert DrivenLog(MemoryFiles(files.copy())).read_all() == driven.read_all()


def test_a_log_that_was_not_written_to_is_not_synced() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"one")
    files.faults.calls.clear()
    driven.maintain()
    assert files.faults.count("sync") == 0


def test_interval_flush_commits_without_waiting_for_the_disk() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, msgspec.structs.replace(SMALL, flush=Flush.INTERVAL))
    driven.put(b"one")
    files.faults.calls.clear()

    driven.put(b"two")

    assert driven.log.high_watermark == 2
    assert driven.log.watermarks.durable == 0
    assert files.faults.count("sync") == 0
    driven.pass_time(driven.settings.flush_interval_ns)
    driven.carry_out(driven.log.expire(driven.now))
    assert driven.log.watermarks.durable == 2
    assert files.faults.count("sync", ".log") == 1


# No space


def test_a_write_without_space_leaves_nothing_behind_for_any_number_of_bytes() -> None:
    size = len(build([Message(value=b"x" * 40)]))
    for room in range(size):
        files = MemoryFiles()
        driven = DrivenLog(files)
        driven.put(b"kept")
        before = files.copy()[path_of(FIRST_LOG)]
        files.faults.room = room

        driven.put(b"x" * 40)

        assert files.copy()[path_of(FIRST_LOG)] == before
        assert driven.log.failure is None
        assert (driven.log.end, driven.log.high_watermark) == (1, 1)


def test_a_full_disk_refuses_until_the_retry_and_then_recovers_by_itself() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"kept")
    files.faults.room = 10

    driven.put(b"x" * 40)
    with pytest.raises(Refused) as refused:
        driven.put(b"refused")
    assert refused.value.code is Code.STORAGE_FULL
    assert refused.value.code.is_retriable
    assert list(driven.read_all()) == [0]

    files.faults.room = None
    driven.pass_time(driven.settings.full_retry_ns)
    assert driven.put(b"again").first == 1
    assert list(driven.read_all()) == [0, 1]
    assert DrivenLog(MemoryFiles(files.copy())).read_all() == driven.read_all()


def test_a_disk_that_is_still_full_at_the_retry_refuses_again() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    files.faults.room = 10
    for _ in range(3):
        driven.put(b"x" * 40)
        assert driven.log.end == 0
        driven.pass_time(driven.settings.full_retry_ns)
    assert driven.log.failure is None


def test_writes_on_their_way_behind_a_full_disk_are_not_committed() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"kept")
    effects = gather(driven, b"fits", b"x" * 400, b"would fit")
    files.faults.room = 100

    events = driven.carry_out(effects)

    assert [type(event) for event in events[:2]] == [Synced, Filled]
    assert (driven.log.end, driven.log.high_watermark) == (2, 2)
    assert list(driven.read_all()) == [0, 1]


def test_a_deletion_that_deletes_nothing_needs_no_space() -> None:
    """An operator deletes what is before the start of a log that has no recovery point yet."""
    files = MemoryFiles()
    driven = DrivenLog(files)
    files.faults.broken["create", "recovery-point"] = errno.ENOSPC
    driven.put(b"no room")
    assert driven.log.end == 0

    events = driven.carry_out(driven.log.delete_before(Offset(0)))

    assert events == [Dropped(log=LOG, start=Offset(0))]
    assert driven.log.failure is None


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", "recovery-point"])
@pytest.mark.parametrize("operation", ["create", "write"])
def test_a_log_outlives_a_disk_that_is_full_for_any_of_its_files(
    operation: str, ending: str
) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    committed = [driven.put(b"%30d" % number).first for number in range(20)]
    files.faults.broken[operation, ending] = errno.ENOSPC
    for number in range(40):
        try:
            appended = driven.put(b"%30d" % number)
        except Refused as refused:
            assert refused.code is Code.STORAGE_FULL
            break
        if driven.log.high_watermark >= appended.next:
            committed.append(appended.first)
    assert driven.log.failure is None
    files.faults.broken.clear()

    driven.pass_time(driven.settings.full_retry_ns)
    committed += [driven.put(b"%30d" % number).first for number in range(40)]

    assert driven.log.failure is None
    assert list(driven.read_all()) == committed
    again = DrivenLog(MemoryFiles(files.copy()))
    assert again.read_all() == driven.read_all()
    assert again.opened.report.is_clean


@pytest.mark.parametrize("operation", ["open", "create", "write"])
@pytest.mark.parametrize("ending", [".index", ".timeindex"])
def test_a_cache_that_cannot_be_written_does_not_fail_the_log(operation: str, ending: str) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    files.faults.broken[operation, ending] = errno.EMFILE
    for number in range(60):
        driven.put(b"%30d" % number)
    assert driven.log.failure is None
    assert len(driven.read_all()) == 60
    files.faults.broken.clear()
    for number in range(60):
        driven.put(b"%30d" % number)
    assert len(DrivenLog(MemoryFiles(files.copy())).read_all()) == 120


# Errors that are final


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_fails_is_the_end_and_is_never_tried_again(number: int) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"kept")
    files.faults.broken["sync", ".log"] = number
    driven.put(b"lost")
    assert isinstance(driven.events[-1], Failed)
    files.faults.broken.clear()
    files.faults.calls.clear()

    with pytest.raises(Refused) as refused:
        driven.put(b"more")
    assert refused.value.code is Code.STORAGE_FAILED
    assert driven.log.high_watermark == 1
    assert list(driven.read_all()) == [0]
    driven.maintain()
    driven.close()
    assert files.faults.count("sync") == 0
    assert files.faults.count("write") == 0


def test_a_write_error_other_than_no_space_is_the_end() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"kept")
    files.faults.broken["write", ".log"] = errno.EIO
    driven.put(b"lost")
    assert driven.log.failure is not None
    assert driven.log.failure.startswith("EIO")
    assert list(driven.read_all()) == [0]


def test_a_batch_that_could_not_be_taken_back_is_the_end() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"kept")
    files.faults.room = 10
    files.faults.broken["truncate", ".log"] = errno.EIO
    driven.put(b"x" * 40)
    assert driven.log.failure is not None
    files.faults.broken.clear()
    files.faults.room = None
    again = DrivenLog(MemoryFiles(files.copy()))
    assert list(again.read_all()) == [0]
    assert again.opened.report.cut is not None


def test_effects_behind_a_failure_in_the_same_call_do_nothing() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    effects = gather(driven, *(b"%40d" % number for number in range(60)))
    files.faults.broken["write", f"{0:020d}.log"] = errno.EIO
    events = driven.carry_out(effects)
    assert [type(event) for event in events] == [Failed]
    assert driven.log.high_watermark == 0
    assert files.faults.count("create", ".log") == 1


def test_one_failed_log_leaves_the_others_alone() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    other = msgspec.structs.replace(LOG, partition=1)
    driven.storage.open(other, SMALL)
    log = Log(other, SMALL, LogState())
    files.faults.broken["sync", f"/0/{FIRST_LOG}"] = errno.EIO
    driven.put(b"lost")
    assert driven.log.failure is not None

    appended = log.append(build([Message(value=b"kept")]), driven.now)

    assert driven.storage.carry_out(appended.effects) == [Synced(log=other, upto=Offset(1))]
    driven.storage.close()
    assert files.faults.count("sync", "/1/recovery-point") > 0
