"""Lanes over a long backlog: the census, what is gone from the log, memory, statistics."""

import pytest

from goqueue.model import HOUR, SECOND, Cleanup
from goqueue.model.requests import DeleteTopic, Done
from tests.unit.broker.groups.priorities import (
    CRITICAL,
    HIGH,
    LOW,
    NORMAL,
    backlog,
    commit,
    drain,
    lane_of,
    let_scouting_end,
    offsets_of,
    publish,
    statistics,
)
from tests.unit.broker.users import ack, committed, create, join, poll, polling, read, shop

# The window of a lane, and one survey of the smallest messages.
WINDOW = 1000

SURVEY = 256 * 1024 // 30

# Groups and the census


def test_a_group_that_stands_lower_than_the_census_misses_nothing() -> None:
    node = shop()
    publish(node, [NORMAL] * 6000)
    commit(node, 5500)
    publish(node, [CRITICAL] + [NORMAL] * 6000)
    poll(node, count=1)
    let_scouting_end(node)
    join(node, "late", "c2")

    assert sorted(offsets_of(drain(node, "late", "c2"))) == list(range(12_001))


def test_what_was_read_for_a_census_that_began_higher_is_not_taken_for_the_lower_one() -> None:
    node = shop()
    publish(node, [CRITICAL] + [NORMAL] * 9000)
    commit(node, 8900)
    poll(node, count=1)
    publish(node, [NORMAL] * 3000)
    poll(node, count=1)
    node.news_of_reads_is_late = True
    node.advance(1)
    join(node, "late", "c2")
    waiting = node.begin(polling("late", "c2", count=1))
    node.hear_of_reads()
    let_scouting_end(node)

    assert node.is_answered(waiting)
    found = offsets_of(drain(node, "late", "c2"))
    assert len(found) == len(set(found)) == 12_001 - 1


def test_a_topic_that_is_made_again_is_not_counted_by_what_was_read_of_the_old_one() -> None:
    node = shop()
    publish(node, [NORMAL] * 9000 + [CRITICAL])
    poll(node, count=1)
    node.news_of_reads_is_late = True
    node.advance(1)
    node.ask(DeleteTopic(name="orders"), Done)
    node.news_of_reads_is_late = False
    create(node)
    join(node, "new", "c2")
    publish(node, [CRITICAL] * 9000 + [NORMAL])
    poll(node, "new", "c2", count=1)
    node.hear_of_reads()
    let_scouting_end(node)

    assert len(drain(node, "new", "c2")) == 9000
    assert committed(node, "new") in (None, 0)


# What is gone


def test_a_group_gets_past_blocks_that_compaction_emptied() -> None:
    node = shop(segment_bytes=64 * 1024, cleanup_policy=Cleanup.COMPACT)
    for _ in range(4):
        publish(node, [NORMAL, CRITICAL] * 2500, keys=["same"], value=b"x" * 20)
    node.advance(300 * SECOND)
    join(node)
    found = offsets_of(drain(node))

    assert len(found) < 10_000, "compaction took nothing"
    assert len(found) == len(set(found))
    assert max(found) == 19_999
    assert committed(node) == 20_000


def test_what_retention_removed_is_in_no_lane() -> None:
    node = shop(segment_bytes=64 * 1024, retention_hours=1)
    publish(node, [NORMAL, CRITICAL] * 4000, value=b"x" * 20)
    poll(node, count=10)
    node.advance(2 * HOUR)
    publish(node, [LOW, CRITICAL] * 2000, value=b"y" * 20)
    node.advance(300 * SECOND)
    left = [record.offset for record in read(node)]
    assert left[0] > 0, "retention took nothing"
    join(node)

    assert sorted(offsets_of(drain(node))) == left


@pytest.mark.parametrize("number", [0, 1, 2, 4])
def test_what_is_damaged_holds_up_no_lane(number: int) -> None:
    node = shop(segment_bytes=64 * 1024)
    publish(node, [NORMAL])
    for _ in range(5):
        publish(node, [NORMAL, CRITICAL, LOW, LOW] * 1000, value=b"x" * 20)
    segments = sorted(path for path in node.files.copy() if "orders/0/" in path)
    logs = [path for path in segments if path.endswith(".log")]
    node.files.faults.bad_sectors[logs[number]] = 100
    poll(node, count=1)
    let_scouting_end(node)
    node.advance(31 * SECOND)
    join(node)
    found = offsets_of(drain(node))

    begin, end = (int(path.split("/")[-1].removesuffix(".log")) for path in logs[number:][:2])
    expected = [offset for offset in range(20_001) if not begin <= offset < end]
    assert len(found) == len(set(found))
    assert set(expected) <= set(found)
    assert committed(node) == 20_001


# Memory


def test_a_backlog_of_50000_is_held_in_a_window_for_each_lane() -> None:
    node = shop()
    for lane in (NORMAL, LOW):
        backlog(node, 25_000, lane)
    publish(node, [CRITICAL])
    poll(node, count=1)
    let_scouting_end(node)
    found = 1
    most = 0
    while batch := poll(node, count=1000):
        ack(node, *batch)
        found += len(batch)
        most = max(most, *(each.ready for each in statistics(node).lanes))

    assert found == 50_001
    assert most <= WINDOW + SURVEY


def test_scouting_reads_each_piece_of_a_backlog_once_and_ends() -> None:
    node = shop()
    for _ in range(10):
        publish(node, [NORMAL] * 5000 + [HIGH], value=b"x" * 50)
    node.runs_later_turns = False
    poll(node, count=1)
    node.reads_are_late = True
    pieces = 0
    node.advance(1)
    while node.late_reads:
        pieces += 1
        assert len(node.late_reads) == 1
        node.finish_reads()
        node.reads_are_late = True
        node.advance(1)

    assert 3 <= pieces <= 10
    node.reads_are_late = False
    assert node.late_reads == ()


# Statistics


def test_statistics_tell_of_each_lane_what_it_holds_and_did() -> None:
    node = shop()
    node.advance(1000 * SECOND)
    join(node)
    publish(node, [NORMAL] * 3 + [CRITICAL] * 2)
    poll(node, count=3)
    node.advance(2 * SECOND)

    critical, normal = lane_of(node, CRITICAL), lane_of(node, NORMAL)
    assert (critical.ready, critical.in_flight, critical.enqueued, critical.dequeued) == (
        0,
        2,
        2,
        2,
    )
    assert (normal.ready, normal.in_flight, normal.enqueued, normal.dequeued) == (2, 1, 3, 1)
    assert critical.served_ago_ns == normal.served_ago_ns == 2 * SECOND
    assert (critical.waiting_ns, normal.waiting_ns) == (0, 2 * SECOND)

    drain(node)
    told = statistics(node)
    assert told.published == (2, 0, 3, 0, 0)
    assert told.pending == (2, 0, 1, 0, 0)
    assert told.average_wait_ns == (0, 0, 4 * SECOND // 3, 0, 0)


def test_statistics_are_by_group_and_partition() -> None:
    node = shop(partitions=2)
    publish(node, [HIGH], 0)
    publish(node, [LOW], 1)
    join(node, "other", "c2")
    poll(node)
    poll(node, "other", "c2")

    places = {(each.group, each.log.partition, each.lane) for each in statistics(node).lanes}
    assert places == {("shop", 0, HIGH), ("shop", 1, LOW), ("other", 0, HIGH), ("other", 1, LOW)}
