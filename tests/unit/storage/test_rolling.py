"""A roll that meets a bad disk: nothing false is promised and nothing is left in the way."""

import errno

import pytest

from goqueue.model import Code, Effect, Failed, Filled, Message, Refused, Synced
from goqueue.records import build
from goqueue.storage import segment_name
from tests.unit.storage.driven_log import DIRECTORY, DrivenLog, path_of
from tests.unit.storage.memory_files import MemoryFiles

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
