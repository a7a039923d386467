"""How many files many logs keep open, and how their syncs are handed over."""

import errno
from collections.abc import Callable, Sequence

import msgspec
import pytest

from goqueue.log import Log, LogState
from goqueue.model import (
    DiskEvent,
    Effect,
    Failed,
    Flush,
    Instant,
    LogId,
    Message,
    Now,
    Offset,
    Sync,
    Synced,
    Timestamp,
)
from goqueue.records import build
from goqueue.storage import Storage, log_directory, segment_name, sync_in_turn
from tests.unit.storage.driven_log import EPOCH_NS, SMALL
from tests.unit.storage.memory_files import MemoryFiles

LOGS = [LogId("orders", partition) for partition in range(20)]
LIMIT = 4
NOW = Now(Instant(0), Timestamp(EPOCH_NS))


class Node:
    """Several logs over one storage, each effect carried out when the test says so."""

    def __init__(self, files: MemoryFiles, flush: Flush = Flush.COMMIT) -> None:
        settings = msgspec.structs.replace(SMALL, flush=flush)
        self.storage = Storage(files, open_actives_max=LIMIT)
        self.logs = {
            log: Log(log, settings, self.storage.open(log, settings).state) for log in LOGS
        }

    def append(self, log: LogId, value: bytes = b"value") -> tuple[Effect, ...]:
        return self.logs[log].append(build([Message(value=value)]), NOW).effects

    def carry_out(self, effects: Sequence[Effect]) -> list[DiskEvent]:
        events = self.storage.carry_out(effects)
        for event in events:
            assert self.logs[event.log].handle(event, NOW) == []
        return events

    def read(self, log: LogId) -> memoryview:
        wanted = self.logs[log].read(Offset(0), 1_000)
        assert wanted is not None
        return self.storage.read(wanted)


def test_an_open_log_that_nobody_uses_holds_no_file() -> None:
    files = MemoryFiles()
    node = Node(files)
    for log in LOGS:
        node.carry_out(node.append(log))
    node.storage.close()
    again = Node(files)
    assert files.faults.open_files == []
    again.storage.close()


def test_clean_active_segments_stay_open_up_to_the_limit_and_all_can_be_used() -> None:
    files = MemoryFiles()
    node = Node(files)
    for _ in range(3):
        for log in LOGS:
            node.carry_out(node.append(log))
            assert len(files.faults.open_files) <= LIMIT
    for log in LOGS:
        assert len(node.read(log)) > 0
        assert len(files.faults.open_files) <= LIMIT
    node.storage.close()
    assert files.faults.open_files == []


def test_the_segment_used_last_stays_open() -> None:
    files = MemoryFiles()
    node = Node(files)
    for log in LOGS[:LIMIT]:
        node.carry_out(node.append(log))
    node.read(LOGS[0])
    node.carry_out(node.append(LOGS[LIMIT]))
    first, second = (f"{log_directory(log)}/{segment_name(0)}" for log in LOGS[:2])
    assert first in files.faults.open_files
    assert second not in files.faults.open_files


def test_a_segment_with_unsynced_writes_is_not_closed_before_its_sync() -> None:
    files = MemoryFiles()
    node = Node(files, Flush.INTERVAL)
    for log in LOGS:
        node.carry_out(node.append(log))
    assert len(files.faults.open_files) == len(LOGS)
    for log in LOGS:
        node.read(log)
    assert len(files.faults.open_files) == len(LOGS)

    node.carry_out([Sync(log=log, upto=Offset(1)) for log in LOGS])

    assert len(files.faults.open_files) == LIMIT
    node.storage.close()
    assert files.faults.open_files == []


def test_a_log_that_has_failed_holds_its_file_no_longer_than_others() -> None:
    files = MemoryFiles()
    node = Node(files)
    files.faults.broken["sync", f"/{segment_name(0)}"] = errno.EIO
    for log in LOGS:
        assert [type(event) for event in node.carry_out(node.append(log))] == [Failed]
    assert len(files.faults.open_files) <= LIMIT
    files.faults.broken.clear()
    node.storage.close()
    assert files.faults.open_files == []


def test_a_write_for_which_no_file_can_be_opened_is_refused_and_taken_later() -> None:
    files = MemoryFiles()
    node = Node(files)
    for log in LOGS:
        node.carry_out(node.append(log))
    files.faults.broken["open", ".log"] = errno.EMFILE
    machine = node.logs[LOGS[0]]
    events = node.storage.carry_out(node.append(LOGS[0], b"refused"))
    effects = [effect for event in events for effect in machine.handle(event, NOW)]
    node.storage.carry_out(effects)
    assert machine.failure is None
    assert machine.end == 1
    files.faults.broken.clear()
    later = Now(Instant(NOW.instant + SMALL.full_retry_ns), NOW.wall)
    appended = machine.append(build([Message(value=b"taken")]), later)
    assert node.carry_out(appended.effects) == [Synced(log=LOGS[0], upto=Offset(2))]


# Syncs of several logs


class Backwards:
    """Carries out syncs from the last to the first, and remembers how many came together."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def __call__(self, syncs: Sequence[Callable[[], None]]) -> Sequence[OSError | None]:
        self.rounds.append(len(syncs))
        return sync_in_turn(syncs[::-1])[::-1]


@pytest.mark.parametrize("failing", [None, 1])
def test_events_come_in_the_same_order_however_the_syncs_are_carried_out(
    failing: int | None,
) -> None:
    outcomes: list[list[DiskEvent]] = []
    backwards = Backwards()
    for syncing in (sync_in_turn, backwards):
        files = MemoryFiles()
        storage = Storage(files, syncing=syncing)
        effects: list[Effect] = []
        for log in LOGS[:3]:
            storage.open(log, SMALL)
            machine = Log(log, SMALL, LogState())
            effects += machine.append(build([Message(value=b"value")]), NOW).effects
        if failing is not None:
            files.faults.broken["sync", f"/{failing}/{segment_name(0)}"] = errno.EIO
        outcomes.append(storage.carry_out(effects))
    assert outcomes[0] == outcomes[1]
    expected = [Failed if log.partition == failing else Synced for log in LOGS[:3]]
    assert [type(event) for event in outcomes[0]] == expected
    assert 3 in backwards.rounds
