"""What the log of the process says of a disk that is full or damaged: once each."""

from goqueue.broker import StorageHealth
from goqueue.log import DamagedRange
from goqueue.model import SECOND, Instant, LogId, Now, Offset, Timestamp
from goqueue.runtime.storage_log import StorageLog

ORDERS, USERS = LogId("orders", 0), LogId("users", 3)
DAMAGE = DamagedRange(first=Offset(5), below=Offset(7), reason="crc")


def at(seconds: int = 0) -> Now:
    return Now(Instant(seconds * SECOND), Timestamp(seconds * SECOND))


def test_a_full_disk_is_told_when_it_begins_and_when_it_ends() -> None:
    lines: list[str] = []
    log, storage = StorageLog(lines.append), StorageHealth()
    for second in range(5):
        storage.record_full(ORDERS, at(second))
        storage.record_full(USERS, at(second))
        log.look(storage)
    storage.record_written(USERS)
    log.look(storage)
    assert len(lines) == 1
    assert "the disk is full" in lines[0]
    assert "orders" in lines[0]

    storage.record_written(ORDERS)
    log.look(storage)
    log.look(storage)
    assert len(lines) == 2
    assert "space again" in lines[1]


def test_damage_is_told_with_where_to_go_on_and_when_none_is_left() -> None:
    lines: list[str] = []
    log, storage = StorageLog(lines.append), StorageHealth()
    for _ in range(3):
        storage.record_damage(ORDERS, [DAMAGE])
        log.look(storage)
    (line,) = lines
    assert "offsets 5 to 6" in line
    assert "continues at 7" in line

    storage.record_damage(ORDERS, [])
    log.look(storage)
    assert "no damaged records are left" in lines[1]
