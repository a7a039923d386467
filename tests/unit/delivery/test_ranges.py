"""Ranges against a set: what is in it, where its floor is, and that it has one statement."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery import Ranges
from goqueue.model import Range, runs

# Around the borders of blocks, where they would go wrong.
OFFSETS = st.one_of(st.integers(0, 40), st.integers(500, 530), st.integers(1000, 1600))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), OFFSETS, st.one_of(st.integers(0, 8), st.integers(500, 1100))),
        st.tuples(st.sampled_from(["floor", "cut"]), OFFSETS, st.just(0)),
        st.tuples(st.just("all"), OFFSETS, st.integers(1, 1 << 600)),
    )
)
UNIVERSE = range(3000)


def build(steps: list[tuple[str, int, int]], floor: int = 0) -> tuple[Ranges, set[int]]:
    """The same steps taken by ranges and by a set."""
    ranges, model = Ranges(floor), set(range(floor))
    for step, first, size in steps:
        match step:
            case "add":
                ranges.add(first, first + size)
                model |= set(range(first, first + size))
            case "floor":
                ranges.raise_floor(first)
                model |= set(range(first))
            case "cut":
                ranges.cut(first)
                model -= set(range(first, 10_000))
            case _:
                offsets = [first + place for place in range(600) if size >> place & 1]
                ranges.add_all(offsets)
                model |= set(offsets)
    return ranges, model


def floor_of(model: set[int]) -> int:
    return next(offset for offset in range(10_000) if offset not in model)


@given(STEPS, OFFSETS)
def test_ranges_hold_what_a_set_would(steps: list[tuple[str, int, int]], floor: int) -> None:
    ranges, model = build(steps, floor)

    assert {offset for offset in UNIVERSE if offset in ranges} == model
    assert ranges.floor == floor_of(model)
    assert ranges.end == max(model, default=-1) + 1
    assert ranges.count_above == sum(offset > ranges.floor for offset in model)


@given(STEPS, OFFSETS, OFFSETS)
def test_ranges_count_within_bounds_what_a_set_would(
    steps: list[tuple[str, int, int]], first: int, end: int
) -> None:
    ranges, model = build(steps)

    counted = ranges.count_within(first, end)
    assert counted == sum(1 for each in model if first <= each < end)
    assert ranges.missing_within(first, end) == max(0, end - first) - counted


@given(STEPS, st.lists(OFFSETS, unique=True))
def test_what_is_missing_is_what_a_set_does_not_hold(
    steps: list[tuple[str, int, int]], asked: list[int]
) -> None:
    ranges, model = build(steps)
    asked.sort()

    assert list(ranges.missing(asked)) == [offset for offset in asked if offset not in model]


@given(STEPS)
def test_equal_sets_have_one_statement_however_they_came_about(
    steps: list[tuple[str, int, int]],
) -> None:
    ranges, model = build(steps)
    at_once = Ranges()
    at_once.add_all(sorted(model))

    assert (at_once.floor, at_once.above, at_once.scattered) == (
        ranges.floor,
        ranges.above,
        ranges.scattered,
    )


@given(STEPS)
def test_ranges_made_of_their_own_statement_are_the_same(
    steps: list[tuple[str, int, int]],
) -> None:
    ranges, model = build(steps)
    again = Ranges(ranges.floor, ranges.above, ranges.scattered)

    assert {offset for offset in UNIVERSE if offset in again} == model
    assert (again.floor, again.count_above) == (ranges.floor, ranges.count_above)


@given(STEPS)
def test_ranges_can_be_stated_as_runs_too(steps: list[tuple[str, int, int]]) -> None:
    ranges, model = build(steps)
    again = Ranges(ranges.floor, runs(sorted(each for each in model if each > ranges.floor)))

    assert (again.above, again.scattered) == (ranges.above, ranges.scattered)


@given(STEPS, st.integers(0, 40))
def test_a_statement_holds_also_from_a_higher_floor_on(
    steps: list[tuple[str, int, int]], higher: int
) -> None:
    ranges, model = build(steps)
    floor = ranges.floor + higher
    again = Ranges(floor, ranges.above, ranges.scattered)

    assert {offset for offset in UNIVERSE if offset in again} == model | set(range(floor))


def test_a_copy_goes_on_by_itself() -> None:
    ranges = Ranges(3, [(5, 9)])
    copied = ranges.copy()
    copied.add(3, 5)

    assert (ranges.floor, ranges.count_above) == (3, 4)
    assert (copied.floor, copied.count_above) == (9, 0)


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
    ranges.add_all(())

    assert (ranges.floor, ranges.above, ranges.scattered) == (3, [], [])


def test_a_bit_above_a_million_settled_ones_takes_a_few_octets() -> None:
    ranges = Ranges(0)
    ranges.add(1, 1_000_000)
    ranges.add(2_000_000, 2_000_001)

    assert ranges.above == [(512, 999_936)]
    assert [len(octets) for _, octets in ranges.scattered] == [64, 8, 1]


@given(STEPS, OFFSETS, STEPS, OFFSETS)
def test_a_set_is_taken_in_as_each_of_its_offsets_would_be(
    steps: list[tuple[str, int, int]],
    floor: int,
    others: list[tuple[str, int, int]],
    other_floor: int,
) -> None:
    ranges, model = build(steps, floor)
    other, other_model = build(others, other_floor)

    ranges.add_set(other)

    model |= other_model
    assert {offset for offset in UNIVERSE if offset in ranges} == model
    assert ranges.floor == floor_of(model)
    assert ranges.count_above == sum(offset > ranges.floor for offset in model)
    assert all(bits for _, bits in ranges.blocks)


@given(STEPS, OFFSETS, OFFSETS)
def test_the_next_missing_is_the_first_that_is_not_in_the_set(
    steps: list[tuple[str, int, int]], floor: int, first: int
) -> None:
    ranges, model = build(steps, floor)

    expected = next(offset for offset in range(first, 20_000) if offset not in model)
    assert ranges.next_missing(first) == expected
