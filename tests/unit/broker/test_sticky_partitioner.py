"""Messages without a key that come alone: one partition for a moment, all alike in the long run."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.sticky_partitioner import ROUND_MESSAGES, TURN_NS, StickyPartitioner
from goqueue.model import MILLISECOND, Instant

# How long after the one before messages come, and how many at once.
BURSTS = st.lists(
    st.tuples(st.integers(0, 3 * TURN_NS), st.one_of(st.integers(1, 40), st.integers(1, 3 * 512))),
    max_size=60,
)


def test_messages_of_the_same_milliseconds_go_to_one_partition_then_to_the_next() -> None:
    sticky = StickyPartitioner()
    chosen = [sticky.choose(3, Instant(at * MILLISECOND)) for at in range(20)]
    assert chosen == [0] * 5 + [1] * 5 + [2] * 5 + [0] * 5


def test_messages_that_come_rarely_go_round_robin() -> None:
    sticky = StickyPartitioner()
    chosen = [sticky.choose(4, Instant(7 + at * TURN_NS)) for at in range(1000)]
    assert chosen == [at % 4 for at in range(1000)]


def test_a_partition_does_not_take_more_than_its_share_of_a_burst() -> None:
    sticky = StickyPartitioner()
    chosen = Counter(sticky.choose(3, Instant(1)) for _ in range(3 * ROUND_MESSAGES))
    assert chosen == {0: ROUND_MESSAGES, 1: ROUND_MESSAGES, 2: ROUND_MESSAGES}


@given(st.integers(1, 7), BURSTS)
def test_whatever_the_rhythm_no_partition_gets_much_more_than_another(
    partitions: int, bursts: list[tuple[int, int]]
) -> None:
    sticky = StickyPartitioner()
    counts = dict.fromkeys(range(partitions), 0)
    now = 0
    for pause, count in bursts:
        now += pause
        for _ in range(count):
            counts[sticky.choose(partitions, Instant(now))] += 1
        assert max(counts.values()) - min(counts.values()) <= ROUND_MESSAGES
    assert sum(counts.values()) == sum(count for _, count in bursts)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, TURN_NS)), min_size=1))
def test_the_number_of_partitions_may_change_at_any_time(steps: list[tuple[int, int]]) -> None:
    sticky = StickyPartitioner()
    now = 0
    for partitions, pause in steps:
        now += pause
        assert 0 <= sticky.choose(partitions, Instant(now)) < partitions


@pytest.mark.parametrize("at", [0, TURN_NS - 1])
def test_a_turn_begins_with_its_first_message(at: int) -> None:
    sticky = StickyPartitioner()
    assert sticky.choose(2, Instant(100)) == 0
    assert sticky.choose(2, Instant(100 + at)) == 0
    assert sticky.choose(2, Instant(100 + TURN_NS)) == 1
