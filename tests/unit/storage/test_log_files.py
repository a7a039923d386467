"""Rolls that meet a bad disk, and truncation to every offset, healthy or not."""

import errno

import msgspec
import pytest

from goqueue.model import Cleanup, Code, Effect, Failed, Filled, Message, Offset, Refused, Synced
from goqueue.records import build
from goqueue.storage import POINT_FILE, read_point, segment_name
from tests.unit.storage.driven_log import DIRECTORY, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles

VALUE = bytes(60)

FIRST_LOG = path_of(segment_name(0))

NO_SPACE = [errno.ENOSPC, errno.EDQUOT]

PASSING = [*NO_SPACE, errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def until_next_rolls(files: MemoryFiles) -> DrivenLog:
    """A log of one segment that has no room for another record."""
    driven = DrivenLog(files)
    while driven.log.size + len(driven.read_all().get(0, b"")) <= driven.settings.segment_bytes:
        driven.put(VALUE)
    assert len(driven.log.segments) == 1
    return driven


def batch(value: bytes) -> bytearray:
    return build([Message(value=value)])


def segments_in(files: MemoryFiles) -> list[str]:
    return sorted(path for path in files.copy() if path.endswith(".log"))


# The sync before a segment is sealed


def appended_before_a_roll(driven: DrivenLog) -> list[Effect]:
    """One record, then one that needs a segment of its own; neither is carried out yet."""
    wide = bytes(driven.settings.segment_bytes)
    return [
        effect
        for value in (VALUE, wide)
        for effect in driven.log.append(batch(value), driven.now).effects
    ]


@pytest.mark.parametrize("number", [*NO_SPACE, errno.EIO])
def test_a_roll_whose_sync_fails_is_the_end_of_the_log(number: int) -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    effects = appended_before_a_roll(driven)
    files.faults.broken["sync", ".log"] = number
    files.faults.calls.clear()

    happened = driven.carry_out(effects)

    assert [type(event) for event in happened] == [Failed]
    assert driven.log.high_watermark == 0
    assert segments_in(files) == [FIRST_LOG]
    files.faults.broken.clear()
    driven.pass_time(driven.settings.full_retry_ns)
    with pytest.raises(Refused) as refused:
        driven.put(VALUE)
    assert refused.value.code is Code.STORAGE_FAILED
    driven.close()
    assert files.faults.count("sync", ".log") == 1


def test_a_roll_syncs_and_commits_what_lies_before_it() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    effects = appended_before_a_roll(driven)
    files.faults.calls.clear()
    happened = driven.carry_out(effects)
    assert [event.upto for event in happened if isinstance(event, Synced)] == [1, 2]
    synced = files.faults.calls.index(("sync", FIRST_LOG))
    assert synced < files.faults.calls.index(("create", path_of(segment_name(1))))


# The new file


@pytest.mark.parametrize("operation", ["sync_directory", "open", "create"])
@pytest.mark.parametrize("number", PASSING)
def test_a_roll_that_finds_no_room_leaves_no_file_and_succeeds_later(
    operation: str, number: int
) -> None:
    files = MemoryFiles()
    driven = until_next_rolls(files)
    end = driven.log.end
    ending = DIRECTORY if operation == "sync_directory" else ".log"
    files.faults.broken[operation, ending] = number

    happened = driven.carry_out(driven.log.append(batch(VALUE), driven.now).effects)

    assert any(isinstance(event, Filled) for event in happened)
    assert segments_in(files) == [FIRST_LOG]
    assert driven.log.failure is None
    with pytest.raises(Refused) as refused:
        driven.put(VALUE)
    assert refused.value.code is Code.STORAGE_FULL
    assert refused.value.code.is_retriable

    files.faults.broken.clear()
    driven.pass_time(driven.settings.full_retry_ns)
    assert driven.put(VALUE).first == end
    assert [segment.base for segment in driven.log.segments] == [0, end]
    assert segments_in(files) == [FIRST_LOG, path_of(segment_name(end))]
    again = DrivenLog(MemoryFiles(files.copy()))
    assert again.opened.report.is_clean
    assert again.read_all() == driven.read_all()


def test_a_roll_that_fails_for_good_leaves_no_file() -> None:
    files = MemoryFiles()
    driven = until_next_rolls(files)
    truth = driven.read_all()
    files.faults.broken["sync_directory", DIRECTORY] = errno.EIO
    driven.put(VALUE)
    assert driven.log.failure is not None
    assert segments_in(files) == [FIRST_LOG]
    assert DrivenLog(MemoryFiles(files.copy())).read_all() == truth


# A file of a failed roll that is there all the same


@pytest.mark.parametrize(
    "torn", [b"", b"GQ", b"\0" * 100, b"\xff" * 3_000], ids=["whole", "begun", "zeros", "ones"]
)
@pytest.mark.parametrize("gap", [-5, 0, 1, 30])
def test_a_torn_tail_before_an_empty_file_is_cut_and_nothing_is_refused(
    gap: int, torn: bytes
) -> None:
    files = MemoryFiles()
    driven = until_next_rolls(files)
    truth = driven.read_all()
    end = driven.log.end
    left_over = path_of(segment_name(end + gap))
    content = {**files.copy(), FIRST_LOG: files.copy()[FIRST_LOG] + torn, left_over: b""}

    again = DrivenLog(MemoryFiles(content))

    report = again.opened.report
    assert not report.damaged
    assert not report.set_aside
    assert (report.cut is not None) == bool(torn)
    assert again.log.end == end
    assert again.read_all() == truth
    assert again.put(b"goes on").first == end


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
