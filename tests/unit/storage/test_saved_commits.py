"""The high watermark of a replicated log in its recovery point: a lower bound that outlives it."""

import msgspec

from goqueue.log import Log, Replica, ReplicaRole
from goqueue.model import Offset
from goqueue.records import crc32c
from goqueue.storage import read_point
from goqueue.storage.recovery_point import RecoveryPointFile
from tests.unit.storage.driven_log import DIRECTORY, LOG, SMALL, DrivenLog, path_of
from tests.unit.storage.memory_files import MemoryFiles

POINT = path_of("recovery-point")


def leading(files: MemoryFiles) -> DrivenLog:
    driven = DrivenLog(files)
    driven.log = Log(LOG, SMALL, driven.opened.state, Replica(ReplicaRole.LEADER, 1))
    return driven


def test_a_standalone_log_writes_its_recovery_point_as_it_always_did() -> None:
    files = MemoryFiles()
    driven = DrivenLog(files)
    driven.put(b"a", b"b", b"c")
    driven.close()
    assert b"committed" not in files.copy()[POINT]
    point = read_point(files.copy()[POINT])
    assert point is not None
    assert (point.offset, point.committed) == (3, 0)
    assert DrivenLog(files).log.high_watermark == 3


def test_a_clean_stop_saves_the_high_watermark_of_a_replicated_log() -> None:
    files = MemoryFiles()
    driven = leading(files)
    driven.put(b"a", b"b", b"c")
    driven.log.commit(Offset(2))
    driven.carry_out(driven.log.save_committed())
    driven.close()
    again = leading(files)
    assert (again.log.end, again.log.high_watermark) == (3, 2)
    again.close()
    kept = read_point(files.copy()[POINT])
    assert kept is not None
    assert kept.committed == 2, "an idle run keeps what the one before it saved"


def test_the_next_sync_saves_what_was_committed_before_it() -> None:
    files = MemoryFiles()
    driven = leading(files)
    driven.put(b"a", b"b")
    driven.log.commit(Offset(2))
    driven.put(b"c")
    found = leading(MemoryFiles(files.copy()))
    assert (found.log.end, found.log.high_watermark) == (3, 2)


def test_a_truncation_lowers_the_saved_high_watermark() -> None:
    files = MemoryFiles()
    driven = leading(files)
    driven.put(b"a", b"b", b"c")
    driven.log.commit(Offset(3))
    driven.carry_out(driven.log.save_committed())
    driven.carry_out(driven.log.truncate(Offset(1)))
    driven.put(b"x", b"y")
    driven.close()
    assert leading(files).log.high_watermark == 1


def test_without_a_recovery_point_nothing_is_known_to_be_committed() -> None:
    files = MemoryFiles()
    driven = leading(files)
    driven.put(b"a", b"b")
    driven.log.commit(Offset(2))
    driven.carry_out(driven.log.save_committed())
    driven.close()
    left = files.copy()
    del left[POINT]
    found = leading(MemoryFiles(left))
    assert (found.log.end, found.log.high_watermark) == (2, 0)


def test_a_point_that_names_more_than_the_log_holds_is_bounded_by_its_end() -> None:
    files = MemoryFiles()
    driven = leading(files)
    driven.put(b"a", b"b")
    driven.close()
    point = read_point(files.copy()[POINT])
    assert point is not None
    beyond = msgspec.structs.replace(point, committed=Offset(9))
    RecoveryPointFile(files, DIRECTORY, point).save_durably(beyond)
    assert leading(files).log.high_watermark == 2


def test_a_point_of_a_release_before_replication_has_nothing_committed() -> None:
    text = b'{"sequence":7,"segment":0,"position":150,"offset":3,"start":0}'
    found = read_point((b"%08x %s" % (crc32c(text), text)).ljust(511) + b"\n")
    assert found is not None
    assert (found.offset, found.committed) == (3, 0)
