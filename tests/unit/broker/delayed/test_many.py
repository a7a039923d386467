"""Delayed messages in numbers: many at once, large ones, their order; lists and figures."""

import pytest

from goqueue.delivery import DelaysStated
from goqueue.model import GIVEN_HEADERS_BYTES_MAX, SECOND, Code, LogId, Offset, Refused, Save
from goqueue.model.requests import (
    DelayedDescription,
    DelayedList,
    DelayState,
    FindDelayed,
    ListDelayed,
    Mode,
)
from tests.unit.broker.delayed.users import (
    TICK,
    cancel,
    delay,
    delayed_from,
    pending,
    shown,
    shown_values,
    state_of,
    statistics,
    store,
)
from tests.unit.broker.driven_node import Work
from tests.unit.broker.users import (
    ORDERS,
    ack,
    poll,
    values,
)

DAY = 24 * 3600 * SECOND

MODES = [Mode.PARTITIONED, Mode.SHARED, Mode.KEY_ORDERED]


def test_messages_are_delivered_in_the_order_in_which_they_are_due() -> None:
    node = store()
    delay(node, ("third", 3 * SECOND), ("first", SECOND), ("second", 2 * SECOND))
    node.advance(10 * SECOND)

    assert shown_values(node) == ["first", "second", "third"]


def test_messages_that_are_overdue_together_are_delivered_by_due_time() -> None:
    node = store()
    delay(node, ("third", 3 * SECOND), ("first", SECOND), ("plain", 0), ("second", 2 * SECOND))
    node.now_ns += 10 * SECOND
    node.advance(SECOND)

    assert shown_values(node) == ["plain", "first", "second", "third"]


def test_two_messages_of_one_key_that_are_due_in_one_tick_keep_their_due_order() -> None:
    node = store(mode=Mode.KEY_ORDERED)
    delay(node, ("k=second", SECOND + 2), ("k=first", SECOND + 1))
    node.advance(SECOND + TICK)

    (first,) = poll(node)
    assert values([first]) == ["first"]
    ack(node, first)
    assert values(poll(node)) == ["second"]


def test_a_page_of_pending_messages_is_by_due_time_over_all_partitions() -> None:
    node = store(partitions=2)
    delay(node, ("a", 3 * SECOND), ("b", SECOND), ("c", 2 * SECOND), targets=[0, 1, 0])
    whole = node.ask(ListDelayed(topic="orders"), DelayedList)
    assert [each.log.partition for each in whole.messages] == [1, 0, 0]
    assert [each.offset for each in whole.messages] == [0, 1, 0]
    assert whole.total == 3

    part = node.ask(ListDelayed(topic="orders", skip=1, limit=1), DelayedList)
    assert part.messages == whole.messages[1:2]
    assert part.total == 3
    none = node.ask(ListDelayed(topic="orders", skip=3), DelayedList)
    assert none.messages == ()


def test_a_message_on_its_way_is_still_listed_as_pending() -> None:
    node = store()
    delay(node, ("later", SECOND))
    node.slow_down(ORDERS)
    node.advance(2 * SECOND)
    listed = node.ask(ListDelayed(topic="orders"), DelayedList)
    assert state_of(node, 0) is DelayState.PENDING
    assert (listed.total, len(listed.messages)) == (1, 1)
    assert statistics(node).next_due is not None
    node.speed_up()
    assert pending(node) == []


def test_statistics_count_what_became_of_messages() -> None:
    node = store(partitions=2)
    assert statistics(node).pending == 0
    delay(node, ("a", SECOND), ("b", 3 * SECOND), ("c", 50 * SECOND), targets=[0, 1, 0])
    before = statistics(node)
    assert (before.pending, before.delivered, before.by_topic) == (3, 0, {"orders": 3})
    assert before.next_due == node.now.wall + SECOND
    assert before.average_delay_ns == 18 * SECOND
    node.advance(10 * SECOND)
    after = statistics(node)
    assert (after.pending, after.delivered, after.by_topic) == (1, 2, {"orders": 1})


def test_a_delivered_message_is_found_with_the_offset_of_its_delivery() -> None:
    node = store(partitions=2)
    delay(node, ("a", SECOND), targets=[1])
    node.advance(2 * SECOND)
    found = node.ask(FindDelayed(topic="orders", offset=Offset(0)), DelayedDescription)
    assert (found.log, found.state) == (LogId("orders", 1), DelayState.DELIVERED)
    assert (found.delivered_offset, found.time_remaining_ns) == (1, 0)
    with pytest.raises(Refused) as refused:
        node.ask(FindDelayed(topic="orders", offset=Offset(0), partition=0), DelayedDescription)
    assert refused.value.code is Code.MESSAGE_NOT_FOUND
    assert state_of(node, 1) is None


def test_many_messages_that_are_due_at_once_are_all_delivered_and_in_order() -> None:
    node = store()
    for first in range(0, 20_000, 5000):
        delay(node, *((str(number), SECOND) for number in range(first, first + 5000)))
    assert statistics(node).pending == 20_000
    node.advance(SECOND + TICK)

    assert shown_values(node) == [str(number) for number in range(20_000)]
    assert statistics(node).delivered == 20_000


def test_large_messages_that_are_due_at_once_do_not_wait_for_each_other() -> None:
    node = store()
    big = "x" * 400_000
    for number in range(8):
        delay(node, (f"{number}{big}", SECOND))
    node.advance(SECOND + 2 * TICK)

    assert [value[0] for value in shown_values(node)] == list("01234567")


def test_messages_between_plain_ones_that_are_due_at_once_are_delivered_at_once() -> None:
    node = store()
    for _ in range(3):
        pairs = (pair for n in range(2500) for pair in ((f"d{n}", SECOND), (f"p{n}", 0)))
        delay(node, *pairs)
    node.advance(SECOND + 2 * TICK)

    assert statistics(node).delivered == 7500


def test_a_message_due_soon_does_not_wait_for_one_that_is_read_again() -> None:
    node = store()
    big = "x" * 700_000
    delay(node, (f"a{big}", SECOND), (f"b{big}", SECOND))
    delay(node, ("c", SECOND + 10 * TICK))
    node.advance(SECOND + 12 * TICK)

    assert [value[0] for value in shown_values(node)] == ["a", "b", "c"]


def test_a_message_with_all_the_headers_that_may_be_given_is_delivered() -> None:
    node = store()
    headers = tuple((f"h{number}", b"v" * 4000) for number in range(15))
    size = sum(4 + len(name) + len(value) for name, value in headers)
    rest = GIVEN_HEADERS_BYTES_MAX - 2 - size - (4 + len("rest"))
    delay(node, ("full", SECOND), headers=(*headers, ("rest", b"v" * rest)))
    delay(node, ("next", 2 * SECOND))
    node.advance(5 * SECOND)

    assert shown_values(node) == ["full", "next"]
    assert [delayed_from(record) for record in shown(node)] == [0, 1]


def test_a_large_snapshot_is_copied_in_turns_and_encoded_by_the_shell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("goqueue.broker.delayed.delays._SAVE_CHANGES_MIN", 1_000)
    # 225 blocks of ten units each: a turn has 500.
    monkeypatch.setattr("goqueue.delivery.delays_copy.BLOCK_ENTRIES", 20)
    node = store()
    saved: list[Save] = []

    def record(work: Work) -> bool:
        if isinstance(work, Save) and work.name.startswith("delays"):
            saved.append(work)
        return False

    node.crash_before = record
    delay(node, *((str(number), DAY) for number in range(1_500)))
    node.turn_units_max = 0
    node.advance(2 * SECOND)
    assert 250 <= node.turn_units_max <= 510
    assert isinstance(saved[-1].data, DelaysStated)

    # What was stated does not change with what is still known of it.
    before = saved[-1].data.outcomes
    cancel(node, 7)
    assert saved[-1].data.outcomes == before
    assert statistics(node.twin()) == statistics(node.twin(without_snapshots=True))
    assert statistics(node.twin()).pending == 1_499
