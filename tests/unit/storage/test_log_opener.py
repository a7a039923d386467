"""Opening a log: what a crash left is mended, what was lost is said."""

import errno

import msgspec
import pytest

from goqueue.model import Cleanup, Code, Message, Offset, Refused
from goqueue.storage import POINT_FILE, Cut, EntryKind
from tests.unit.storage.driven_log import DIRECTORY, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, MemoryFiles

COUNT = 90


def filled(is_stopped: bool) -> tuple[Content, DrivenLog]:
    files = MemoryFiles()
    driven = DrivenLog(files)
    for number in range(COUNT):
        driven.put(b"%030d" % number)
    if is_stopped:
        driven.close()
    return files.copy(), driven


CONTENT, OPEN = filled(is_stopped=False)
STOPPED, _ = filled(is_stopped=True)
TRUTH = OPEN.read_all()
BASES = [segment.base for segment in OPEN.log.segments]
LAST = path_of(f"{BASES[-1]:020d}.log")


def test_a_new_log_is_empty_and_clean_and_has_no_files_before_its_first_record() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    assert driven.opened.report.is_clean
    assert (driven.log.start, driven.log.end) == (0, 0)
    assert files.copy() == {}
    assert files.kind(DIRECTORY) is EntryKind.DIRECTORY

    driven.put(b"first")

    made = {path_of(f"{0:020d}.log"), path_of("epochs.json"), path_of(POINT_FILE)}
    assert made <= set(files.copy())


def test_a_new_log_that_is_stopped_opens_again_as_new() -> None:
    files = MemoryFiles()
    for _ in range(2):
        DrivenLog(files).close()
    assert files.copy() == {}
    assert DrivenLog(files).put(b"first").first == 0


@pytest.mark.parametrize("is_stopped", [True, False])
def test_an_opening_with_nothing_to_mend_changes_nothing_and_waits_for_nothing(
    is_stopped: bool,
) -> None:
    files = MemoryFiles(STOPPED if is_stopped else CONTENT)
    before = files.copy()
    driven = DrivenLog(files)
    assert driven.read_all() == TRUTH
    assert {call for call, _ in files.faults.calls} <= {"open", "read", "close"}
    driven.close()
    assert files.copy() == before


def test_before_the_first_change_all_that_an_earlier_process_left_is_made_durable() -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files)
    driven.put(b"first change")
    calls = files.faults.calls
    written = calls.index(("write", LAST))
    for settled in [("truncate", LAST), ("sync", LAST), ("sync", path_of(POINT_FILE))]:
        assert calls.index(settled) < written
    assert calls.index(("sync_directory", DIRECTORY)) < written
    files.faults.calls.clear()
    driven.put(b"second change")
    assert files.faults.count("sync") == 1
    assert files.faults.count("sync_directory") == 0


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize(
    ("operation", "path"), [("sync", LAST), ("sync", path_of(POINT_FILE)), ("sync_directory", "")]
)
def test_a_log_whose_ground_cannot_be_made_sure_of_fails_at_its_first_write(
    operation: str, path: str, number: int
) -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files)
    files.faults.broken[operation, path] = number
    driven.put(b"lost")
    assert driven.log.failure is not None
    files.faults.broken.clear()
    assert driven.read_all() == TRUTH
    assert DrivenLog(MemoryFiles(files.copy())).read_all() == TRUTH


def test_after_a_clean_stop_nothing_is_scanned() -> None:
    driven = DrivenLog(MemoryFiles(STOPPED))
    assert driven.opened.report.is_clean
    assert driven.opened.report.scanned_bytes == 0
    assert driven.opened.report.rebuilt_indexes == ()
    assert driven.read_all() == TRUTH


@pytest.mark.parametrize("tail", [b"G", b"GQ\x01\x00", b"\0" * 100, b"\xff" * 5_000])
def test_a_torn_tail_is_cut_and_reported(tail: bytes) -> None:
    files = MemoryFiles({**CONTENT, LAST: CONTENT[LAST] + tail})
    driven = DrivenLog(files)
    cut = driven.opened.report.cut
    assert isinstance(cut, Cut)
    assert (cut.segment, cut.position, cut.size) == (BASES[-1], len(CONTENT[LAST]), len(tail))
    assert cut.reason
    assert driven.read_all() == TRUTH
    assert files.copy()[LAST] == CONTENT[LAST]
    assert DrivenLog(MemoryFiles(files.copy())).opened.report.is_clean


def test_whole_records_above_the_point_that_do_not_follow_on_are_cut() -> None:
    stale = TRUTH[5]
    driven = DrivenLog(MemoryFiles({**CONTENT, LAST: CONTENT[LAST] + stale}))
    assert driven.opened.report.cut is not None
    assert driven.log.end == COUNT
    assert driven.read_all() == TRUTH


def test_whole_records_above_the_point_are_kept() -> None:
    point = path_of(POINT_FILE)
    shorter = MemoryFiles()
    driven = DrivenLog(shorter)
    for number in range(BASES[-1] + 4):
        driven.put(b"%030d" % number)
    again = DrivenLog(MemoryFiles({**CONTENT, point: shorter.copy()[point]}))
    assert again.opened.report.is_clean
    assert again.opened.report.scanned_bytes > 0
    assert again.read_all() == TRUTH


def test_a_last_segment_shorter_than_promised_is_damage_and_not_a_torn_tail() -> None:
    files = MemoryFiles({**CONTENT, LAST: CONTENT[LAST][:-1]})
    driven = DrivenLog(files)
    report = driven.opened.report
    assert [(gap.first, gap.below) for gap in report.damaged] == [(BASES[-1], COUNT)]
    assert not report.is_clean
    assert report.set_aside == (BASES[-1],)
    assert files.copy()[f"{LAST}.quarantined"] == CONTENT[LAST][:-1]
    assert driven.put(b"goes on").first == COUNT


def test_damage_in_a_sealed_segment_is_refused_when_it_is_read_and_stays_so() -> None:
    name = path_of(f"{BASES[0]:020d}.log")
    harmed = bytearray(CONTENT[name])
    harmed[100] ^= 4
    files = MemoryFiles({**CONTENT, name: bytes(harmed)})
    driven = DrivenLog(files)
    with pytest.raises(Refused) as refused:
        driven.read(1)
    assert refused.value.code is Code.RECORDS_DAMAGED
    assert refused.value.facts["next_offset"] == 2
    assert files.copy()[name] == bytes(harmed)
    for each in (driven, DrivenLog(MemoryFiles(files.copy()))):
        assert list(each.read_all()) == [0, *range(2, COUNT)]
        assert [(gap.first, gap.below) for gap in each.log.damaged] == [(1, 2)]


def test_damage_in_the_active_segment_does_not_stop_writes() -> None:
    harmed = bytearray(CONTENT[LAST])
    harmed[100] ^= 4
    files = MemoryFiles({**CONTENT, LAST: bytes(harmed)})
    driven = DrivenLog(files)
    with pytest.raises(Refused) as refused:
        driven.read(BASES[-1] + 1)
    assert refused.value.code is Code.RECORDS_DAMAGED
    assert driven.put(b"goes on").first == COUNT
    for each in (driven, DrivenLog(MemoryFiles(files.copy()))):
        assert list(each.read_all()) == [o for o in range(COUNT + 1) if o != BASES[-1] + 1]


def test_every_record_of_the_log_is_in_a_segment_or_refused_after_each_lost_file() -> None:
    for base in BASES:
        content = dict(CONTENT)
        del content[path_of(f"{base:020d}.log")]
        driven = DrivenLog(MemoryFiles(content))
        served = driven.read_all()
        refused = [o for gap in driven.log.damaged for o in range(gap.first, gap.below)]
        assert sorted([*served, *refused]) == list(range(COUNT))
        assert driven.log.end == COUNT


def test_the_start_of_a_log_whose_oldest_segments_were_deleted_is_kept() -> None:
    settings = msgspec.structs.replace(SMALL, retention_bytes=2_500)
    files = MemoryFiles()
    driven = DrivenLog(files, settings)
    for number in range(COUNT):
        driven.put(b"%030d" % number)
    driven.maintain()
    assert driven.log.start > 0
    again = DrivenLog(MemoryFiles(files.copy()), settings)
    assert again.log.start == driven.log.start
    assert not again.log.damaged
    with pytest.raises(Refused) as refused:
        again.read(0)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE
    assert refused.value.facts["earliest"] == driven.log.start


def test_a_deletion_whose_roll_found_no_space_loses_nothing_appended_later() -> None:
    settings = msgspec.structs.replace(SMALL, retention_ns=1_000)
    files = MemoryFiles()
    driven = DrivenLog(files, settings)
    for number in range(40):
        driven.put(b"%030d" % number)
    driven.pass_time(10_000)
    files.faults.broken["create", ".log"] = 28
    driven.maintain()
    files.faults.broken.clear()
    driven.pass_time(settings.full_retry_ns)
    first = driven.put(b"after").first
    assert first == 40
    assert driven.log.failure is None

    again = DrivenLog(MemoryFiles(files.copy()), settings)
    assert not again.log.damaged
    assert again.read(first)[first].endswith(b"after")


def test_epochs_come_from_their_records_when_the_copy_is_lost() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files, msgspec.structs.replace(SMALL, cleanup=Cleanup.DELETE))
    for epoch in (2, 5, 9):
        driven.start_epoch(epoch)
        for number in range(30):
            driven.append([Message(value=b"%030d" % number)])
    history = driven.log.epochs.history
    assert history == ((2, 0), (5, 31), (9, 62))
    content = files.copy()
    for lost in (None, b"", b"{}", b"[]", b'{"crc":1,"epochs":[[1,0]]}', b"\xff\xfe", b"[" * 3_000):
        if lost is None:
            del content[path_of("epochs.json")]
        else:
            content[path_of("epochs.json")] = lost
        again = DrivenLog(MemoryFiles(content))
        assert again.log.epochs.history == history
        assert again.log.epochs.end_of(5, again.log.end) == (5, Offset(62))
