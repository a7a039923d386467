"""A disk that does not come back from a sync keeps no reader waiting."""

import threading
from collections.abc import Callable

import msgspec
import pytest

from goqueue.log import Log
from goqueue.model import (
    HOUR,
    Cleanup,
    Create,
    Delete,
    Effect,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Reshape,
    SaveEpochs,
    Timestamp,
)
from goqueue.records import build, walk
from goqueue.storage import Storage
from tests.unit.storage.memory_files import Faults, MemoryFiles

LOG, OTHER = LogId("orders", 0), LogId("other", 0)
SETTINGS = LogSettings(
    segment_bytes=1_000,
    index_interval_bytes=256,
    retention_ns=HOUR,
    cleanup=Cleanup.COMPACT_AND_DELETE,
    dirty_percent_min=1,
)
PATIENCE_S = 20.0


class Stuck(Faults):
    """Syncs of paths with this ending wait until they are let go."""

    def __init__(self, operation: str, ending: str) -> None:
        super().__init__()
        self.waits = threading.Event()
        self.goes_on = threading.Event()
        self.is_stuck = False
        self._stuck = (operation, ending)

    def meet(self, operation: str, path: str) -> None:
        stuck, ending = self._stuck
        if self.is_stuck and operation == stuck and path.endswith(ending):
            self.waits.set()
            assert self.goes_on.wait(PATIENCE_S)
        super().meet(operation, path)


class Shop:
    """A log of several segments and a storage whose guard is a real lock."""

    def __init__(self, faults: Faults) -> None:
        self.files = MemoryFiles()
        self.files.faults = faults
        self.storage = Storage(self.files, guard=threading.RLock())
        self.log = Log(LOG, SETTINGS, self.storage.open(LOG, SETTINGS).state)
        for number in range(40):
            self.carry_out(self.append(b"%d" % (number % 30)))

    def now(self, wall: int = 10 * HOUR) -> Now:
        return Now(Instant(0), Timestamp(wall))

    def append(self, key: bytes) -> list[Effect]:
        batch = build([Message(key=key, value=bytes(50))])
        return list(self.log.append(batch, self.now()).effects)

    def carry_out(self, effects: list[Effect]) -> None:
        while effects:
            events = self.storage.carry_out(effects)
            effects = [effect for event in events for effect in self.log.handle(event, self.now())]

    def read(self, offset: int) -> list[int]:
        wanted = self.log.read(Offset(offset), 1 << 20)
        assert wanted is not None
        return list(walk(self.storage.read(wanted)).offsets)


def write(shop: Shop) -> None:
    shop.storage.carry_out(shop.append(b"new"))


def roll(shop: Shop) -> None:
    shop.storage.carry_out(shop.log.begin_segment())


def drop(shop: Shop) -> None:
    # All segments but the last: what is read below is in that one.
    shop.storage.carry_out(shop.log.drop_below(shop.log.end))


def compact(shop: Shop) -> None:
    shop.storage.carry_out(shop.log.maintain(shop.now()))
    while shop.storage.has_background_work:
        shop.storage.work()


def delete(shop: Shop) -> None:
    make = Reshape(log=OTHER, change=Create(msgspec.structs.replace(SETTINGS)))
    shop.storage.carry_out([make, Reshape(log=OTHER, change=Delete())])


def save_epochs(shop: Shop) -> None:
    shop.storage.carry_out([Reshape(log=LOG, change=SaveEpochs(((1, 0),)))])


def save_snapshot(shop: Shop) -> None:
    shop.storage.save("delays-1-0", b"{}")


@pytest.mark.parametrize(
    ("change", "operation", "ending"),
    [
        (write, "write", ".log"),
        (write, "sync", ".log"),
        (roll, "sync_directory", "orders/0"),
        (roll, "sync", "recovery-point"),
        (drop, "sync", "recovery-point"),
        (drop, "sync_directory", "orders/0"),
        (compact, "write", ".log.cleaned"),
        (compact, "sync", ".log.cleaned"),
        (compact, "sync_directory", "orders/0"),
        (delete, "sync_directory", "logs/other"),
        (delete, "sync_directory", "trash"),
        (save_epochs, "sync", "epochs.json.tmp"),
        (save_snapshot, "sync", ".json.tmp"),
    ],
)
def test_a_read_does_not_wait_for_the_disk(
    change: Callable[[Shop], None], operation: str, ending: str
) -> None:
    stuck = Stuck(operation, ending)
    shop = Shop(stuck)
    last = shop.log.end - 1
    stuck.is_stuck = True
    changing = threading.Thread(target=change, args=(shop,), daemon=True)
    reading_done = threading.Event()
    served: list[int] = []

    def read() -> None:
        served.extend(shop.read(last))
        reading_done.set()

    changing.start()
    assert stuck.waits.wait(PATIENCE_S), "the change never came to its sync"
    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    is_read = reading_done.wait(PATIENCE_S / 4)
    stuck.goes_on.set()
    changing.join(PATIENCE_S)
    reading.join(PATIENCE_S)

    assert is_read, "the read waited for the disk"
    assert last in served
