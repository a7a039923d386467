"""Reading, searching and retention of a log, as decisions."""

import msgspec
import pytest

from goqueue.model import SECOND, Code, Drop, Offset, Refused, Roll, Timestamp
from tests.unit.log.bare_log import SETTINGS, WALL, append, at, changes, commit, new_log


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
