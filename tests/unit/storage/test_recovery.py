"""What a recovery cuts off: torn batches as a whole; good records are kept aside, in bounds."""

import errno

import pytest

from goqueue.log import BatchMark
from goqueue.model import LogSettings, Message
from goqueue.records import build, walk
from goqueue.storage import POINT_FILE, Cut, NameKind, classify
from tests.unit.storage.driven_log import SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles
from tests.unit.storage.test_log_opener import BASES, CONTENT, COUNT, LAST, TRUTH

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


ROOMY = LogSettings(segment_bytes=64 << 20, retention_ns=None)

SECTOR = 512

MIB = 1 << 20


def mark_of(count: int, sequence: int = 0, transaction: int = 0) -> BatchMark:
    return BatchMark(
        producer=7, epoch=0, sequence=sequence, count=count, transaction=transaction, at=0
    )


def append_marked(driven: DrivenLog, messages: list[Message], mark: BatchMark) -> None:
    driven.carry_out(driven.log.append(build(messages), driven.now, mark).effects)


class Torn:
    """A log with a whole past, and the same with one more batch whose write a crash may cut."""

    def __init__(
        self, messages: list[Message], settings: LogSettings = SMALL, *, is_marked: bool = True
    ) -> None:
        files = MemoryFiles()
        driven = DrivenLog(files, settings)
        for number in range(45):
            driven.put(b"%030d" % number)
        append_marked(driven, [Message(value=b"whole")] * 3, mark_of(3))
        self.settings = settings
        self.before = files.copy()
        self.truth = driven.read_all()
        if is_marked:
            append_marked(driven, messages, mark_of(len(messages), sequence=3))
        else:
            driven.append(messages)
        self.after = files.copy()
        self.all = driven.read_all()
        self.path = path_of(f"{driven.log.segments[-1].base:020d}.log")
        self.start = len(self.before.get(self.path, b""))
        self.end = len(self.after[self.path])

    def left(self, data: bytes, point: bytes | None) -> Content:
        """What a crash leaves: the segment holds `data`, and the promise is as it was."""
        content = {**self.before, self.path: data}
        del content[path_of(POINT_FILE)]
        return content if point is None else {**content, path_of(POINT_FILE): point}

    def points(self) -> list[bytes | None]:
        """The promise before the batch, and none at all."""
        return [self.before[path_of(POINT_FILE)], None]

    def check_gone(self, data: bytes, point: bytes | None) -> None:
        """Opened over this, the log has nothing of the batch and continues as before it."""
        files = MemoryFiles(self.left(data, point))
        driven = DrivenLog(files, self.settings)
        assert driven.read_all() == self.truth
        assert driven.log.end == len(self.truth)
        cut = driven.opened.report.cut
        assert cut is not None
        assert (cut.position, cut.size) == (self.start, len(data) - self.start)
        assert len(files.copy()[self.path]) == self.start
        driven.put(b"next")
        again = DrivenLog(MemoryFiles(files.copy()), self.settings)
        assert again.opened.report.is_clean
        assert {offset: again.read_all()[offset] for offset in self.truth} == self.truth
        assert again.log.end == len(self.truth) + 1


@pytest.mark.parametrize("count", [2, 3])
def test_a_marked_batch_that_is_cut_at_any_byte_leaves_nothing(count: int) -> None:
    torn = Torn([Message(key=b"k", value=b"%020d" % number) for number in range(count)])
    for end in range(torn.start + 1, torn.end):
        for point in torn.points():
            torn.check_gone(torn.after[torn.path][:end], point)


def test_a_marked_batch_with_any_sector_missing_leaves_nothing() -> None:
    torn = Torn([Message(value=bytes([65 + number]) * 400) for number in range(20)], ROOMY)
    data = torn.after[torn.path]
    for sector in range(torn.start - torn.start % SECTOR, torn.end, SECTOR):
        first = max(sector, torn.start)
        hole = bytes(min(sector + SECTOR, torn.end) - first)
        for point in torn.points():
            torn.check_gone(data[:first] + hole + data[first + len(hole) :], point)


@pytest.mark.parametrize("cut", [1, MIB - 300, MIB, MIB + 1, 2 * MIB, 3 * MIB + 77])
def test_a_marked_batch_of_several_reads_leaves_nothing_when_it_is_cut(cut: int) -> None:
    torn = Torn([Message(value=b"x" * 9_000)] * 450, ROOMY)
    assert torn.start + cut < torn.end
    for point in torn.points():
        torn.check_gone(torn.after[torn.path][: torn.start + cut], point)


def test_a_marked_batch_that_opens_a_segment_leaves_nothing_when_it_is_cut() -> None:
    torn = Torn([Message(value=b"x" * 300)] * 6)
    assert torn.start == 0
    columns = walk(torn.after[torn.path])
    for end in columns.positions[1:]:
        torn.check_gone(torn.after[torn.path][:end], torn.before[path_of(POINT_FILE)])


def test_a_marked_batch_that_is_all_there_is_kept() -> None:
    torn = Torn([Message(value=b"x" * 9_000)] * 450, ROOMY)
    for point in torn.points():
        content = torn.left(torn.after[torn.path], point)
        driven = DrivenLog(MemoryFiles(content), ROOMY)
        assert driven.opened.report.cut is None
        assert driven.read_all() == torn.all


def test_a_whole_batch_stays_when_the_one_behind_it_is_cut() -> None:
    torn = Torn([Message(value=b"v" * 40)] * 5)
    files = MemoryFiles(torn.left(torn.after[torn.path], torn.before[path_of(POINT_FILE)]))
    driven = DrivenLog(files)
    append_marked(driven, [Message(value=b"w" * 40)] * 4, mark_of(4))
    whole = files.copy()[torn.path]
    for end in range(torn.end + 1, len(whole)):
        again = DrivenLog(MemoryFiles(torn.left(whole[:end], torn.before[path_of(POINT_FILE)])))
        assert again.read_all() == torn.all


def test_a_batch_without_a_mark_may_be_kept_in_part() -> None:
    torn = Torn([Message(value=b"x" * 20)] * 4, is_marked=False)
    end = walk(torn.after[torn.path][torn.start :]).positions[2]
    content = torn.left(torn.after[torn.path][: torn.start + end + 5], torn.points()[0])
    driven = DrivenLog(MemoryFiles(content))
    assert driven.log.end == len(torn.truth) + 2


def test_the_name_of_a_mark_in_a_value_is_no_mark() -> None:
    value = len("gq.batch").to_bytes(2, "big") + b"gq.batch" + b"\0\x0d7,0,0,99,0,0"
    torn = Torn([Message(value=value), Message(key=value, value=b"v")], is_marked=False)
    content = torn.left(torn.after[torn.path], torn.points()[0])
    assert DrivenLog(MemoryFiles(content)).read_all() == torn.all
