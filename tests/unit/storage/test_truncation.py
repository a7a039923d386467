"""Truncation through log and storage, to every offset, healthy or not."""

import msgspec
import pytest

from goqueue.model import Cleanup, Code, Message, Offset, Refused
from goqueue.storage import POINT_FILE, read_point
from tests.unit.storage.driven_log import SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles

COUNT = 90


def filled() -> tuple[MemoryFiles, DrivenLog]:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.start_epoch(1)
    for number in range(1, COUNT):
        if number == 50:
            driven.start_epoch(2)
        else:
            driven.put(b"%030d" % number)
    return files, driven


FILES, WHOLE = filled()
CONTENT: Content = FILES.copy()
TRUTH = WHOLE.read_all()
BASES = [segment.base for segment in WHOLE.log.segments]


def kept_below(offset: int) -> dict[int, bytes]:
    return {o: data for o, data in TRUTH.items() if o < offset}


def test_there_are_three_segments_to_cut() -> None:
    assert len(BASES) == 3


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_log_cut_at_any_offset_goes_on_from_there(is_reopened: bool) -> None:
    for offset in range(COUNT + 1):
        files = MemoryFiles(CONTENT)
        driven = DrivenLog(files)
        driven.carry_out(driven.log.truncate(Offset(offset)))
        if is_reopened:
            driven = DrivenLog(MemoryFiles(files.copy()))
            assert driven.opened.report.is_clean
        assert (driven.log.end, driven.log.high_watermark) == (offset, offset)
        assert driven.read_all() == kept_below(offset)
        assert driven.log.epochs.history == tuple(e for e in ((1, 0), (2, 50)) if e[1] < offset)

        for number in range(45):
            assert driven.put(b"new %030d" % number).first == offset + number
        assert driven.log.failure is None
        served = driven.read_all()
        assert served.items() >= kept_below(offset).items()
        assert len(served) == offset + 45
        driven.close()


def test_two_truncations_one_after_the_other() -> None:
    for first, second in [(80, 20), (60, 60), (31, 30), (90, 0)]:
        files = MemoryFiles(CONTENT)
        driven = DrivenLog(files)
        driven.carry_out(driven.log.truncate(Offset(first)))
        driven.put(b"between")
        driven.carry_out(driven.log.truncate(Offset(second)))
        driven.put(b"after")
        assert list(DrivenLog(MemoryFiles(files.copy())).read_all()) == list(range(second + 1))


def test_appends_are_refused_until_a_truncation_is_done() -> None:
    driven = DrivenLog(MemoryFiles(CONTENT))
    effects = driven.log.truncate(Offset(10))
    with pytest.raises(Refused) as refused:
        driven.put(b"too early")
    assert refused.value.code is Code.LOG_BUSY
    assert refused.value.code.is_retriable
    driven.carry_out(effects)
    assert driven.put(b"now").first == 10


@pytest.mark.parametrize("offset", [-1, COUNT + 1])
def test_a_truncation_outside_the_log_is_refused(offset: int) -> None:
    driven = DrivenLog(MemoryFiles(CONTENT))
    with pytest.raises(Refused) as refused:
        driven.log.truncate(Offset(offset))
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE


COMPACTING = msgspec.structs.replace(
    SMALL, cleanup=Cleanup.COMPACT, dirty_percent_min=1, segment_bytes=1_000
)


def compacted() -> tuple[Content, dict[int, bytes]]:
    files = MemoryFiles()
    driven = DrivenLog(files, COMPACTING)
    for number in range(COUNT):
        driven.append([Message(key=b"k%d" % (number % 11), value=b"%030d" % number)])
    driven.maintain()
    return files.copy(), driven.read_all()


GAPPED, LEFT = compacted()
# A cut here falls behind records that compaction removed.
CUTS_IN_GAPS = [offset for offset in range(1, COUNT + 1) if offset - 1 not in LEFT]


def left_below(offset: int) -> dict[int, bytes]:
    return {o: data for o, data in LEFT.items() if o < offset}


def test_a_compacted_log_cut_at_any_offset_goes_on_from_there() -> None:
    for offset in range(COUNT + 1):
        files = MemoryFiles(GAPPED)
        driven = DrivenLog(files, COMPACTING)
        driven.carry_out(driven.log.truncate(Offset(offset)))
        assert driven.log.end == offset
        driven.put(b"after")
        driven = DrivenLog(MemoryFiles(files.copy()), COMPACTING)
        assert driven.opened.report.is_clean
        served = driven.read_all()
        assert served[offset].endswith(b"after")
        kept = left_below(offset)
        assert {o: d for o, d in served.items() if o < offset and o in kept} == kept


def test_an_update_of_the_recovery_point_lost_after_a_cut_in_a_gap_costs_nothing() -> None:
    assert len(CUTS_IN_GAPS) > 10
    for offset in CUTS_IN_GAPS:
        files = MemoryFiles(GAPPED)
        driven = DrivenLog(files, COMPACTING)
        driven.carry_out(driven.log.truncate(Offset(offset)))
        older = files.copy()[path_of(POINT_FILE)]
        promised = read_point(older)
        assert promised is not None
        assert promised.offset == offset
        driven.put(b"after")
        driven.put(b"more")
        truth = driven.read_all()

        again = DrivenLog(MemoryFiles({**files.copy(), path_of(POINT_FILE): older}), COMPACTING)

        assert again.opened.report.is_clean
        assert again.log.end == offset + 2
        assert again.read_all() == truth


@pytest.mark.parametrize("offset", CUTS_IN_GAPS[::9])
def test_a_kill_at_any_point_of_a_cut_in_a_gap_leaves_all_that_lies_below(offset: int) -> None:
    is_done = False
    operations = 0
    while not is_done:
        files = MemoryFiles(GAPPED)
        driven = DrivenLog(files, COMPACTING)
        files.faults.operations_left = operations
        try:
            driven.carry_out(driven.log.truncate(Offset(offset)))
            is_done = True
        except Killed:
            operations += 1

        again = DrivenLog(MemoryFiles(files.copy()), COMPACTING)

        assert not again.log.damaged
        assert again.read_all().items() >= left_below(offset).items()
        assert again.put(b"goes on").next == again.log.high_watermark
    assert operations > 10


@pytest.mark.parametrize("position", [40, 400, 1_500])
@pytest.mark.parametrize("offset", [BASES[1] + 1, BASES[1] + 20, BASES[2]])
def test_a_truncation_into_a_damaged_segment_raises_nothing(position: int, offset: int) -> None:
    name = path_of(f"{BASES[1]:020d}.log")
    harmed = bytearray(CONTENT[name])
    harmed[position] ^= 1
    files = MemoryFiles({**CONTENT, name: bytes(harmed)})
    driven = DrivenLog(files)

    driven.carry_out(driven.log.truncate(Offset(offset)))

    served = driven.read_all()
    assert all(TRUTH[o] == data for o, data in served.items())
    again = DrivenLog(MemoryFiles(files.copy()))
    served = again.read_all()
    assert all(TRUTH[o] == data for o, data in served.items())
    assert set(range(BASES[1])) <= set(served)


def harmed(base: int) -> tuple[str, bytes]:
    """A segment whose third record is damaged."""
    name = path_of(f"{base:020d}.log")
    data = bytearray(CONTENT[name])
    data[2 * len(data) // (BASES[1] - BASES[0]) + 60] ^= 1
    return name, bytes(data)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("offset", [0, 10, BASES[1] - 1, BASES[1]])
def test_damage_above_a_truncation_is_no_part_of_the_log(count: int, offset: int) -> None:
    files = MemoryFiles({**CONTENT, **dict(map(harmed, BASES[1 : 1 + count]))})
    driven = DrivenLog(files)
    driven.read_all()
    assert len(driven.log.damaged) == count

    driven.carry_out(driven.log.truncate(Offset(offset)))

    assert driven.log.end == offset
    assert not driven.log.damaged
    for _ in range(3):
        driven = DrivenLog(MemoryFiles(files.copy()))
        assert driven.log.end == offset
        assert not driven.log.damaged
        assert driven.read_all() == kept_below(offset)


def test_a_truncation_next_to_damage_keeps_what_lies_below() -> None:
    name, data = harmed(BASES[1])
    lost = BASES[1] + 2
    for offset in range(BASES[1], BASES[1] + 6):
        files = MemoryFiles({**CONTENT, name: data})
        driven = DrivenLog(files)
        driven.read_all()
        assert [(gap.first, gap.below) for gap in driven.log.damaged] == [(lost, lost + 1)]
        driven.carry_out(driven.log.truncate(Offset(offset)))
        assert driven.log.end == offset
        driven.put(b"after")
        for each in (driven, DrivenLog(MemoryFiles(files.copy()))):
            served = [o for o in each.read_all() if o < BASES[1] or o >= offset]
            assert served == [*range(BASES[1]), offset]
            refused = [(gap.first, gap.below) for gap in each.log.damaged]
            assert refused in ([(lost, lost + 1)] if offset > lost else [], [])
