"""Offsets that are named together: two forms, and neither names more nor less."""

import itertools

import hypothesis
from hypothesis import strategies as st

from goqueue.model import Folded, runs

OFFSETS = st.sets(st.integers(0, 300)).map(sorted)


@hypothesis.given(OFFSETS)
def test_what_was_folded_names_the_same_offsets_in_order(offsets: list[int]) -> None:
    folded = Folded.of(offsets)

    assert list(folded.unfold()) == offsets
    assert len(folded) == len(offsets)
    assert not folded.ranges or not folded.steps


@hypothesis.given(OFFSETS)
def test_both_forms_are_the_same_ranges(offsets: list[int]) -> None:
    steps = [*offsets[:1], *(after - before for before, after in itertools.pairwise(offsets))]

    assert Folded(steps=steps).as_ranges() == Folded(runs(offsets)).as_ranges() == runs(offsets)


@hypothesis.given(OFFSETS)
def test_ranges_name_each_offset_once_and_no_other(offsets: list[int]) -> None:
    ranges = runs(offsets)

    assert [each for first, after in ranges for each in range(first, after)] == offsets
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


def test_what_stands_together_is_a_range_and_what_alternates_is_steps() -> None:
    assert Folded.of(range(5, 900)) == Folded([(5, 900)])
    assert Folded.of([*range(100), 200]) == Folded([(0, 100), (200, 201)])
    assert Folded.of([3, 5, 7, 8]) == Folded(steps=[3, 2, 2, 1])
    assert Folded.of([]) == Folded()


def test_ranges_that_were_not_written_in_order_unfold_in_order() -> None:
    assert Folded([(7, 9), (2, 4), (3, 5)]).unfold() == [2, 3, 4, 7, 8]
