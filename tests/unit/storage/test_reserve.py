"""Space that is kept for journals: a full disk, restarts on it, and space that comes back."""

import msgspec
import pytest

from goqueue.log import Log
from goqueue.model import (
    Code,
    Filled,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Refused,
    Synced,
    Timestamp,
)
from goqueue.records import build
from goqueue.storage import Storage
from tests.unit.storage.memory_files import MemoryFiles

DATA = LogId("orders", 0)
JOURNAL = LogId("__groups", 0)
SETTINGS = LogSettings(segment_bytes=1_000_000, index_interval_bytes=4096, full_retry_ns=1)
OF_JOURNAL = msgspec.structs.replace(SETTINGS, may_use_reserve=True)
RESERVE = 4 * 1024 * 1024
FILE = "journal-reserve"
ASKED_EVERY_NS = 100_000_000


class Node:
    """A journal and a log of data in one directory."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files = files
        self._now = 0
        self.storage = Storage(files, reserve_bytes=RESERVE, ticks=lambda: self._now)
        self.storage.restore_reserve()
        self.data = Log(DATA, SETTINGS, self.storage.open(DATA, SETTINGS).state)
        self.journal = Log(JOURNAL, OF_JOURNAL, self.storage.open(JOURNAL, OF_JOURNAL).state)

    def pass_time(self, nanoseconds: int) -> None:
        self._now += nanoseconds

    def put(self, log: Log, size: int = 10_000) -> bool:
        """Append; whether it was committed."""
        self.pass_time(1_000)
        now = Now(Instant(self._now), Timestamp(self._now))
        try:
            appended = log.append(build([Message(value=bytes(size))]), now)
        except Refused as refused:
            assert refused.code is Code.STORAGE_FULL
            return False
        effects = list(appended.effects)
        while effects:
            events = self.storage.carry_out(effects)
            effects = [effect for event in events for effect in log.handle(event, now)]
        return log.high_watermark >= appended.next

    def kept(self) -> int:
        return len(self.files.copy()[FILE])


def test_a_journal_goes_on_when_data_finds_the_disk_full() -> None:
    node = Node(MemoryFiles())
    node.files.faults.room = 0

    assert not node.put(node.data)
    assert node.put(node.journal)
    assert node.kept() < RESERVE


def test_restarts_on_a_full_disk_give_nothing_of_the_reserve_away() -> None:
    files = MemoryFiles()
    node = Node(files)
    assert node.put(node.data)
    assert node.put(node.journal)
    files.faults.room = 0
    for _ in range(10):
        assert not node.put(node.data)
        node.storage.close()
        node = Node(files)
    assert node.kept() == RESERVE

    written = 0
    while node.put(node.journal, 100_000):
        written += 100_000
        if written % 500_000 == 0:
            assert not node.put(node.data)
            node.storage.close()
            node = Node(files)
    assert written > 0.9 * RESERVE


def test_data_is_refused_until_there_is_room_for_the_whole_reserve_again() -> None:
    node = Node(MemoryFiles())
    node.files.faults.room = 0
    assert node.put(node.journal)
    node.files.faults.room = RESERVE // 8
    # This would fit, and would take what was given to the journal.
    assert not node.put(node.data, 1_000)
    node.files.faults.room = RESERVE
    node.pass_time(ASKED_EVERY_NS)
    assert node.put(node.data, 1_000)
    assert node.kept() == RESERVE


@pytest.mark.parametrize("is_journal_first", [True, False])
def test_data_takes_no_space_that_a_journal_of_its_group_was_given(is_journal_first: bool) -> None:
    node = Node(MemoryFiles())
    assert node.put(node.data)
    assert node.put(node.journal)
    node.files.faults.room = 0
    now = Now(Instant(10_000), Timestamp(10_000))
    logs = [node.journal, node.data] if is_journal_first else [node.data, node.journal]
    effects = [
        effect
        for log in logs
        for _ in range(3)
        for effect in log.append(build([Message(value=bytes(1_000))]), now).effects
    ]

    events = node.storage.carry_out(effects)

    assert {type(event) for event in events if event.log == DATA} <= {Filled, Synced}
    assert any(isinstance(event, Filled) and event.offset == 1 for event in events)
    assert Synced(log=JOURNAL, upto=Offset(4)) in events
    assert node.kept() < RESERVE


def test_free_space_is_asked_at_most_every_100_ms_and_data_is_refused_in_between() -> None:
    node = Node(MemoryFiles())
    node.files.faults.room = 0
    assert node.put(node.journal)
    node.files.faults.calls.clear()
    for _ in range(20):
        assert not node.put(node.data)
    assert node.files.faults.count("free_bytes") == 1
    node.files.faults.room = 2 * RESERVE
    # Only the old answer is known, and it refuses.
    assert not node.put(node.data)
    node.pass_time(ASKED_EVERY_NS)
    assert node.put(node.data)
    assert node.files.faults.count("free_bytes") == 2


def test_free_space_is_not_asked_while_the_reserve_is_whole() -> None:
    node = Node(MemoryFiles())
    node.files.faults.calls.clear()
    for _ in range(5):
        assert node.put(node.data)
        assert node.put(node.journal)
    assert node.files.faults.count("free_bytes") == 0


def test_a_journal_may_begin_a_segment_and_save_its_snapshot_on_a_full_disk() -> None:
    node = Node(MemoryFiles())
    assert node.put(node.journal, 900_000)
    node.files.faults.room = 0
    assert node.put(node.journal, 900_000)
    assert node.journal.segment_count == 2
    node.files.faults.room = 0
    node.storage.save("__groups", bytes(900_000))
    with pytest.raises(OSError, match="no space"):
        node.storage.save("delays-1-0", bytes(5_000_000))
    assert not [path for path in node.files.copy() if path.endswith(".tmp")]


def test_a_directory_without_a_reserve_keeps_nothing_back() -> None:
    files = MemoryFiles()
    storage = Storage(files)
    assert storage.restore_reserve()
    storage.close()
    assert FILE not in files.copy()


def test_a_larger_reserve_of_an_earlier_setting_is_cut() -> None:
    files = MemoryFiles({FILE: bytes(2 * RESERVE)})
    node = Node(files)
    assert node.kept() == RESERVE
    assert node.put(node.data)
