"""Delayed messages when something goes wrong: full and broken disks, damage, clocks that jump."""

import errno

import pytest

from goqueue.model import SECOND, Code, Flush
from goqueue.model.requests import DelayedList, DelayState, ListDelayed, TopicConfig
from tests.unit.broker.delayed.users import (
    LONG,
    TICK,
    cancel,
    delay,
    find,
    pending,
    shown,
    shown_values,
    state_of,
    statistics,
    store,
    total_messages,
)
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS, create, join, poll, publish, values
from tests.unit.storage.memory_files import MemoryFiles

FIRST = "orders/0/00000000000000000000.log"

BIG = "x" * 40_000

HOUR = 3600 * SECOND


def segmented() -> DrivenNode:
    """Every large message begins a segment of its own, or nearly so."""
    return store(segment_bytes=64 * 1024)


def firsts(node: DrivenNode) -> list[str]:
    """The first letter of each value that is shown behind the first message."""
    return [(record.value or b"").decode()[0] for record in shown(node, offset=1)]


# The disk


def test_a_full_disk_keeps_messages_waiting_until_there_is_space() -> None:
    node = store()
    delay(node, ("a", SECOND), ("b", 2 * SECOND))
    node.files.faults.room = 0
    node.advance(10 * SECOND)
    assert shown_values(node) == []
    assert pending(node) == [0, 1]
    assert statistics(node).pending == 2
    node.files.faults.room = None
    node.advance(3 * SECOND)

    assert shown_values(node) == ["a", "b"]
    assert [find(node, offset).delivered_offset for offset in (0, 1)] == [2, 3]


def test_a_delivery_that_a_full_disk_takes_back_happens_later_and_once() -> None:
    node = store()
    delay(node, ("a", SECOND))
    node.slow_down(ORDERS)
    node.advance(SECOND + TICK)
    node.files.faults.room = 0
    node.speed_up()
    assert shown_values(node) == []
    assert state_of(node, 0) is DelayState.PENDING
    node.files.faults.room = None
    node.advance(3 * SECOND)
    node.restart()
    node.advance(3 * SECOND)

    assert shown_values(node) == ["a"]


def test_a_delayed_message_that_a_full_disk_refused_is_not_there() -> None:
    node = store()
    delay(node, ("a", SECOND))
    node.files.faults.room = 0
    assert delay(node, ("b", SECOND)).placed[0].refused is Code.STORAGE_FULL
    node.files.faults.room = None
    node.advance(5 * SECOND)

    assert shown_values(node) == ["a"]
    assert state_of(node, 1) is None


def test_after_a_full_disk_the_offsets_of_lost_records_name_new_messages() -> None:
    node = store()
    delay(node, ("a", SECOND))
    node.slow_down(ORDERS)
    node.advance(SECOND + TICK)
    node.files.faults.room = 0
    node.speed_up()
    node.files.faults.room = None
    node.advance(SECOND // 2)
    node.slow_down(ORDERS)
    node.advance(SECOND // 2)
    node.speed_up()
    delay(node, ("b", SECOND))
    node.advance(5 * SECOND)

    assert sorted(shown_values(node)) == ["a", "b"]
    assert statistics(node).delivered == 2


def test_a_failed_log_delivers_nothing_and_everything_after_a_restart() -> None:
    node = store()
    delay(node, ("a", SECOND), ("b", 2 * SECOND))
    node.files.faults.broken["sync", FIRST] = errno.EIO
    node.advance(10 * SECOND)
    assert shown_values(node) == []
    assert cancel(node, 1) is Code.STORAGE_FAILED
    node.restart()
    node.advance(5 * SECOND)

    assert shown_values(node) == ["a", "b"]


def test_a_log_that_is_busy_does_not_make_the_node_spin() -> None:
    node = store()
    delay(node, *((str(number), SECOND) for number in range(3000)))
    node.files.faults.broken["write", FIRST] = errno.EIO
    node.advance(30 * SECOND)

    assert statistics(node).pending == 3000


# Damage


@pytest.mark.parametrize("without_snapshots", [False, True])
def test_a_message_that_is_damaged_expires_and_the_others_fire(without_snapshots: bool) -> None:
    node = segmented()
    for number in range(3):
        delay(node, (f"{number}{BIG}", (number + 2) * SECOND))
    node.stop()
    node.restart(without_snapshots=without_snapshots)
    node.files.faults.bad_sectors[FIRST] = 100
    node.advance(20 * SECOND)

    assert firsts(node) == ["1", "2"]
    assert state_of(node, 0) is DelayState.EXPIRED
    assert cancel(node, 0) is Code.MESSAGE_NOT_FOUND
    assert statistics(node).pending == 0
    assert pending(node) == []


def test_a_start_over_damage_knows_what_lies_behind_it() -> None:
    node = segmented()
    for number in range(3):
        delay(node, (f"{number}{BIG}", 10 * SECOND + number))
    content = bytearray(node.files.copy()["logs/" + FIRST])
    content[200] ^= 1
    files = node.files.copy() | {"logs/" + FIRST: bytes(content)}
    again = DrivenNode(MemoryFiles(files), now_ns=node.now_ns)
    assert pending(again) == [1, 2]
    again.advance(20 * SECOND)

    assert firsts(again) == ["1", "2"]


def test_a_pending_message_whose_segment_is_gone_stops_nobody_after_a_start() -> None:
    node = segmented()
    for number in range(3):
        delay(node, (f"{number}{BIG}", 10 * SECOND + number))
    node.stop()
    content = bytearray(node.files.copy()["logs/" + FIRST])
    content[200] ^= 1
    again = DrivenNode(
        MemoryFiles(node.files.copy() | {"logs/" + FIRST: bytes(content)}), now_ns=node.now_ns
    )
    for _ in range(2):
        listed = again.ask(ListDelayed(topic="orders"), DelayedList)
        assert {1, 2} <= {each.offset for each in listed.messages}
        again.restart()
    again.advance(20 * SECOND)

    assert firsts(again) == ["1", "2"]
    assert statistics(again).pending == 0


# The clock


def test_a_wall_clock_put_forward_makes_messages_due() -> None:
    node = store()
    delay(node, ("a", HOUR), ("b", 3 * HOUR))
    node.advance(5 * SECOND)
    node.wall_shift_ns += 2 * HOUR
    node.advance(2 * SECOND)

    assert shown_values(node) == ["a"]
    assert pending(node) == [1]


def test_a_wall_clock_put_back_lets_messages_wait_and_none_is_early() -> None:
    node = store()
    delay(node, ("a", 10 * SECOND))
    due = find(node, 0).due
    node.advance(5 * SECOND)
    node.wall_shift_ns -= HOUR
    node.advance(20 * SECOND)
    assert shown_values(node) == []
    node.advance(HOUR - 20 * SECOND + 5 * SECOND + TICK)
    assert shown_values(node) == ["a"]
    assert shown(node)[0].timestamp >= due


def test_a_wall_clock_that_jumps_to_and_fro_delivers_each_message_once() -> None:
    node = store()
    delay(node, *((str(number), (number + 1) * 60 * SECOND) for number in range(20)))
    for shift in (10, -30, 5, 600, -600, 1, -1, 3000, -3000):
        node.wall_shift_ns += shift * SECOND
        node.advance(45 * SECOND)
        assert sorted(shown_values(node)) == sorted(set(shown_values(node)))
    node.advance(4 * HOUR)

    assert sorted(shown_values(node), key=int) == [str(number) for number in range(20)]


def test_a_wall_clock_put_back_while_the_node_was_down_is_followed() -> None:
    node = store()
    delay(node, ("a", 10 * SECOND))
    node.stop()
    node.wall_shift_ns -= HOUR
    node.restart()
    node.advance(HOUR)
    assert shown_values(node) == []
    node.advance(11 * SECOND)

    assert shown_values(node) == ["a"]


def test_a_message_published_after_the_clock_was_put_back_is_on_time() -> None:
    node = store()
    delay(node, ("a", HOUR))
    node.advance(60 * SECOND)
    node.wall_shift_ns -= 10 * HOUR
    delay(node, ("b", SECOND))
    node.advance(SECOND + TICK)

    assert shown_values(node) == ["b"]


# What may be on its way at once


@pytest.mark.parametrize("between", [0, 1])
def test_what_is_read_at_once_is_bounded_however_much_is_due(between: int) -> None:
    node = store()
    for _ in range(5):
        delay(node, *((f"{n}", 0 if between and n % 2 else SECOND) for n in range(2000)))
    count = statistics(node).pending
    node.reads_are_late = True
    node.advance(2 * SECOND)
    asked = sum(fetch.wanted.bytes_max for fetch in node.late_reads)
    assert asked <= 8 * 1024 * 1024
    node.finish_reads()
    node.advance(30 * SECOND)

    assert statistics(node).delivered == count


def test_more_than_a_segment_that_is_due_at_once_is_delivered() -> None:
    node = store()
    value = "x" * 1_000_000
    for _ in range(70):
        delay(node, (value, SECOND), ("plain", 0))
    node.advance(5 * SECOND)

    assert statistics(node).delivered == 70


def test_large_messages_in_several_places_are_delivered_in_the_order_of_their_due_times() -> None:
    node = store()
    big = "x" * 300_000
    dues = [3, 1, 2, 5, 4, 9, 8, 7, 6, 0]
    for place, due in enumerate(dues):
        delay(node, (f"{due}{big}", 5 * SECOND + due))
        if place % 5 == 4:
            publish(node, "plain")
    node.advance(10 * SECOND)

    found = [value[0] for value in shown_values(node) if value != "plain"]
    assert found == list("0123456789")


def test_reads_that_come_late_deliver_each_message_once() -> None:
    node = store()
    delay(node, *((str(number), SECOND + number) for number in range(50)))
    for _ in range(4):
        node.reads_are_late = True
        node.advance(2 * SECOND)
        node.finish_reads()
    node.advance(5 * SECOND)

    assert sorted(shown_values(node), key=int) == [str(number) for number in range(50)]


def test_messages_of_a_topic_that_flushes_by_interval_are_delivered_once() -> None:
    node = DrivenNode()
    create(node, config=TopicConfig(flush_policy=Flush.INTERVAL, flush_interval_ms=200))
    join(node, session_ns=LONG)
    delay(node, ("a", SECOND), ("b", 5 * SECOND))
    cancel(node, 1)
    publish(node, "c")
    node.advance(10 * SECOND)

    assert shown_values(node) == values(poll(node)) == ["c", "a"]
    assert total_messages(node) == 2
