"""The recovery point on disk: two slots, of which a torn write costs one."""

import errno

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import RecoveryPoint
from goqueue.model import Offset
from goqueue.storage import read_point
from goqueue.storage.recovery_point import RecoveryPointFile
from tests.unit.storage.memory_files import MemoryFiles

SLOT = 512
PATH = "log/recovery-point"


def point(offset: int) -> RecoveryPoint:
    return RecoveryPoint(
        sequence=0, segment=Offset(0), position=offset * 50, offset=Offset(offset), start=Offset(0)
    )


def offset_in(data: bytes) -> int | None:
    found = read_point(data)
    return None if found is None else found.offset


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles({"log/other": b""})


def opened_at(files: MemoryFiles, promise: RecoveryPoint) -> RecoveryPointFile:
    """A file whose only promise is this one."""
    opened = RecoveryPointFile(files, "log", promise)
    opened.save_durably(promise)
    return opened


def saved(files: MemoryFiles, *offsets: int) -> bytes:
    """The file after a durable save of offset 1 and plain saves of these."""
    opened = opened_at(files, point(1))
    for offset in offsets:
        opened.save(point(offset))
    return files.copy()[PATH]


def test_the_newest_point_is_read_back(files: MemoryFiles) -> None:
    assert offset_in(saved(files, 2)) == 2
    assert offset_in(files.copy()[PATH]) == 2


@pytest.mark.parametrize("count", range(1, 6))
def test_a_torn_slot_leaves_the_point_before_it(files: MemoryFiles, count: int) -> None:
    data = saved(files, *range(2, 2 + count))
    newest = data.index(b'"offset":%d,' % (1 + count)) // SLOT

    for torn_at in range(SLOT * newest, SLOT * newest + 60):
        torn = bytearray(data)
        torn[torn_at] ^= 0x10
        assert offset_in(bytes(torn)) == count


def test_two_torn_slots_are_no_point(files: MemoryFiles) -> None:
    torn = bytearray(saved(files, 2, 3))
    torn[5] ^= 1
    torn[SLOT + 5] ^= 1
    assert read_point(bytes(torn)) is None


def test_a_durable_save_leaves_no_older_promise_and_is_synced(files: MemoryFiles) -> None:
    opened = opened_at(files, point(9))
    files.faults.calls.clear()

    opened.save_durably(point(4))

    data = files.copy()[PATH]
    assert offset_in(data[:SLOT]) == offset_in(bytes(SLOT) + data[SLOT:]) == 4
    assert files.faults.calls[-2:] == [("sync", PATH), ("close", PATH)]


def test_a_plain_save_does_not_wait_for_the_disk(files: MemoryFiles) -> None:
    opened = opened_at(files, point(1))
    files.faults.calls.clear()
    opened.save(point(2))
    assert files.faults.count("sync") == 0


def test_the_sequence_goes_on_after_a_restart(files: MemoryFiles) -> None:
    before = read_point(saved(files, 2, 3, 4))
    assert before is not None
    opened_at(files, msgspec.structs.replace(point(2), sequence=before.sequence))
    assert offset_in(files.copy()[PATH]) == 2


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_saves_that_fail_never_touch_the_slot_of_the_newest_promise(
    files: MemoryFiles, failures: int
) -> None:
    opened = opened_at(files, point(1))
    opened.save(point(2))
    before = files.copy()[PATH]
    newest = before.index(b'"offset":2,') // SLOT
    files.faults.broken["write", PATH] = errno.EIO
    for _ in range(failures):
        with pytest.raises(OSError, match="planted"):
            opened.save(point(3))
    files.faults.broken.clear()

    opened.save(point(4))

    after = files.copy()[PATH]
    assert after[newest * SLOT :][:SLOT] == before[newest * SLOT :][:SLOT]
    assert offset_in(after) == 4


def test_a_promise_that_could_not_be_saved_is_not_the_newest(files: MemoryFiles) -> None:
    opened = opened_at(files, point(1))
    files.faults.broken["write", PATH] = errno.ENOSPC
    with pytest.raises(OSError, match="planted"):
        opened.save(point(2))
    assert opened.point.offset == 1


def test_the_file_is_open_only_while_it_is_written(files: MemoryFiles) -> None:
    opened = opened_at(files, point(1))
    opened.save(point(2))
    files.faults.broken["write", PATH] = errno.EIO
    with pytest.raises(OSError, match="planted"):
        opened.save_durably(point(3))
    assert files.faults.open_files == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_sync_of_the_point_that_fails_is_never_one_that_passes(
    files: MemoryFiles, number: int
) -> None:
    opened = opened_at(files, point(1))
    files.faults.broken["sync", PATH] = number
    with pytest.raises(OSError, match="planted") as raised:
        opened.save_durably(point(2))
    assert raised.value.errno == errno.EIO


@given(st.binary(max_size=1_200))
def test_any_bytes_are_a_point_or_none(data: bytes) -> None:
    assert read_point(data) is None


@given(st.integers(0, 1023), st.integers(1, 255), st.integers(0, 1024))
def test_changed_bytes_never_make_a_promise_that_was_not_made(
    position: int, change: int, size: int
) -> None:
    data = bytearray(saved(MemoryFiles({"log/other": b""}), 2, 3))
    data[position] ^= change
    assert offset_in(bytes(data[:size])) in {None, 2, 3}
