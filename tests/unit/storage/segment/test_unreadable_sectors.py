"""Sectors that the disk cannot read: damage like any other, and never the end of a log."""

import errno

import msgspec
import pytest

from goqueue.model import MILLISECOND, Cleanup, Code, Damaged, Message, Refused
from goqueue.storage import POINT_FILE, segment_name
from tests.unit.storage.driven_log import EPOCH_NS, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, MemoryFiles

COMPACTING = msgspec.structs.replace(SMALL, cleanup=Cleanup.COMPACT, dirty_percent_min=1)

COUNT = 90


def filled() -> tuple[Content, DrivenLog]:
    files = MemoryFiles()
    driven = DrivenLog(files)
    for number in range(COUNT):
        driven.append([Message(key=b"k%d" % (number % 7), value=b"%030d" % number)])
    return files.copy(), driven


CONTENT, WHOLE = filled()

TRUTH = WHOLE.read_all()

BASES = [segment.base for segment in WHOLE.log.segments]

SEALED, LAST = segment_name(BASES[1]), segment_name(BASES[-1])


def refusal(driven: DrivenLog, offset: int) -> Refused:
    with pytest.raises(Refused) as refused:
        driven.read(offset)
    return refused.value


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_sealed_segment_that_cannot_be_read_is_refused_by_the_opening(
    is_indexed: bool,
) -> None:
    content = {
        path: data
        for path, data in CONTENT.items()
        if is_indexed or not path.endswith(f"{BASES[1]:020d}.index")
    }
    files = MemoryFiles(content)
    files.faults.broken["read", SEALED] = errno.EIO

    driven = DrivenLog(files)

    report = driven.opened.report
    assert report.set_aside == ()
    assert [(gap.first, gap.below, gap.reason) for gap in report.damaged] == [
        (BASES[1], BASES[2], "unreadable")
    ]
    refused = refusal(driven, BASES[1] + 1)
    assert refused.code is Code.RECORDS_DAMAGED
    assert refused.facts["next_offset"] == BASES[2]
    assert files.copy()[path_of(SEALED)] == CONTENT[path_of(SEALED)]
    assert list(driven.read_all()) == [*range(BASES[1]), *range(BASES[2], COUNT)]
    assert driven.put(b"goes on").first == COUNT


@pytest.mark.parametrize("name", [SEALED, LAST])
def test_a_sector_that_a_read_cannot_get_is_refused_as_damaged(name: str) -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files)
    files.faults.bad_sectors[name] = 100
    base = int(name[:20])

    refused = refusal(driven, base + 1)

    assert refused.code is Code.RECORDS_DAMAGED
    assert refused.facts["reason"] == "unreadable"
    assert driven.log.failure is None
    assert driven.put(b"goes on").first == COUNT
    assert COUNT in driven.read_all()


def test_a_search_goes_on_behind_a_sector_that_it_cannot_get() -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files)
    files.faults.bad_sectors[SEALED] = 100
    assert driven.seek(EPOCH_NS + BASES[1] * MILLISECOND) == BASES[2]


def test_a_sector_that_a_compaction_cannot_get_is_damage_and_not_a_failure() -> None:
    files = MemoryFiles(CONTENT)
    driven = DrivenLog(files, COMPACTING)
    files.faults.bad_sectors[SEALED] = 100
    driven.carry_out(driven.log.maintain(driven.now))

    happened = [event for _ in range(20) for event in driven.storage.work()]
    driven.carry_out(driven.take(happened))

    damage = [event for event in happened if isinstance(event, Damaged)]
    assert [(event.segment, event.reason) for event in damage] == [(BASES[1], "unreadable")]
    assert driven.log.failure is None
    assert [gap.first for gap in driven.log.damaged] == [BASES[1]]
    driven.maintain()
    assert driven.log.failure is None
    assert max(driven.read_all()) == COUNT - 1


def with_older_point() -> MemoryFiles:
    """The whole log, with a recovery point that lags behind within the last segment."""
    shorter = MemoryFiles()
    driven = DrivenLog(shorter)
    for number in range(BASES[-1] + 2):
        driven.append([Message(key=b"k%d" % (number % 7), value=b"%030d" % number)])
    point = path_of(POINT_FILE)
    return MemoryFiles({**CONTENT, point: shorter.copy()[point]})


@pytest.mark.parametrize("position", [0, 100, 700])
def test_nothing_is_cut_above_the_point_where_the_disk_cannot_read(position: int) -> None:
    files = with_older_point()
    files.faults.bad_sectors[LAST] = position

    again = DrivenLog(files)

    assert again.opened.report.cut is None
    content = files.copy()
    kept = content.get(path_of(LAST), b"") or content[path_of(f"{LAST}.quarantined")]
    assert kept == CONTENT[path_of(LAST)]
    assert {gap.reason for gap in again.log.damaged} == {"unreadable"}
    assert set(again.read_all()) >= set(range(BASES[-1]))
    assert again.put(b"goes on").next == again.log.high_watermark


@pytest.mark.parametrize("position", [0, 100, 700])
def test_no_offset_that_may_lie_behind_a_bad_sector_is_given_again(position: int) -> None:
    files = with_older_point()
    files.faults.bad_sectors[LAST] = position
    assert DrivenLog(files).put(b"goes on").first >= COUNT
