"""Journals are replaced as one: after any crash the old ones count, or the new ones will."""

from collections.abc import Callable
from random import Random

import pytest

from goqueue.model import Instant, LogId, LogSettings, Message, Now, Offset, Timestamp
from goqueue.records import decode, walk
from goqueue.sim import Crashed, Faults, SimulatedFileSystem
from goqueue.storage import FileSystem, OfflineLog, StagedLogs
from tests.unit.storage.memory_files import MemoryFiles

SETTINGS = LogSettings(retention_ns=None)
TOPICS, GROUPS, NEW = LogId("__topics", 0), LogId("__groups", 0), LogId("__metadata", 0)
ORDERS = LogId("orders", 0)
NOW = Now(Instant(0), Timestamp(1_700_000_000_000_000_000))


def put(files: FileSystem, log: LogId, *values: bytes) -> None:
    opened = OfflineLog(files, log, SETTINGS)
    opened.append([Message(value=value) for value in values], NOW)
    opened.close()


def values(files: FileSystem, log: LogId) -> list[bytes | None]:
    opened = OfflineLog(files, log, SETTINGS)
    found = [
        decode(batch, position).value
        for batch in opened.batches()
        for position in walk(batch).positions
    ]
    opened.close()
    return found


def single_node(files: FileSystem) -> None:
    put(files, TOPICS, b"old topics")
    put(files, GROUPS, b"old groups")
    put(files, ORDERS, b"a message")
    files.make_directory("snapshots")
    for name in ("__topics.json", "__groups-0-1.json", "producers-1-0.json"):
        files.create(f"snapshots/{name}").close()
    for directory in ("snapshots", "logs", ""):
        files.sync_directory(directory)


def convert(files: FileSystem) -> None:
    """What a conversion does, from wherever an earlier one was cut short."""
    staged = StagedLogs(files)
    if not staged.is_pending:
        staged.clear()
        staged.write(TOPICS, SETTINGS, [Message(value=b"new topics")], NOW)
        staged.write(NEW, SETTINGS, [Message(value=b"1"), Message(value=b"2")], NOW)
        staged.replace((TOPICS.topic, GROUPS.topic, NEW.topic))
    staged.finish()


def check_converted(files: FileSystem) -> None:
    assert not StagedLogs(files).is_pending
    assert values(files, TOPICS) == [b"new topics"]
    assert values(files, NEW) == [b"1", b"2"]
    assert values(files, ORDERS) == [b"a message"]
    assert files.kind("logs/__groups") is None
    assert {entry.name for entry in files.entries("snapshots")} == {"producers-1-0.json"}
    assert not [each for each in files.entries("logs") if each.name.startswith("__staged")]


def test_the_old_journals_are_kept_beside_the_new_ones() -> None:
    files = MemoryFiles()
    single_node(files)

    convert(files)

    check_converted(files)
    assert {entry.name for entry in files.entries("unclaimed/1")} == {"__topics", "__groups"}
    assert files.kind("replacement") is None


def test_a_log_may_begin_at_a_later_offset() -> None:
    files = MemoryFiles()
    staged = StagedLogs(files)
    staged.write(NEW, SETTINGS, [Message(value=b"late")], NOW, start=Offset(1_000))
    staged.replace((NEW.topic,))
    staged.finish()

    opened = OfflineLog(files, NEW, SETTINGS)
    assert (opened.log.start, opened.log.end) == (1_000, 1_001)
    opened.close()
    assert values(files, NEW) == [b"late"]


def _begin_again(files: FileSystem) -> None:
    if not StagedLogs(files).is_pending:
        # Nothing was decided: a node may start on what was there.
        assert values(files, TOPICS) in ([b"old topics"], [b"new topics"])
        if values(files, TOPICS) == [b"old topics"]:
            assert values(files, GROUPS) == [b"old groups"]
            convert(files)
        return
    convert(files)


def _crash(seed: int, operations: int, second: int) -> tuple[SimulatedFileSystem, bool]:
    """The disk after a loss of power in a conversion, and another one in its repetition."""
    faults = Faults()
    files = SimulatedFileSystem(Random(seed), faults)
    single_node(files)
    lives: list[tuple[Callable[[FileSystem], None], int]] = [
        (convert, operations),
        (_begin_again, second),
    ]
    is_crashed = False
    for number, (life, left) in enumerate(lives):
        faults.arm_crash(left)
        try:
            life(files)
        except Crashed:
            is_crashed = is_crashed or number == 0
        faults.disarm_crash()
        files.lose_power()
        files.restart()
    return files, is_crashed


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_of_power_before_any_operation_leaves_the_old_journals_or_leads_to_the_new_ones(
    seed: int,
) -> None:
    chance = Random(seed)
    for operations in range(1, 1_000):
        files, is_crashed = _crash(seed, operations, chance.randrange(1, 60))
        _begin_again(files)
        check_converted(files)
        if not is_crashed:
            break
    assert operations > 20
