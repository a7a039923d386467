"""Logs that take what a leader stored: same bytes, same epochs, a new start when too far behind.

Both sides are real logs over real storage; the test carries the bytes.
"""

import pytest

from goqueue.log import Log, Replica, ReplicaRole
from goqueue.model import Code, Offset, Refused
from tests.unit.storage.driven_log import LOG, SMALL, DrivenLog
from tests.unit.storage.memory_files import Killed, MemoryFiles


def replica(files: MemoryFiles, role: ReplicaRole = ReplicaRole.FOLLOWER) -> DrivenLog:
    driven = DrivenLog(files)
    driven.log = Log(LOG, SMALL, driven.opened.state, Replica(role, 1))
    return driven


def leader() -> DrivenLog:
    driven = replica(MemoryFiles(), ReplicaRole.LEADER)
    driven.start_epoch(1)
    driven.put(b"a", b"b")
    driven.start_epoch(3)
    driven.put(b"c")
    return driven


def stored(driven: DrivenLog, offset: int) -> bytes:
    wanted = driven.log.read_for_follower(Offset(offset), 1 << 20)
    assert wanted is not None
    return bytes(driven.storage.read(wanted))


def copy(source: DrivenLog, target: DrivenLog, offset: int) -> None:
    data = stored(source, offset)
    epoch = source.log.epochs.epoch_at(Offset(offset))
    appended = target.log.append_as_follower(data, source.log.end, epoch, target.now)
    target.carry_out(appended.effects)


def test_a_follower_has_the_same_bytes_and_epochs_also_after_a_restart() -> None:
    source, files = leader(), MemoryFiles()
    target = replica(files)
    copy(source, target, 0)

    assert stored(target, 0) == stored(source, 0)
    assert target.log.epochs.history == source.log.epochs.history == ((1, 0), (3, 3))
    assert (target.log.watermarks.durable, target.log.high_watermark) == (5, 0)
    again = replica(MemoryFiles(files.copy()))
    assert (again.log.end, again.log.epochs.history) == (5, ((1, 0), (3, 3)))


def test_records_that_do_not_continue_the_log_are_refused() -> None:
    source, target = leader(), replica(MemoryFiles())
    copy(source, target, 0)
    for first, following, epoch in ((0, 5, 1), (3, 5, 3)):
        data = stored(source, first)
        with pytest.raises(Refused) as refused:
            target.log.append_as_follower(data, Offset(following), epoch, target.now)
        assert refused.value.code is Code.REQUEST_INVALID
    assert target.log.end == 5


def test_a_damaged_record_of_the_leader_is_refused() -> None:
    source, target = leader(), replica(MemoryFiles())
    data = bytearray(stored(source, 0))
    data[-1] ^= 1

    with pytest.raises(Refused):
        target.log.append_as_follower(data, source.log.end, 1, target.now)
    assert target.log.end == 0


def test_records_of_an_epoch_that_no_record_began_are_refused() -> None:
    source, target = leader(), replica(MemoryFiles())
    target.start_epoch(2)
    source.put(b"d")
    data = stored(source, 1)
    with pytest.raises(Refused):
        target.log.append_as_follower(data, source.log.end, 1, target.now)
    assert target.log.epochs.history == ((2, 0),)


@pytest.mark.parametrize("start", [2, 5, 40])
def test_a_log_that_is_reset_is_empty_at_its_new_start(start: int) -> None:
    files = MemoryFiles()
    target = replica(files)
    copy(leader(), target, 0)

    target.carry_out(target.log.reset(Offset(start)))

    for log in (target.log, replica(MemoryFiles(files.copy())).log):
        assert (log.start, log.end, log.high_watermark) == (start, start, start)
        assert (log.last_epoch, log.segment_count, log.damaged) == (0, 1, ())


def test_a_log_that_was_reset_continues_in_the_epoch_of_the_leader() -> None:
    source, files = leader(), MemoryFiles()
    for _ in range(40):
        source.put(b"x" * 60)
    source.log.commit(source.log.end)
    source.carry_out(source.log.delete_before(Offset(20)))
    target = replica(files)
    copy(leader(), target, 0)
    target.carry_out(target.log.reset(Offset(20)))
    while target.log.end < source.log.end:
        wanted = source.log.read_for_follower(target.log.end, 1000)
        assert wanted is not None
        data = bytes(source.storage.read(wanted))
        count = data.count(b"x" * 60)
        following = Offset(target.log.end + count)
        appended = target.log.append_as_follower(data, following, 3, target.now)
        target.carry_out(appended.effects)

    assert target.log.epochs.history == source.log.epochs.history == ((3, 20),)
    assert replica(MemoryFiles(files.copy())).log.last_epoch == 3


def test_an_append_waits_for_a_reset() -> None:
    target = replica(MemoryFiles())
    target.log.reset(Offset(7))

    with pytest.raises(Refused) as refused:
        target.log.append_as_follower(stored(leader(), 0), Offset(5), 1, target.now)
    assert refused.value.code is Code.LOG_BUSY


@pytest.mark.parametrize("start", [20, 45])
def test_a_crash_at_any_point_of_a_reset_leaves_a_sound_log(start: int) -> None:
    """The records as they were, or only the first of them, or none and the new start."""
    outcomes: dict[tuple[int, int], None] = {}
    for operations in range(200):
        files = MemoryFiles()
        target = replica(files, ReplicaRole.LEADER)
        target.start_epoch(1)
        for _ in range(39):
            target.put(b"x" * 100)
        assert (target.log.end, len(target.log.segments)) == (40, 3)
        files.faults.operations_left = operations
        try:
            target.carry_out(target.log.reset(Offset(start)))
            is_done = True
        except Killed:
            is_done = False
        found = replica(MemoryFiles(files.copy())).log
        assert found.damaged == ()
        assert found.start in {found.end, 0}
        outcomes[int(found.start), int(found.end)] = None
        if is_done:
            assert (found.start, found.end) == (start, start)
            break
    assert (0, 40) in outcomes
    assert (start, start) in outcomes
