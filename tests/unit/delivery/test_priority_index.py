"""The census: what a lane may skip, and that it never skips a message."""

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.delivery import LANES, PriorityIndex
from goqueue.delivery.priority_index import BLOCK
from tests.examples import examples


def counted(start: int, messages: dict[int, int], upto: int) -> PriorityIndex:
    """A census of these messages, lane by offset."""
    census = PriorityIndex(start)
    offsets = sorted(messages)
    census.count(offsets, bytes(messages[offset] for offset in offsets), upto)
    return census


def test_a_lane_skips_to_the_block_of_its_next_message() -> None:
    messages = dict.fromkeys(range(5 * BLOCK), 2) | {4 * BLOCK + 7: 0}
    census = counted(0, messages, 5 * BLOCK)

    assert census.next(0, 0) == 4 * BLOCK
    assert census.next(0, 4 * BLOCK + 3) == 4 * BLOCK + 3
    assert census.next(2, 10) == 10
    assert census.next(1, 0) == 5 * BLOCK


def test_what_was_not_counted_is_not_skipped() -> None:
    census = counted(100, {100: 2, 101: 2}, 102)

    assert census.next(0, 50) == 50
    assert census.next(0, 100) == 102
    assert census.next(0, 102) == 102
    assert census.next(0, 9 * BLOCK) == 9 * BLOCK


def test_what_was_counted_before_is_not_counted_again() -> None:
    census = counted(0, {0: 2, 1: 0}, 2)
    census.count([0, 1, 2], bytes([2, 0, 2]), 3)
    census.count([0, 1], bytes([2, 0]), 2)

    assert census.upto == 3
    assert census.next(0, 0) == 0
    assert census.next(4, 0) == 3


def test_blocks_without_any_message_are_vacant() -> None:
    messages = {offset: offset % 5 for offset in range(BLOCK - 5, BLOCK)}
    census = counted(0, messages | {3 * BLOCK: 2}, 3 * BLOCK + 1)

    assert list(census.vacant(0, 3 * BLOCK + 1)) == [(BLOCK, 2 * BLOCK), (2 * BLOCK, 3 * BLOCK)]
    assert list(census.vacant(BLOCK + 9, BLOCK + 11)) == [(BLOCK + 9, BLOCK + 11)]
    assert list(census.vacant(4 * BLOCK, 5 * BLOCK)) == []


def test_a_census_of_nothing_is_vacant_as_far_as_it_goes() -> None:
    census = PriorityIndex(10)
    census.count((), b"", BLOCK + 10)

    assert list(census.vacant(0, 9 * BLOCK)) == [(10, BLOCK), (BLOCK, BLOCK + 10)]


def test_a_log_that_begins_later_leaves_the_rest_as_it_is() -> None:
    messages = dict.fromkeys(range(3 * BLOCK), 2) | {2 * BLOCK + 7: 0}
    census = counted(0, messages, 3 * BLOCK)
    census.drop_below(BLOCK + 5)

    assert census.start == BLOCK + 5
    assert census.next(0, BLOCK + 5) == 2 * BLOCK
    assert census.next(2, BLOCK + 5) == BLOCK + 5


def test_a_log_that_begins_beyond_all_that_was_counted_can_go_on() -> None:
    census = counted(0, {0: 2}, 1)
    census.drop_below(7 * BLOCK + 3)
    census.count([7 * BLOCK + 3, 9 * BLOCK], bytes([2, 0]), 9 * BLOCK + 1)

    assert census.next(0, 7 * BLOCK + 3) == 9 * BLOCK
    assert census.next(2, 7 * BLOCK + 3) == 7 * BLOCK + 3


@settings(max_examples=examples(40))
@given(
    start=st.integers(0, 3 * BLOCK),
    pieces=st.lists(
        st.lists(st.tuples(st.integers(1, BLOCK), st.integers(0, LANES - 1)), max_size=6),
        max_size=6,
    ),
    dropped=st.integers(0, 6 * BLOCK),
)
def test_no_message_lies_where_a_lane_skips(
    start: int, pieces: list[list[tuple[int, int]]], dropped: int
) -> None:
    census = PriorityIndex(start)
    messages: dict[int, int] = {}
    end = start
    for piece in pieces:
        first = end
        found: dict[int, int] = {}
        for gap, lane in piece:
            end += gap
            found[end - 1] = lane
        census.count(sorted(found), bytes(found[each] for each in sorted(found)), end)
        messages |= found
        assert census.upto == end >= first
    census.drop_below(dropped)

    for lane in range(LANES):
        place = max(start, dropped)
        following = census.next(lane, place)
        assert not any(place <= each < following for each, of in messages.items() if of == lane)
    for vacant, upto in census.vacant(start, end):
        assert not any(vacant <= each < upto for each in messages)
