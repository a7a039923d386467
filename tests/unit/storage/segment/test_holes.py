"""Damage within a segment: only the damaged records are refused, whatever happens to the log."""

import errno

import msgspec
import pytest

from goqueue.model import HOUR, Cleanup, Code, Message, Refused
from goqueue.records import decode
from tests.unit.storage.driven_log import SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, MemoryFiles

COUNT = 60

COMPACTING = msgspec.structs.replace(
    SMALL, cleanup=Cleanup.COMPACT, dirty_percent_min=1, tombstone_ns=HOUR
)


def filled() -> tuple[Content, DrivenLog]:
    files = MemoryFiles()
    driven = DrivenLog(files)
    for number in range(COUNT):
        driven.append([Message(key=b"k%02d" % number, value=b"%030d" % number)])
    return files.copy(), driven


CONTENT, WHOLE = filled()

TRUTH = WHOLE.read_all()

BASES = [segment.base for segment in WHOLE.log.segments]

FIRST = path_of(f"{0:020d}.log")

LENGTH = len(TRUTH[0])


def harmed(position: int, content: Content = CONTENT, name: str = FIRST) -> Content:
    data = bytearray(content[name])
    data[position] ^= 1
    return {**content, name: bytes(data)}


def lost_in(driven: DrivenLog) -> list[int]:
    return [o for gap in driven.log.damaged for o in range(gap.first, gap.below)]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("has_index", [True, False])
def test_one_flipped_byte_refuses_one_record_wherever_it_is(has_index: bool, step: int) -> None:
    content = {path: data for path, data in CONTENT.items() if has_index or "index" not in path}
    for position in range(0, BASES[1] * LENGTH, step):
        files = MemoryFiles(harmed(position, content))
        record = position // LENGTH
        expected = {o: data for o, data in TRUTH.items() if o != record}
        driven = DrivenLog(files)
        assert driven.read_all() == expected, position
        assert lost_in(driven) == [record]
        again = DrivenLog(MemoryFiles(files.copy()))
        # What was found is remembered, before anybody reads.
        assert lost_in(again) == [record]
        assert again.read_all() == expected, position


def test_a_read_of_damage_says_where_to_go_on() -> None:
    driven = DrivenLog(MemoryFiles(harmed(5 * LENGTH + 40)))
    with pytest.raises(Refused) as refused:
        driven.read(5)
    assert refused.value.code is Code.RECORDS_DAMAGED
    assert refused.value.facts["next_offset"] == 6
    assert list(driven.read(0)) == [0, 1, 2, 3, 4]
    assert min(driven.read(6)) == 6


def test_several_damaged_records_in_a_row_and_apart_are_refused_and_no_others() -> None:
    content = CONTENT
    for record in (3, 4, 5, 9, BASES[1] - 1):
        content = harmed(record * LENGTH + 50, content)
    driven = DrivenLog(MemoryFiles(content))
    driven.read_all()
    assert lost_in(driven) == [3, 4, 5, 9, BASES[1] - 1]


def test_a_damaged_active_segment_is_written_to_and_read_as_before() -> None:
    name = path_of(f"{BASES[-1]:020d}.log")
    files = MemoryFiles(harmed(40, name=name))
    driven = DrivenLog(files)
    driven.read_all()
    assert driven.put(b"after").first == COUNT
    for each in (driven, DrivenLog(MemoryFiles(files.copy()))):
        assert sorted([*each.read_all(), *lost_in(each)]) == list(range(COUNT + 1))
        assert lost_in(each) == [BASES[-1]]
    assert [path for path in files.copy() if "quarantined" in path] == []


def test_a_disk_that_writes_nothing_down_still_serves_what_is_good() -> None:
    files = MemoryFiles(harmed(5 * LENGTH + 40))
    files.faults.broken["create", ".holes"] = errno.ENOSPC
    driven = DrivenLog(files)
    assert len(driven.read_all()) == COUNT - 1
    again = DrivenLog(MemoryFiles(files.copy()))
    assert len(again.read_all()) == COUNT - 1


def test_what_is_remembered_of_damage_goes_with_its_segment() -> None:
    settings = msgspec.structs.replace(SMALL, retention_ns=HOUR)
    files = MemoryFiles(harmed(5 * LENGTH + 40))
    driven = DrivenLog(files, settings)
    driven.read_all()
    assert path_of(f"{0:020d}.holes") in files.copy()
    driven.pass_time(3 * HOUR)
    driven.put(b"newer")
    driven.maintain()
    assert driven.log.start > BASES[1]
    assert driven.log.damaged == ()
    assert not [path for path in files.copy() if path.endswith(".holes")]


def test_compaction_beside_damage_brings_no_deleted_value_back() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, COMPACTING)
    driven.append([Message(key=b"gone", value=b"secret")])
    for number in range(40):
        driven.append([Message(key=b"%d" % number, value=b"%030d" % number)])
    driven.append([Message(key=b"gone", value=None)])
    for number in range(80):
        driven.append([Message(key=b"%d" % number, value=b"%030d" % number)])
    driven.close()
    length = len(TRUTH[0])
    files = MemoryFiles(harmed(3 * length, files.copy()))
    driven = DrivenLog(files, COMPACTING)
    driven.read_all()
    assert driven.log.damaged

    driven.pass_time(48 * HOUR)
    for _ in range(3):
        driven.maintain()
        driven.put(b"x" * 900)
        driven.put(b"x" * 900)

    records = [decode(data) for data in driven.read_all().values()]
    newest = {record.key: record.value for record in records}
    assert newest[b"gone"] is None
    assert driven.log.failure is None


def test_a_file_of_damage_that_lies_is_not_believed() -> None:
    files = MemoryFiles(harmed(5 * LENGTH + 40))
    DrivenLog(files).read_all()
    content = files.copy()
    kept = path_of(f"{0:020d}.holes")
    content[kept] = content[kept].replace(b'"first":5', b'"first":1')
    driven = DrivenLog(MemoryFiles(content))
    assert list(driven.read_all()) == [o for o in range(COUNT) if o != 5]
