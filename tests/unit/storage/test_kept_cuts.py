"""What a recovery cuts off although good records are in it is kept, within bounds."""

import errno

import pytest

from goqueue.storage import Cut, NameKind, classify
from tests.unit.storage.driven_log import DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles
from tests.unit.storage.test_opening import BASES, CONTENT, COUNT, LAST, TRUTH

KEPT = path_of(f"{BASES[-1]:020d}.log.cut-{len(CONTENT[LAST])}")


def following(count: int = 2) -> list[bytes]:
    """Records that would follow those of the log."""
    driven = DrivenLog(MemoryFiles(CONTENT))
    for number in range(count):
        driven.put(b"behind %d" % number)
    return [data for offset, data in driven.read_all().items() if offset >= COUNT]


BAD, GOOD = following()
TAIL = bytes(len(BAD)) + GOOD


def cut_of(files: MemoryFiles) -> Cut:
    cut = DrivenLog(files).opened.report.cut
    assert cut is not None
    return cut


def kept_in(content: Content) -> list[str]:
    names = [path.rpartition("/")[2] for path in content]
    return [name for name in names if classify(name) is NameKind.CUT]


def test_a_tail_with_a_good_record_behind_a_bad_one_is_kept() -> None:
    files = MemoryFiles({**CONTENT, LAST: CONTENT[LAST] + TAIL})
    cut = cut_of(files)
    assert cut.has_good_records
    assert (cut.kept, cut.kept_size) == (KEPT, len(TAIL))
    assert files.copy()[KEPT] == TAIL
    assert files.copy()[LAST] == CONTENT[LAST]
    again = DrivenLog(MemoryFiles(files.copy()))
    assert again.opened.report.is_clean
    assert not again.opened.report.foreign
    assert again.read_all() == TRUTH


@pytest.mark.parametrize("tail", [BAD[:-1], bytes(300), BAD[:20] + bytes(500), TRUTH[3]])
def test_a_torn_tail_without_a_good_record_is_not_kept(tail: bytes) -> None:
    files = MemoryFiles({**CONTENT, LAST: CONTENT[LAST] + tail})
    cut = cut_of(files)
    assert not cut.has_good_records
    assert not kept_in(files.copy())


def test_a_crash_anywhere_in_the_keeping_loses_neither_the_log_nor_the_copy() -> None:
    torn = {**CONTENT, LAST: CONTENT[LAST] + TAIL}
    steps = 0
    while True:
        files = MemoryFiles(torn)
        files.faults.operations_left = steps
        try:
            DrivenLog(files)
        except Killed:
            pass
        else:
            break
        again = MemoryFiles(files.copy())
        assert DrivenLog(again).read_all() == TRUTH
        assert again.copy()[KEPT] == TAIL
        assert len(kept_in(again.copy())) == 1
        steps += 1
    assert steps > 5


def test_a_log_keeps_few_cuts_and_opens_without_more() -> None:
    kept = {path_of(f"{BASES[-1]:020d}.log.cut-{number}"): b"x" for number in range(4)}
    files = MemoryFiles({**CONTENT, **kept, LAST: CONTENT[LAST] + TAIL})
    cut = cut_of(files)
    assert cut.has_good_records
    assert (cut.kept, cut.not_kept) == ("", "4 are kept already")
    assert len(kept_in(files.copy())) == 4


def test_a_cut_that_cannot_be_kept_does_not_hold_up_the_opening() -> None:
    files = MemoryFiles({**CONTENT, LAST: CONTENT[LAST] + TAIL})
    files.faults.broken["create", KEPT] = errno.ENOSPC
    driven = DrivenLog(files)
    cut = driven.opened.report.cut
    assert cut is not None
    assert "planted" in cut.not_kept
    assert driven.read_all() == TRUTH


def test_bytes_behind_a_torn_record_that_cannot_be_read_do_not_hold_up_the_opening() -> None:
    behind = bytes(3 << 20)
    files = MemoryFiles({**CONTENT, LAST: CONTENT[LAST] + b"GQ" + behind})
    files.faults.bad_sectors[LAST] = len(CONTENT[LAST]) + (2 << 20)
    driven = DrivenLog(files)
    assert driven.opened.report.cut is not None
    assert driven.read_all() == TRUTH
