"""The saved history of leader epochs on a disk that is full."""

from random import Random

from goqueue.log import Log, LogState, Replica, ReplicaRole
from goqueue.model import (
    DiskEvent,
    Effect,
    Filled,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Synced,
    Timestamp,
)
from goqueue.records import build
from goqueue.sim.disk import SimulatedFileSystem
from goqueue.sim.faults import Faults
from goqueue.storage import Storage

LOG = LogId("orders", 0)
SETTINGS = LogSettings()
NOW = Now(Instant(0), Timestamp(1))


class _Disk:
    """A replicated log that leads, on a disk that may be full."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.files = SimulatedFileSystem(Random(1), self.faults)
        self.open()

    def open(self) -> LogState:
        self.files.restart()
        self.storage = Storage(self.files, reserve_bytes=0, ticks=lambda: 0)
        state = self.storage.open(LOG, SETTINGS).state
        self.log = Log(LOG, SETTINGS, state, Replica(ReplicaRole.FOLLOWER))
        return state

    def carry_out(self, effects: "list[Effect] | tuple[Effect, ...]") -> list[DiskEvent]:
        events = self.storage.carry_out(effects)
        for event in events:
            events += self.carry_out(self.log.handle(event, NOW))
        return events

    def lead(self, epoch: int) -> list[DiskEvent]:
        self.log.assume_role(ReplicaRole.LEADER, epoch)
        return self.carry_out(self.log.start_epoch(epoch, NOW).effects)

    def append(self) -> list[DiskEvent]:
        return self.carry_out(self.log.append(build([Message(value=b"v")]), NOW).effects)

    def delete_before(self, offset: int) -> None:
        self.log.commit(self.log.end)
        self.carry_out(self.log.delete_before(Offset(offset)))


def test_an_epoch_whose_record_was_deleted_is_known_after_a_save_that_found_no_space() -> None:
    disk = _Disk()
    disk.lead(2)
    disk.append()
    disk.append()
    disk.delete_before(1)
    disk.faults.fill(0)

    assert any(isinstance(event, Filled) for event in disk.lead(4))

    assert disk.open().epochs == ((2, 1),)


def test_no_record_is_written_before_the_history_that_names_its_epoch_is_saved() -> None:
    disk = _Disk()
    disk.lead(2)
    disk.append()
    disk.delete_before(1)
    # Enough for the record of the epoch, not for the copy of the history.
    disk.faults.fill(60)
    assert any(isinstance(event, Filled) for event in disk.lead(4))
    assert disk.log.end == 2

    disk.faults.free()
    disk.storage.restore_reserve()
    late = Now(Instant(1 << 50), Timestamp(1))
    disk.log.assume_role(ReplicaRole.LEADER, 5)
    events = disk.carry_out(disk.log.start_epoch(5, late).effects)

    assert any(isinstance(event, Synced) for event in events)
    assert disk.open().epochs == ((2, 1), (5, 2))
