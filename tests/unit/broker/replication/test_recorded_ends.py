"""A broker notes how far its logs are, so that a lost file is never taken for an empty log."""

import pytest

from goqueue.broker import TurnBudget
from goqueue.broker.cluster.broker_state import BROKER_STATE_LOG, BrokerStateJournal
from goqueue.broker.disk_reads import ClusterFetch
from goqueue.broker.journal import JOURNAL_SETTINGS
from goqueue.broker.replication.recorded_ends import RecordedEnds
from goqueue.broker.state import NodeState
from goqueue.cluster import PartitionId
from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Reshape,
    Sync,
    Timestamp,
    Write,
)
from goqueue.records import build
from goqueue.storage import Storage
from goqueue.tracing import Tracer
from tests.unit.storage.memory_files import MemoryFiles

NOW = Now(Instant(1), Timestamp(1))
LATER = Now(Instant(6_000_000_000), Timestamp(1))
WHERE = PartitionId(1, 0)
LOG = LogId("orders", 0)


class Disk:
    """A broker's own journal and one of its logs, on files."""

    def __init__(self, files: MemoryFiles | None = None) -> None:
        self.files = MemoryFiles() if files is None else files
        self.state = NodeState("a", Tracer(0.0), TurnBudget())
        self.storage = Storage(self.files, reserve_bytes=0)
        found = self.storage.open(BROKER_STATE_LOG, JOURNAL_SETTINGS).state
        self.journal = BrokerStateJournal(self.state.outbox, found)
        self._replay(found)
        self.ends = RecordedEnds()
        self.ends.connect(self.journal)
        log_state = self.storage.open(LOG, LogSettings()).state
        self.log = Log(LOG, LogSettings(), log_state, Replica(ReplicaRole.FOLLOWER))
        self.log.assume_role(ReplicaRole.LEADER, 1)

    def _replay(self, found: LogState) -> None:
        offset = found.start
        while (wanted := self.journal.next_read(offset)) is not None:
            data = self.storage.read(wanted)
            offset = self.journal.replay(ClusterFetch(BROKER_STATE_LOG, wanted.below), data)

    def append(self, count: int = 1) -> None:
        messages = [Message(value=b"x") for _ in range(count)]
        effects = list(self.log.append(build(messages), NOW).effects)
        for event in self.storage.carry_out(effects):
            self.log.handle(event, NOW)

    def settle(self) -> None:
        """End the turn, and let the journal become durable."""
        self.ends.finish_turn(NOW)
        while effects := self.effects():
            for event in self.storage.carry_out(effects):
                number = self.journal.handle(event, NOW)
                if number is not None:
                    self.ends.durable(number)

    def effects(self) -> list[Write | Sync | Reshape]:
        drained = self.state.outbox.drain()
        return [each for each in drained if isinstance(each, Write | Sync | Reshape)]

    def restart(self) -> "Disk":
        return Disk(MemoryFiles(self.files.copy()))


@pytest.fixture
def disk() -> Disk:
    return Disk()


def test_an_empty_log_needs_no_note(disk: Disk) -> None:
    assert disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    assert disk.journal.log.end == 0


def test_a_first_record_is_confirmed_only_after_it_is_noted(disk: Disk) -> None:
    disk.append()
    assert not disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    assert disk.ends.may_confirm(WHERE, disk.log)


def test_a_note_outlives_the_process(disk: Disk) -> None:
    disk.append()
    disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    assert disk.restart().ends.noted(WHERE) == 1


def test_a_crash_before_the_note_is_durable_leaves_a_log_that_confirmed_nothing(
    disk: Disk,
) -> None:
    disk.append()
    assert not disk.ends.may_confirm(WHERE, disk.log)
    assert disk.restart().ends.noted(WHERE) == 0


def test_a_note_is_raised_to_what_is_committed_and_no_further(disk: Disk) -> None:
    disk.append(5)
    disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    disk.log.commit(Offset(3))
    disk.ends.moved(WHERE, disk.log, NOW.instant)
    disk.ends.wake(NOW.instant)
    assert disk.ends.noted(WHERE) == 1
    disk.ends.wake(LATER.instant)
    disk.settle()
    assert disk.restart().ends.noted(WHERE) == 3


def test_a_log_is_cut_only_after_its_note_says_no_more_than_is_left(disk: Disk) -> None:
    disk.append()
    disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    assert not disk.ends.may_cut(WHERE, Offset(0))
    disk.settle()
    assert disk.ends.may_cut(WHERE, Offset(0))
    assert disk.restart().ends.noted(WHERE) == 0


def test_a_note_on_its_way_counts_before_a_cut(disk: Disk) -> None:
    disk.append()
    disk.ends.may_confirm(WHERE, disk.log)
    assert not disk.ends.may_cut(WHERE, Offset(0))


def test_the_note_of_a_log_that_is_gone_is_forgotten(disk: Disk) -> None:
    disk.append()
    disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    disk.ends.forget(WHERE)
    disk.settle()
    assert list(disk.restart().ends) == []


def test_a_journal_that_has_grown_is_stated_anew_and_loses_no_note(disk: Disk) -> None:
    disk.append()
    disk.ends.may_confirm(WHERE, disk.log)
    disk.settle()
    many: dict[PartitionId, Offset] = {}
    for number in range(60):
        many = {PartitionId(2, each): Offset(number + 1) for each in range(2000)}
        disk.journal.note_ends(many, NOW)
        disk.settle()
    assert disk.journal.log.start > 0
    again = disk.restart()
    assert again.ends.noted(WHERE) == 1
    assert again.journal.ends == {WHERE: 1} | many


def test_notes_that_found_no_space_are_written_with_the_next_ones(disk: Disk) -> None:
    disk.append()
    disk.ends.may_confirm(WHERE, disk.log)
    disk.ends.finish_turn(NOW)
    disk.files.faults.room = 0
    for event in disk.storage.carry_out(disk.effects()):
        assert disk.journal.handle(event, NOW) is None
    disk.files.faults.room = None
    disk.journal.expire(LATER)
    disk.settle()
    assert disk.restart().ends.noted(WHERE) == 1
