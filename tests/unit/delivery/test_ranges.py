"""Ranges against a set: what is in it, where its floor is, and that it has one representation."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery import Range, Ranges, runs

OFFSETS = st.integers(0, 40)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "floor"]), OFFSETS, st.integers(0, 8)))
UNIVERSE = range(60)


def build(steps: list[tuple[str, int, int]], floor: int = 0) -> tuple[Ranges, set[int]]:
    """The same steps taken by ranges and by a set."""
    ranges, model = Ranges(floor), set(range(floor))
    for step, first, size in steps:
        if step == "add":
            ranges.add(first, first + size)
            model |= set(range(first, first + size))
        else:
            ranges.raise_floor(first)
            model |= set(range(first))
    return ranges, model


@given(STEPS, OFFSETS)
def test_ranges_hold_what_a_set_would(steps: list[tuple[str, int, int]], floor: int) -> None:
    ranges, model = build(steps, floor)

    assert {offset for offset in UNIVERSE if offset in ranges} == model
    assert ranges.floor == next(offset for offset in range(100) if offset not in model)
    assert ranges.count_above == sum(offset > ranges.floor for offset in model)


@given(STEPS, OFFSETS, OFFSETS)
def test_ranges_count_within_bounds_what_a_set_would(
    steps: list[tuple[str, int, int]], first: int, end: int
) -> None:
    ranges, model = build(steps)

    assert ranges.count_within(first, end) == sum(1 for each in model if first <= each < end)


@given(STEPS)
def test_ranges_are_disjoint_sorted_not_adjacent_and_above_the_floor(
    steps: list[tuple[str, int, int]],
) -> None:
    ranges, _ = build(steps)
    edges = [edge for each in [(0, int(ranges.floor)), *ranges.above] for edge in each]

    assert all(left < right for left, right in pairwise(edges[1:]))


@given(STEPS)
def test_ranges_made_of_their_own_statement_are_the_same(
    steps: list[tuple[str, int, int]],
) -> None:
    ranges, _ = build(steps)
    again = Ranges(ranges.floor, ranges.above)

    assert (again.floor, again.above, again.count_above) == (
        ranges.floor,
        ranges.above,
        ranges.count_above,
    )


@given(st.lists(OFFSETS, unique=True))
def test_runs_are_the_same_offsets_as_few_ranges(offsets: list[int]) -> None:
    found: list[Range] = runs(sorted(offsets))

    assert [offset for first, following in found for offset in range(first, following)] == sorted(
        offsets
    )
    assert all(left[1] < right[0] for left, right in pairwise(found))


def test_an_empty_range_changes_nothing() -> None:
    ranges = Ranges(3)
    ranges.add(5, 5)
    ranges.add(7, 6)
    ranges.add(0, 2)

    assert (ranges.floor, ranges.above) == (3, [])
