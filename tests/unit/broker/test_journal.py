"""What journals ask of a log beyond what users do: new segments, drops, other settings."""

import pytest

from goqueue.log import Log, LogState
from goqueue.model import (
    Code,
    Drop,
    Failed,
    Flush,
    Instant,
    LogId,
    LogSettings,
    Message,
    Now,
    Offset,
    Refused,
    Reshape,
    Roll,
    Sync,
    Synced,
    Timestamp,
)
from goqueue.records import build

ID = LogId("__groups", 0)

NOW = Now(Instant(0), Timestamp(1))


def filled(*counts: int) -> Log:
    """A log with so many records in each segment, all committed."""
    log = Log(ID, LogSettings(), LogState())
    for index, count in enumerate(counts):
        if index:
            log.begin_segment()
        log.append(build([Message(value=b"x")] * count), NOW)
        log.handle(Synced(log=ID, upto=log.end), NOW)
    return log


def test_a_new_segment_begins_at_the_end() -> None:
    log = filled(3)

    assert log.begin_segment() == [Reshape(log=ID, change=Roll(Offset(3)))]
    assert [segment.base for segment in log.segments] == [0, 3]


def test_an_empty_segment_is_new_already() -> None:
    log = filled(3)
    log.begin_segment()

    assert log.begin_segment() == []
    assert filled().begin_segment() == []


def test_segments_that_end_at_or_below_an_offset_are_dropped() -> None:
    log = filled(3, 2, 4)

    assert log.drop_below(Offset(5)) == [Reshape(log=ID, change=Drop(Offset(5)))]
    assert log.start == 5
    assert [segment.base for segment in log.segments] == [5]


def test_a_segment_that_reaches_beyond_the_offset_stays_whole() -> None:
    log = filled(3, 2, 4)
    log.drop_below(Offset(4))

    assert log.start == 3
    assert log.drop_below(Offset(4)) == []
    assert log.drop_below(Offset(2)) == []


def test_the_active_segment_is_never_dropped() -> None:
    log = filled(3)

    assert log.drop_below(Offset(3)) == []
    assert log.start == 0


def test_what_was_dropped_cannot_be_read() -> None:
    log = filled(3, 2)
    log.drop_below(Offset(3))

    with pytest.raises(Refused) as refused:
        log.read(Offset(2), 100)
    assert refused.value.code is Code.OFFSET_OUT_OF_RANGE
    assert log.read(Offset(3), 100) is not None


def test_a_failed_log_drops_nothing() -> None:
    log = filled(3, 2)
    log.handle(Failed(log=ID, reason="broken"), NOW)

    assert log.drop_below(Offset(3)) == []
    assert log.start == 0


def test_other_settings_hold_from_the_next_append_on() -> None:
    log = filled(1)
    log.configure(LogSettings(flush=Flush.INTERVAL, flush_interval_ns=7))
    appended = log.append(build([Message(value=b"x")]), NOW)

    assert Sync(log=ID, upto=Offset(2), is_durable=False) in appended.effects
    assert log.next_deadline() == 7


def test_a_log_that_flushed_by_interval_and_no_longer_does_still_flushes_what_it_owes() -> None:
    log = Log(ID, LogSettings(flush=Flush.INTERVAL, flush_interval_ns=7), LogState())
    log.append(build([Message(value=b"x")]), NOW)
    log.configure(LogSettings(flush=Flush.COMMIT))

    assert log.next_deadline() == 7
    later = Now(Instant(7), Timestamp(8))
    assert log.expire(later) == [Sync(log=ID, upto=Offset(1))]
