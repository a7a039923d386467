"""Who commits: a standalone log by its own disk, a replicated one by the word of its owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import (
    STANDALONE,
    BatchMark,
    Log,
    LogState,
    Marker,
    Replica,
    ReplicaRole,
    Watermarks,
)
from goqueue.model import (
    Failed,
    LogSettings,
    Message,
    Offset,
    Sync,
    Synced,
    Truncated,
)
from goqueue.records import build
from tests.unit.log.bare_log import (
    INTERVAL,
    LOG,
    SETTINGS,
    WALL,
    append,
    at,
    changes,
    new_log,
    segment,
)


def leading(settings: LogSettings = SETTINGS, state: LogState | None = None) -> Log:
    return Log(LOG, settings, state or LogState(), Replica(ReplicaRole.LEADER, 1))


def synced(log: Log, upto: int, *, is_durable: bool = True) -> None:
    log.handle(Synced(log=LOG, upto=Offset(upto), is_durable=is_durable), at())


def test_a_standalone_log_commits_what_its_disk_reports_and_nobody_else_may() -> None:
    log = new_log()
    append(log, 2)
    synced(log, 2)
    assert (log.high_watermark, log.replica) == (2, STANDALONE)
    with pytest.raises(AssertionError, match="standalone"):
        log.commit(Offset(2))


def test_a_leader_commits_what_its_owner_decides_and_not_what_its_disk_reports() -> None:
    log = leading()
    append(log, 3)
    synced(log, 3)
    assert (log.watermarks.written, log.watermarks.durable, log.high_watermark) == (3, 3, 0)
    assert log.read(Offset(0), 1_000) is None
    assert log.commit(Offset(2))
    assert log.high_watermark == 2
    wanted = log.read(Offset(0), 1_000)
    assert wanted is not None
    assert wanted.below == 2
    assert not log.commit(Offset(1)), "it never falls"
    assert log.high_watermark == 2


def test_a_decision_ahead_of_the_own_disk_counts_after_the_next_sync() -> None:
    log = leading()
    append(log, 3)
    synced(log, 1)
    assert log.commit(Offset(3))
    assert log.high_watermark == 1
    synced(log, 3)
    assert log.high_watermark == 3


def test_flush_commit_counts_durable_records_and_flush_interval_written_ones() -> None:
    strict, lax = leading(), leading(INTERVAL)
    for log in (strict, lax):
        append(log, 2)
        synced(log, 2, is_durable=False)
        log.commit(Offset(2))
    assert (strict.watermarks.written, strict.watermarks.durable) == (2, 0)
    assert (strict.high_watermark, lax.high_watermark) == (0, 2)


def test_a_failed_log_commits_nothing_any_more() -> None:
    log = leading()
    append(log, 2)
    synced(log, 2)
    log.handle(Failed(log=LOG, reason="io"), at())
    assert not log.commit(Offset(2))
    assert log.high_watermark == 0
    assert log.save_committed() == []


def test_a_decision_does_not_outlive_its_leader_epoch() -> None:
    log = leading()
    append(log, 4)
    synced(log, 1)
    log.commit(Offset(4))
    log.assume_role(ReplicaRole.FOLLOWER, 2)
    synced(log, 4)
    assert (log.high_watermark, log.replica.epoch) == (1, 2)
    log.commit(Offset(3))
    assert log.high_watermark == 3


def test_a_new_role_in_the_same_epoch_keeps_what_was_decided() -> None:
    log = leading()
    append(log, 2)
    log.commit(Offset(2))
    log.assume_role(ReplicaRole.FOLLOWER, 1)
    synced(log, 2)
    assert log.high_watermark == 2


def test_a_leader_epoch_never_falls() -> None:
    log = leading()
    log.assume_role(ReplicaRole.FOLLOWER, 5)
    with pytest.raises(AssertionError, match="never falls"):
        log.assume_role(ReplicaRole.LEADER, 4)


def test_a_role_changes_one_log_and_not_the_one_that_all_standalone_logs_share() -> None:
    log, other = new_log(), new_log()
    log.assume_role(ReplicaRole.LEADER, 3)
    append(log)
    log.commit(Offset(1))
    assert other.replica.is_standalone
    assert (STANDALONE.role, STANDALONE.epoch) == (ReplicaRole.STANDALONE, 0)


def test_a_truncation_takes_back_decisions_about_what_it_removes() -> None:
    log = leading()
    append(log, 2)
    synced(log, 2)
    log.commit(Offset(9))
    assert log.high_watermark == 2
    append(log, 1)
    assert changes(log.truncate(Offset(2)))
    log.handle(Truncated(log=LOG, offset=Offset(2), active=segment(0, 2, 200)), at())
    append(log, 2)
    synced(log, 4)
    assert log.high_watermark == 2, "9 was said about records that are gone"
    log.commit(Offset(4))
    assert log.high_watermark == 4


def test_a_transaction_ends_with_the_commit_of_its_marker_and_not_with_its_sync() -> None:
    log = leading()
    mark = BatchMark(producer=7, epoch=1, sequence=-1, count=1, transaction=1, at=WALL)
    log.append(build([Message(value=b"a")]), at(), mark)
    ended = log.end_transaction(Marker(producer=7, epoch=1, transaction=1, is_commit=True), at())
    assert ended is not None
    synced(log, ended.next)
    assert (log.take_ended(), log.watermarks.stable) == ([], 0)
    log.commit(ended.next)
    assert [each.marker for each in log.take_ended()] == [1]
    assert log.watermarks.stable == 2


def test_a_replicated_log_opens_with_the_saved_high_watermark_not_with_its_end() -> None:
    state = LogState(segments=(segment(0, 5),), committed=Offset(3))
    assert new_log(state=state).high_watermark == 5
    assert leading(state=state).high_watermark == 3
    beyond = LogState(segments=(segment(0, 5),), committed=Offset(8))
    assert leading(state=beyond).high_watermark == 5
    retained = LogState(start=Offset(4), segments=(segment(4, 5),))
    assert leading(state=retained).high_watermark == 4


def test_only_a_replicated_log_saves_how_far_it_is_committed() -> None:
    log, alone = leading(), new_log()
    for each in (log, alone):
        append(each, 2)
        synced(each, 2)
    log.commit(Offset(2))
    assert append(alone).effects[-1] == Sync(log=LOG, upto=Offset(3))
    assert append(log).effects[-1] == Sync(log=LOG, upto=Offset(3), committed=Offset(2))
    assert log.save_committed() == [Sync(log=LOG, upto=Offset(3), committed=Offset(2))]


def test_what_the_own_disk_does_not_hold_is_never_committed() -> None:
    watermarks = Watermarks(Offset(3))
    with pytest.raises(AssertionError, match="own disk"):
        watermarks.commit(Offset(4))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("written"), st.integers(0, 40)),
        st.tuples(st.just("synced"), st.integers(0, 40)),
        st.tuples(st.just("decided"), st.integers(0, 40)),
        st.tuples(st.just("epoch"), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(STEPS, st.booleans())
def test_the_high_watermark_is_the_least_of_decided_and_held_and_never_falls(
    steps: list[tuple[str, int]], is_interval: bool
) -> None:
    log = leading(INTERVAL if is_interval else SETTINGS)
    written = durable = decided = committed = 0
    for step, number in steps:
        upto = min(number, int(log.end))
        match step:
            case "append":
                append(log, number)
            case "written":
                synced(log, upto, is_durable=False)
                written = max(written, upto)
            case "synced":
                synced(log, upto)
                written, durable = max(written, upto), max(durable, upto)
            case "decided":
                log.commit(Offset(number))
                decided = max(decided, number)
            case "epoch" if number:
                log.assume_role(ReplicaRole.LEADER, log.replica.epoch + number)
                decided = committed
        held = written if is_interval else durable
        committed = max(committed, min(decided, held))
        marks = log.watermarks
        assert (marks.written, marks.durable, marks.committed) == (written, durable, committed)


def test_what_was_decided_before_a_reset_commits_no_record_that_comes_after_it() -> None:
    log = Log(LOG, SETTINGS, LogState(), Replica(ReplicaRole.FOLLOWER, 1))
    append(log, 5)
    synced(log, 5)
    log.commit(Offset(5))

    log.reset(Offset(2))
    log.handle(Truncated(log=LOG, offset=Offset(2), active=segment(2, 2), is_reset=True), at())
    append(log, 2)
    synced(log, 4)

    assert (log.end, log.high_watermark) == (4, 2)
