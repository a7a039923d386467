"""Every file that is opened is closed once, whatever goes wrong in between."""

import errno

import msgspec
import pytest

from goqueue.model import Cleanup, Message, Offset, Refused, Sync, Write
from goqueue.records import build
from goqueue.storage import SegmentFile, Storage, segment_name
from tests.unit.storage.driven_log import DIRECTORY, LOG, SMALL, DrivenLog, path_of
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
