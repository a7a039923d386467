"""A crash before every single file operation: the next opening finds sound logs.

The tests of one log kill the process; those of many logs cut the power.
"""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from goqueue.log import LogState
from goqueue.model import (
    Cleanup,
    Create,
    Created,
    Delete,
    Deleted,
    LogId,
    LogSettings,
    Message,
    Offset,
    Reshape,
    Synced,
)
from goqueue.sim import Crashed, Faults, SimulatedFileSystem
from goqueue.storage import EntryKind, Storage, log_directory
from tests.unit.storage.driven_log import SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import Content, Killed, MemoryFiles
from tests.unit.storage.test_log_directories import create, delete, first_record, whole, work

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


LOG = LogId("orders", 0)

OTHER = LogId("orders", 1)

STRAY = LogId("stray", 0)

SEEDS = range(12)

TREE_OPERATIONS_MAX = 200


class Disk:
    """A simulated disk that crashes once, and what was told before it did."""

    def __init__(self, seed: int) -> None:
        self.faults = Faults()
        self.files = SimulatedFileSystem(Random(seed), self.faults)
        self.told: list[object] = []
        self.storage = Storage(self.files)

    def crash_during(self, life: Callable[["Disk"], None], operations: int) -> bool:
        """Live until the crash; whether there was one. Then the power is back."""
        self.faults.arm_crash(operations)
        try:
            life(self)
        except Crashed:
            is_crashed = True
        else:
            is_crashed = False
        self.faults.disarm_crash()
        self.files.lose_power()
        self.files.restart()
        self.storage = Storage(self.files)
        return is_crashed

    def is_there(self, log: LogId) -> bool:
        return self.files.kind(log_directory(log)) is EntryKind.DIRECTORY

    def value_of(self, log: LogId) -> bytes:
        """The end of the only record of a log that is whole, or nothing where it is empty."""
        opened = self.storage.open(log, SMALL)
        assert not opened.report.damaged
        if opened.state == LogState():
            return b""
        assert (opened.state.start, opened.state.end) == (0, 1)
        return self.storage.read(whole(log)).tobytes()[-3:]


def every_crash(prepare: Callable[[Disk], None], life: Callable[[Disk], None]) -> list[Disk]:
    """What is left of a life by a crash before each of its operations, for some seeds."""
    left: list[Disk] = []
    for seed in SEEDS:
        for operations in range(1, TREE_OPERATIONS_MAX):
            disk = Disk(seed)
            prepare(disk)
            is_crashed = disk.crash_during(life, operations)
            left.append(disk)
            if not is_crashed:
                assert operations > 3, "the life did nothing"
                break
        else:
            pytest.fail("never came to its end")
    return left


def nothing(_: Disk) -> None:
    """A new disk."""


def two_logs(disk: Disk) -> None:
    disk.storage.carry_out([*create(LOG, OTHER), *first_record(LOG, b"old")])
    disk.storage.carry_out(first_record(OTHER, b"oth"))


def create_and_write(disk: Disk) -> None:
    disk.told += disk.storage.carry_out([Reshape(log=LOG, change=Create(SMALL))])
    disk.told += disk.storage.carry_out(first_record(LOG, b"new"))


def delete_to_the_end(disk: Disk) -> None:
    disk.told += disk.storage.carry_out([Reshape(log=LOG, change=Delete())])
    work(disk.storage)


def delete_and_make_again(disk: Disk) -> None:
    disk.told += disk.storage.carry_out(delete(LOG))
    disk.told += disk.storage.carry_out(create(LOG))
    work(disk.storage)
    disk.told += disk.storage.carry_out(first_record(LOG, b"new"))


def test_a_log_that_was_reported_created_is_there_after_any_crash() -> None:
    for disk in every_crash(nothing, create_and_write):
        if Created(log=LOG) in disk.told:
            assert disk.is_there(LOG)
        is_acked = any(isinstance(event, Synced) for event in disk.told)
        assert disk.value_of(LOG) in ({b"new"} if is_acked else {b"", b"new"})


def test_a_log_that_is_deleted_is_whole_or_gone_after_any_crash() -> None:
    for disk in every_crash(two_logs, delete_to_the_end):
        if disk.is_there(LOG):
            assert Deleted(log=LOG) not in disk.told
            assert disk.value_of(LOG) == b"old"
        assert disk.value_of(OTHER) == b"oth"
        disk.storage.find_trash()
        work(disk.storage)
        assert not [path for path in disk.files.paths() if path.startswith("trash/")]


def test_a_log_that_is_made_again_never_inherits_a_record() -> None:
    for disk in every_crash(two_logs, delete_and_make_again):
        if Created(log=LOG) in disk.told:
            assert disk.is_there(LOG)
            is_acked = any(isinstance(event, Synced) for event in disk.told)
            assert disk.value_of(LOG) in ({b"new"} if is_acked else {b"", b"new"})
        # Metadata that is older asks for the deletion again, and for a new log.
        assert disk.storage.carry_out(delete(LOG)) == [Deleted(log=LOG)]
        assert disk.storage.carry_out(create(LOG)) == [Created(log=LOG)]
        disk.storage.find_trash()
        work(disk.storage)
        events = disk.storage.carry_out(first_record(LOG, b"end"))
        assert [type(event) for event in events] == [Synced]
        disk.storage.close()
        disk.storage = Storage(disk.files)
        assert disk.value_of(LOG) == b"end"
        assert disk.value_of(OTHER) == b"oth"


def killed_while_deleting(disk: Disk) -> None:
    """The move into the trash has been made, and is not durable yet."""
    two_logs(disk)
    disk.files.make_directory("trash")
    disk.files.rename(log_directory(LOG), "trash/1")
    disk.files.restart()
    disk.storage = Storage(disk.files)


def empty_the_trash(disk: Disk) -> None:
    disk.storage.find_trash()
    work(disk.storage)


def test_emptying_the_trash_after_a_kill_never_leaves_half_a_log() -> None:
    for disk in every_crash(killed_while_deleting, empty_the_trash):
        if disk.is_there(LOG):
            assert disk.value_of(LOG) == b"old"
        assert disk.value_of(OTHER) == b"oth"


def test_a_sweep_leaves_each_topic_in_one_of_two_places_after_any_crash() -> None:
    def stray(disk: Disk) -> None:
        two_logs(disk)
        disk.storage.carry_out([*create(STRAY), *first_record(STRAY, b"str")])
        disk.storage = Storage(disk.files)

    def sweep(disk: Disk) -> None:
        disk.told += disk.storage.sweep(["orders"])

    for disk in every_crash(stray, sweep):
        assert disk.value_of(LOG) == b"old"
        places = [path for path in disk.files.paths() if path.endswith(f"stray/0/{0:020d}.log")]
        assert len(places) == 1
        assert disk.files.content(places[0])[-3:] == b"str"
        if disk.told:
            assert places[0].startswith("unclaimed/")
        else:
            again = [move.old for move in disk.storage.sweep(["orders"])]
            assert again == (["logs/stray"] if places[0].startswith("logs/") else [])
