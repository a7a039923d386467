"""The log as a machine: effects out, events in, no file in sight; reads, searches and retention."""

import msgspec
import pytest

from goqueue.log import Log
from goqueue.model import (
    MILLISECOND,
    SECOND,
    Code,
    Damaged,
    Drop,
    Failed,
    Filled,
    Message,
    Offset,
    Refused,
    Rewind,
    Roll,
    SaveEpochs,
    Sync,
    Synced,
    Timestamp,
    Truncate,
    Truncated,
    Write,
)
from goqueue.records import build, walk
from tests.unit.log.bare_log import (
    INTERVAL,
    LOG,
    SETTINGS,
    WALL,
    append,
    at,
    changes,
    commit,
    new_log,
    segment,
)

# Appending


def test_appending_gives_offsets_one_by_one_and_stamps_them() -> None:
    log = new_log()
    batch = build([Message(value=b"a"), Message(value=b"b")])
    assert append(log).first == 0
    appended = log.append(batch, at(5))
    assert (appended.first, appended.next, log.end) == (1, 3, 3)
    assert list(walk(batch).offsets) == [1, 2]
    assert list(walk(batch).timestamps) == [WALL + 5] * 2


def test_each_batch_is_one_write_then_one_sync() -> None:
    log = new_log()
    first, second = append(log, 2), append(log)
    write, sync = first.effects
    assert isinstance(write, Write)
    assert (write.segment, write.position, write.next_offset) == (0, 0, 2)
    assert sync == Sync(log=LOG, upto=Offset(2))
    write = second.effects[0]
    assert isinstance(write, Write)
    assert write.position == 200


def test_nothing_is_readable_before_it_is_synced() -> None:
    log = new_log()
    append(log, 2)
    assert log.read(Offset(0), 1_000) is None
    assert (log.high_watermark, log.watermarks.durable) == (0, 0)
    log.handle(Synced(log=LOG, upto=Offset(1)), at())
    wanted = log.read(Offset(0), 1_000)
    assert wanted is not None
    assert (wanted.offset, wanted.below) == (0, 1)
    assert log.read(Offset(1), 1_000) is None


def test_an_empty_batch_changes_nothing() -> None:
    log = new_log()
    commit(log)
    try:
        appended = log.append(bytearray(), at())
    except Refused as refused:
        assert refused.code is Code.REQUEST_INVALID
    else:
        assert appended.effects == ()
    assert log.end == 1


def test_a_batch_that_does_not_fit_starts_a_new_segment() -> None:
    log = new_log()
    append(log, 3)
    appended = append(log)
    assert changes(appended.effects) == [Roll(Offset(3))]
    write = appended.effects[1]
    assert isinstance(write, Write)
    assert (write.segment, write.position) == (3, 0)
    assert [(s.base, s.end) for s in log.segments] == [(0, 3), (3, 4)]


def test_a_batch_larger_than_a_segment_has_one_to_itself() -> None:
    log = new_log()
    assert changes(append(log, 5).effects) == []
    assert changes(append(log).effects) == [Roll(Offset(5))]


def test_a_batch_above_the_limit_is_refused_with_its_size_and_the_limit() -> None:
    log = new_log(msgspec.structs.replace(SETTINGS, batch_bytes_max=200))
    append(log, 2)
    with pytest.raises(Refused) as refused:
        append(log, 3)
    assert refused.value.code is Code.MESSAGE_TOO_LARGE
    assert refused.value.facts == {"size": 300, "limit": 200}
    assert log.end == 2


def test_batches_beyond_those_in_flight_are_refused_until_the_disk_confirms_one() -> None:
    log = new_log(msgspec.structs.replace(SETTINGS, batches_in_flight_max=2))
    append(log)
    append(log)
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            append(log)
        assert refused.value.code is Code.LOG_BUSY
        assert refused.value.code.is_retriable
    log.handle(Synced(log=LOG, upto=Offset(1)), at())
    assert append(log).first == 2
    with pytest.raises(Refused):
        append(log)
    log.handle(Synced(log=LOG, upto=Offset(3)), at())
    assert append(log).first == 3


# Interval flush


def test_interval_flush_commits_what_is_written_and_syncs_after_a_second() -> None:
    log = new_log(INTERVAL)
    appended = append(log)
    assert appended.effects[-1] == Sync(log=LOG, upto=Offset(1), is_durable=False)
    log.handle(Synced(log=LOG, upto=Offset(1), is_durable=False), at())
    assert (log.high_watermark, log.watermarks.durable) == (1, 0)
    assert log.next_deadline() == 1_000 * MILLISECOND

    append(log, now=at(SECOND - 1))
    assert log.expire(at(SECOND - 1)) == []
    assert log.expire(at(SECOND)) == [Sync(log=LOG, upto=Offset(2))]
    assert log.next_deadline() is None
    assert log.expire(at(SECOND)) == []
    log.handle(Synced(log=LOG, upto=Offset(2)), at())
    assert log.watermarks.durable == 2


def test_a_flush_that_met_a_full_disk_is_made_up_for() -> None:
    log = new_log(INTERVAL)
    append(log)
    log.handle(Synced(log=LOG, upto=Offset(1), is_durable=False), at())
    append(log)
    # Storage drops this sync, because the write before it found the disk full.
    assert log.expire(at(SECOND))
    effects = log.handle(Filled(log=LOG, offset=Offset(1), segment=Offset(0)), at(SECOND))
    is_synced_now = Sync(log=LOG, upto=Offset(1)) in effects
    assert is_synced_now or log.next_deadline() is not None


def test_commit_flush_needs_no_deadline() -> None:
    log = new_log()
    append(log)
    assert log.next_deadline() is None


# A full disk


def test_a_full_disk_takes_back_the_offsets_that_were_not_written() -> None:
    log = new_log()
    commit(log)
    append(log)
    append(log)
    effects = log.handle(Filled(log=LOG, offset=Offset(1), segment=Offset(0)), at(7))
    assert changes(effects)[0] == Rewind(Offset(1))
    assert (log.end, log.high_watermark) == (1, 1)
    assert log.segments[-1].size == 100
    with pytest.raises(Refused) as refused:
        append(log, now=at(7))
    assert refused.value.code is Code.STORAGE_FULL
    assert append(log, now=at(7 + SETTINGS.full_retry_ns)).first == 1


@pytest.mark.parametrize("is_rolled", [True, False])
def test_a_full_disk_at_a_roll_goes_on_in_the_segment_that_is_really_active(
    is_rolled: bool,
) -> None:
    log = new_log()
    commit(log, 3)
    append(log)
    segment_on_disk = Offset(3 if is_rolled else 0)
    log.handle(Filled(log=LOG, offset=Offset(3), segment=segment_on_disk), at())
    assert log.end == 3
    assert [s.base for s in log.segments] == ([0, 3] if is_rolled else [0])
    appended = append(log, now=at(SECOND * 10))
    assert changes(appended.effects) == ([] if is_rolled else [Roll(Offset(3))])


def test_a_full_disk_takes_back_the_epoch_that_was_not_written() -> None:
    log = new_log()
    started = log.start_epoch(4, at())
    assert log.epochs.history == ((4, 0),)
    assert changes(started.effects)[0] == SaveEpochs(((4, 0),))
    effects = log.handle(Filled(log=LOG, offset=Offset(0), segment=Offset(0)), at())
    assert log.epochs.latest is None
    assert SaveEpochs(()) in changes(effects)


# Failure


def test_a_failed_log_never_commits_or_takes_anything_again() -> None:
    log = new_log()
    commit(log)
    append(log)
    log.handle(Failed(log=LOG, reason="EIO: gone"), at())
    log.handle(Synced(log=LOG, upto=Offset(2)), at())
    assert log.high_watermark == 1
    for command in (lambda: append(log), lambda: log.truncate(Offset(0))):
        with pytest.raises(Refused) as refused:
            command()
        assert refused.value.code is Code.STORAGE_FAILED
        assert not refused.value.code.is_retriable
    assert log.read(Offset(0), 100) is not None
    assert log.maintain(at()) == []
    log.handle(Failed(log=LOG, reason="another"), at())
    assert log.failure == "EIO: gone"


# Truncation


def test_a_truncation_is_busy_until_done_and_lowers_what_is_committed_at_once() -> None:
    log = new_log()
    commit(log, 3)
    commit(log, 2)
    assert changes(log.truncate(Offset(2))) == [Truncate(Offset(2))]
    assert (log.high_watermark, log.watermarks.durable) == (2, 2)
    for command in (lambda: append(log), lambda: log.truncate(Offset(1))):
        with pytest.raises(Refused) as refused:
            command()
        assert refused.value.code is Code.LOG_BUSY
    log.handle(Truncated(log=LOG, offset=Offset(2), active=segment(0, 2, 200)), at())
    assert log.end == 2
    assert [(s.base, s.end) for s in log.segments] == [(0, 2)]
    assert append(log).first == 2


def test_a_sync_reported_late_commits_nothing_that_is_being_cut() -> None:
    log = new_log()
    append(log, 3)
    log.truncate(Offset(1))
    log.handle(Synced(log=LOG, upto=Offset(3)), at())
    assert log.high_watermark == 1


def test_a_full_disk_reported_during_a_truncation_changes_nothing() -> None:
    log = new_log()
    commit(log, 2)
    append(log)
    log.truncate(Offset(1))
    assert log.handle(Filled(log=LOG, offset=Offset(2), segment=Offset(0)), at()) == []
    log.handle(Truncated(log=LOG, offset=Offset(1), active=segment(0, 1)), at())
    assert append(log).first == 1


def test_damage_reported_during_a_truncation_refuses_nothing() -> None:
    log = new_log()
    commit(log, 3)
    log.truncate(Offset(1))
    log.handle(damage(0, 2), at())
    assert log.damaged == ()


def test_epochs_above_a_truncation_are_forgotten() -> None:
    log = new_log()
    log.start_epoch(1, at())
    append(log)
    log.start_epoch(2, at())
    log.truncate(Offset(2))
    effects = log.handle(Truncated(log=LOG, offset=Offset(2), active=segment(0, 2)), at())
    assert changes(effects) == [SaveEpochs(((1, 0),))]
    with pytest.raises(Refused) as refused:
        log.start_epoch(1, at())
    assert refused.value.code is Code.REQUEST_INVALID


# Damage


def damage(first: int, below: int, segment: int = 0) -> Damaged:
    return Damaged(
        log=LOG,
        segment=Offset(segment),
        position=9,
        first=Offset(first),
        below=Offset(below),
        reason="crc",
    )


def refused_in(log: Log) -> list[tuple[int, int]]:
    return [(gap.first, gap.below) for gap in log.damaged]


def test_damaged_records_are_refused_and_those_around_them_are_read() -> None:
    log = new_log()
    commit(log, 5)
    assert log.handle(damage(1, 3), at()) == []
    for offset in (1, 2):
        with pytest.raises(Refused) as refused:
            log.read(Offset(offset), 100)
        assert refused.value.code is Code.RECORDS_DAMAGED
        assert refused.value.facts["next_offset"] == 3
    before, behind = log.read(Offset(0), 100), log.read(Offset(3), 100)
    assert before is not None
    assert behind is not None
    assert (before.below, behind.below) == (1, 5)


def test_damage_that_touches_other_damage_is_one_range() -> None:
    log = new_log()
    commit(log, 9)
    for first, below in ((1, 2), (5, 6), (2, 4), (1, 2), (4, 5)):
        log.handle(damage(first, below), at())
    assert refused_in(log) == [(1, 6)]
    assert log.readable_from(Offset(1)) == 6


def test_a_damaged_active_segment_takes_writes() -> None:
    log = new_log()
    commit(log, 2)
    assert log.handle(damage(0, 1), at()) == []
    assert append(log).first == 2
    assert refused_in(log) == [(0, 1)]


def test_no_offset_is_acknowledged_after_it_was_refused() -> None:
    log = new_log()
    commit(log, 2)
    append(log)
    log.handle(damage(1, 3), at())
    assert refused_in(log) == [(1, 2)]
    log.handle(Synced(log=LOG, upto=Offset(3)), at())
    assert log.read(Offset(2), 100) is not None


def test_damage_of_a_segment_that_is_gone_refuses_nothing() -> None:
    log = new_log()
    commit(log, 2)
    log.handle(damage(0, 1, segment=7), at())
    assert log.damaged == ()


@pytest.mark.parametrize("offset", [-1, 4, 1 << 62])
def test_reading_outside_the_log_is_refused(offset: int) -> None:
    log = new_log()
    commit(log, 3)
    with pytest.raises(Refused) as refused:
        log.read(Offset(offset), 100)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE
    assert refused.value.facts == {"offset": offset, "earliest": 0, "end": 3}


def test_a_read_ends_with_its_segment() -> None:
    log = new_log()
    commit(log, 3)
    commit(log, 3)
    wanted = log.read(Offset(1), 10_000)
    assert wanted is not None
    assert (wanted.segment, wanted.below) == (0, 3)


def test_the_last_stable_offset_never_passes_an_open_transaction() -> None:
    log = new_log()
    commit(log, 3)
    assert log.watermarks.stable == 3
    log.watermarks.hold_stable_at(Offset(1))
    assert log.watermarks.stable == 1
    log.watermarks.hold_stable_at(Offset(9))
    assert log.watermarks.stable == 3
    log.watermarks.hold_stable_at(None)
    assert log.watermarks.stable == 3


def test_a_search_by_time_looks_only_where_the_answer_can_be() -> None:
    log = new_log()
    for number in range(3):
        commit(log, 3, at(number * SECOND))
    assert [seek.segment for seek in log.seek(Timestamp(WALL + SECOND))] == [3, 6]
    assert log.seek(Timestamp(WALL + 3 * SECOND)) == []
    append(log, 3, at(9 * SECOND))
    assert all(seek.below <= log.high_watermark for seek in log.seek(Timestamp(0)))
    assert [seek.segment for seek in log.seek(Timestamp(0))] == [0, 3, 6]


# Retention


RETAINING = msgspec.structs.replace(SETTINGS, retention_ns=10 * SECOND)


def test_sealed_segments_are_deleted_once_their_newest_record_is_too_old() -> None:
    log = new_log(RETAINING)
    for number in range(3):
        commit(log, 3, at(number * SECOND))
    assert log.maintain(at(10 * SECOND)) == []
    assert changes(log.maintain(at(10 * SECOND + 1))) == [Drop(Offset(3))]
    assert log.start == 3
    with pytest.raises(Refused) as refused:
        log.read(Offset(2), 100)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE


def test_a_quiet_log_is_rolled_and_emptied_too() -> None:
    log = new_log(RETAINING)
    commit(log, 2)
    assert changes(log.maintain(at(11 * SECOND))) == [Roll(Offset(2)), Drop(Offset(2))]
    assert (log.start, log.end) == (2, 2)
    assert log.maintain(at(99 * SECOND)) == []


def test_retention_never_touches_what_lies_above_the_floor_or_is_not_committed() -> None:
    log = new_log(RETAINING)
    for _ in range(3):
        commit(log, 3)
    assert changes(log.maintain(at(99 * SECOND), Offset(5))) == [Drop(Offset(3))]
    log.watermarks.hold_stable_at(Offset(3))
    assert log.maintain(at(99 * SECOND)) == []
    waiting = new_log(RETAINING)
    append(waiting, 3)
    append(waiting, 3)
    assert waiting.maintain(at(99 * SECOND)) == []


def test_retention_by_size_keeps_at_least_that_much() -> None:
    log = new_log(msgspec.structs.replace(SETTINGS, retention_bytes=500))
    for _ in range(4):
        commit(log, 3)
    assert changes(log.maintain(at())) == [Drop(Offset(6))]
    assert log.size == 600


# Deletion on request


def test_a_deletion_may_begin_a_log_inside_a_segment() -> None:
    log = new_log()
    for _ in range(7):
        commit(log)
    before = [each.base for each in log.segments]
    (drop,) = changes(log.delete_before(Offset(4)))

    assert before == [0, 3, 6]
    assert drop == Drop(Offset(4))
    assert log.start == 4
    assert [each.base for each in log.segments] == [3, 6]
    with pytest.raises(Refused):
        log.read(Offset(3), 1000)
    assert log.read(Offset(4), 1000) is not None


def test_a_deletion_of_everything_seals_the_active_segment() -> None:
    log = new_log()
    commit(log, 2)

    assert changes(log.delete_before(Offset(2))) == [Roll(Offset(2)), Drop(Offset(2))]
    assert (log.start, log.end, log.size) == (2, 2, 0)
    assert changes(log.delete_before(Offset(1))) == [Drop(Offset(2))]


def test_an_offset_that_is_not_committed_is_never_deleted() -> None:
    log = new_log()
    commit(log)
    append(log)
    with pytest.raises(AssertionError):
        log.delete_before(Offset(2))
