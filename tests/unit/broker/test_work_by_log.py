"""Work that concerns one log or one place visits nothing else, whatever else there is.

Counted in what a turn or a machine visits, never in time.
"""

import sys
from types import FrameType
from typing import Any

from goqueue.broker.state import NodeState
from goqueue.broker.turns import TurnBudget
from goqueue.delivery import Delays, DeliveryQueue, Position, Ranges
from goqueue.model import LogId, Timestamp
from goqueue.records import MessageSummary
from goqueue.tracing import Tracer
from tests.unit.broker.delayed.users import LONG, delay, store
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ack, create, join, poll, publish, values


class CountedReads:
    """How many reads the node asked for."""

    def __init__(self, node: DrivenNode) -> None:
        self._node = node
        self._before = node.fetches

    @property
    def count(self) -> int:
        return self._node.fetches - self._before


def queue_at(floor: int = 0) -> DeliveryQueue:
    return DeliveryQueue(Position(floor), keeps_key_order=False)


def add_queue(state: NodeState, group: int, log: LogId) -> None:
    places = state.group_partitions
    place = places.open(group, log)
    places.add_queue(place, DeliveryQueue(place.position, keeps_key_order=False))


def test_what_is_hidden_in_a_log_visits_only_the_queues_on_it() -> None:
    state = NodeState("node-1", Tracer(0.0), TurnBudget())
    for number in range(1, 1001):
        add_queue(state, number, LogId("others", number))
    here = LogId("orders", 0)
    add_queue(state, 7, here)
    state.budget.begin()

    state.hide(here, 0)

    assert state.budget.spent == 1
    (queue,) = state.group_partitions.queues_on(here)
    assert queue.floor == 1


def test_a_queue_that_is_gone_is_not_visited() -> None:
    state = NodeState("node-1", Tracer(0.0), TurnBudget())
    here = LogId("orders", 0)
    places = state.group_partitions
    add_queue(state, 1, here)
    places.remove_queue(1, here)
    places.remove_queue(1, here)

    assert not list(places.queues_on(here))
    assert places.queue(1, here) is None
    assert places.position(1, here) is not None
    assert not places.polling_groups


def test_a_queue_that_begins_takes_in_delayed_records_by_blocks() -> None:
    delays = Delays(Timestamp(0))
    for offset in range(100_000):
        delays.add(offset + 5, 10**18, 2)
    queue = queue_at()
    queue.hide_all(delays.hidden)

    assert len(list(delays.hidden.blocks)) < 200
    assert queue.missing_within(0, 100_010) == 10


def test_a_queue_that_begins_at_a_floor_skips_what_is_settled_above_it() -> None:
    position = Position(0)
    position.settle(0, range(1, 1_500_000), at=1)
    queue = DeliveryQueue(position, keeps_key_order=False)
    assert queue.wanted(1_500_010) == 0
    queue.learn([MessageSummary(0, 10, 2, b"", b"")], 1)

    assert queue.wanted(1_500_010) == 1_500_000


def test_a_group_that_returns_reads_its_gap_and_what_is_new_and_nothing_between() -> None:
    node = DrivenNode()
    create(node)
    join(node)
    for _ in range(20):
        publish(node, *["x" * 1000] * 100)
    poll(node, count=1)
    for _ in range(20):
        ack(node, *poll(node))
    publish(node, "new")
    node.restart()
    reads = CountedReads(node)

    assert [value[:3] for value in values(poll(node)) + values(poll(node))] == ["xxx", "new"]
    assert reads.count <= 2


def lines_of_ack(unsettled: int) -> int:
    """How many lines of Python an ack runs, of a message with a hidden one behind it."""
    node = store()
    publish(node, "first")
    delay(node, ("hidden", LONG))
    publish(node, *["x"] * unsettled)
    held = [each for _ in range(unsettled // 100 + 1) for each in poll(node)]
    assert len(held) == unsettled + 1
    lines = 0

    def count(_: FrameType, event: str, __: object) -> Any:  # noqa: ANN401 - a trace function returns one
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        (settled,) = ack(node, held[0])
    finally:
        sys.settrace(None)
    assert (settled.count, settled.committed) == (1, 2)
    return lines


def test_an_ack_over_a_hidden_offset_does_not_look_at_what_is_unsettled_behind_it() -> None:
    assert lines_of_ack(900) <= 1.2 * lines_of_ack(100)


def test_ranges_tell_the_next_missing_over_any_number_of_full_blocks() -> None:
    ranges = Ranges(0)
    ranges.add(1, 1_000_000)
    assert ranges.next_missing(1) == 1_000_000
    assert ranges.next_missing(0) == 0
