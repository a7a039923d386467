"""Logs made, deleted and moved on a disk that loses power before any single operation.

Whatever is left, a log is whole or gone, and one that is made again inherits no record.
"""

from collections.abc import Callable
from random import Random

import pytest

from goqueue.log import LogState
from goqueue.model import Create, Created, Delete, Deleted, LogId, Reshape, Synced
from goqueue.sim import Crashed, Faults, SimulatedFileSystem
from goqueue.storage import EntryKind, Storage, log_directory
from tests.unit.storage.driven_log import SMALL
from tests.unit.storage.test_logs_come_and_go import create, delete, first_record, whole, work

LOG = LogId("orders", 0)
OTHER = LogId("orders", 1)
STRAY = LogId("stray", 0)
SEEDS = range(12)
OPERATIONS_MAX = 200


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
        for operations in range(1, OPERATIONS_MAX):
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
