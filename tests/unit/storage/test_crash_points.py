"""A process killed before every single file operation: the next opening finds a sound log.

What was committed before the change began is there, except for what the change was to remove.
"""

from collections.abc import Callable

import msgspec
import pytest

from goqueue.model import Cleanup, LogSettings, Message, Offset
from tests.unit.storage.driven_log import SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles

COMPACTING = msgspec.structs.replace(SMALL, cleanup=Cleanup.COMPACT, dirty_percent_min=1)
DELETING = msgspec.structs.replace(SMALL, cleanup=Cleanup.DELETE, retention_bytes=2_500)
COUNT = 90
OPERATIONS_MAX = 2_000


def started(settings: LogSettings) -> tuple[MemoryFiles, DrivenLog]:
    """Three segments and more of a few keys, committed."""
    files = MemoryFiles()
    driven = DrivenLog(files, settings)
    driven.start_epoch(1)
    for number in range(1, COUNT):
        driven.append([Message(key=b"k%d" % (number % 7), value=b"%030d" % number)])
    assert len(driven.log.segments) >= 3
    return files, driven


COMMITTED = started(COMPACTING)[1].read_all()


def append_and_roll(driven: DrivenLog) -> None:
    for number in range(40):
        driven.append([Message(key=b"k%d" % (number % 7), value=b"%030d" % (COUNT + number))])


def truncate(driven: DrivenLog) -> None:
    driven.carry_out(driven.log.truncate(Offset(40)))
    driven.put(b"after the cut")


def drop(driven: DrivenLog) -> None:
    driven.maintain()
    assert driven.log.start > 0


def compact(driven: DrivenLog) -> None:
    driven.maintain()


def start_epoch(driven: DrivenLog) -> None:
    driven.start_epoch(2)


def stop(driven: DrivenLog) -> None:
    driven.close()


def newest_by_key(records: dict[int, bytes]) -> dict[bytes, int]:
    return {data[34:36]: offset for offset, data in records.items() if offset}


def check_all_is_there(driven: DrivenLog) -> None:
    assert not driven.log.damaged
    served = driven.read_all()
    assert served.items() >= COMMITTED.items()


def check_the_kept_part(driven: DrivenLog) -> None:
    """Below the cut everything, above it the old records from there on, or the new one."""
    assert not driven.log.damaged
    served = driven.read_all()
    assert list(served) == list(range(len(served)))
    assert len(served) >= 40
    for offset, data in served.items():
        assert data == COMMITTED[offset] or (offset == 40 and data.endswith(b"after the cut"))


def check_no_hole(driven: DrivenLog) -> None:
    """The oldest may be gone, what is left is whole."""
    assert not driven.log.damaged
    served = driven.read_all()
    assert list(served) == list(range(driven.log.start, COUNT))
    assert all(COMMITTED[offset] == data for offset, data in served.items())


def check_the_newest_of_each_key(driven: DrivenLog) -> None:
    assert not driven.log.damaged
    assert driven.log.end == COUNT
    served = driven.read_all()
    for offset, data in served.items():
        assert COMMITTED[offset] == data or b"gq.placeholder" in data
    for key, offset in newest_by_key(COMMITTED).items():
        assert served[offset] == COMMITTED[offset], key


def check_all_but_one_segment(driven: DrivenLog) -> None:
    served = driven.read_all()
    assert all(COMMITTED[offset] == data for offset, data in served.items())
    refused = [o for gap in driven.log.damaged for o in range(gap.first, gap.below)]
    assert sorted([*served, *refused]) == list(range(COUNT))


CHANGES = [
    (append_and_roll, check_all_is_there),
    (truncate, check_the_kept_part),
    (drop, check_no_hole),
    (compact, check_the_newest_of_each_key),
    (start_epoch, check_all_is_there),
    (stop, check_all_is_there),
]


@pytest.mark.parametrize(("change", "check"), CHANGES)
def test_a_kill_before_any_file_operation_leaves_a_sound_log(
    change: Callable[[DrivenLog], None], check: Callable[[DrivenLog], None]
) -> None:
    settings = DELETING if change is drop else COMPACTING
    is_done = False
    for operations in range(OPERATIONS_MAX):
        files, driven = started(settings)
        files.faults.operations_left = operations
        try:
            change(driven)
            is_done = True
        except Killed:
            is_done = False
        left = MemoryFiles(files.copy())

        again = DrivenLog(left, settings)
        check(again)
        assert not [path for path in left.copy() if path.endswith((".cleaned", ".tmp"))]
        assert again.put(b"goes on").next == again.log.high_watermark
        if is_done:
            break
    assert is_done
    assert operations > 1, "the change did nothing"


def torn() -> Content:
    """A log that needs every repair at once."""
    files, driven = started(COMPACTING)
    bases = [segment.base for segment in driven.log.segments]
    content = files.copy()
    last = path_of(f"{bases[-1]:020d}.log")
    content[last] += b"GQ torn"
    content[path_of(f"{bases[0]:020d}.log.cleaned")] = b"half a rewrite"
    content[path_of("epochs.json.tmp")] = b"half"
    content[path_of(f"{bases[1]:020d}.index")] = b"lies"
    content[path_of(f"{bases[1] + 1:020d}.log")] = content[path_of(f"{bases[1]:020d}.log")][-64:]
    return content


def test_a_kill_during_recovery_is_just_one_more_crash() -> None:
    whole = DrivenLog(MemoryFiles(torn()), COMPACTING).read_all()
    for operations in range(OPERATIONS_MAX):
        files = MemoryFiles(torn())
        files.faults.operations_left = operations
        try:
            DrivenLog(files, COMPACTING)
        except Killed:
            again = DrivenLog(MemoryFiles(files.copy()), COMPACTING)
            assert again.read_all() == whole
            continue
        break
    assert operations > 10
