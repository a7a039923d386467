"""Positions: resolved, advanced within limits, planned and split, without a session."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from goqueue.spark.offsets import Edge, Positions, Range, advance, backlog, plan, resolve, split
from goqueue.spark.options import OptionInvalid, Place
from goqueue.spark.read_options import Span

BORN = {"a": "x"}


def edges(*ends: int, earliest: int = 0, record_bytes: int = 100) -> dict[str, dict[int, Edge]]:
    return {
        "a": {
            number: Edge(
                earliest=earliest, end=end, size_bytes=max(0, end - earliest) * record_bytes
            )
            for number, end in enumerate(ends)
        }
    }


def at(*offsets: int) -> Positions:
    return Positions({"a": dict(enumerate(offsets))}, BORN)


def test_equal_positions_are_the_same_text_after_a_round_trip() -> None:
    unordered = Positions({"b": {10: 1, 9: 2}, "a": {0: 1 << 60}}, {"b": "y", "a": "x"})

    text = json.dumps(unordered.to_json())
    again = Positions.from_json(json.loads(text))

    assert again == unordered
    assert json.dumps(again.to_json()) == text
    assert list(unordered.to_json()) == ["a", "b"]
    assert '{"9": 2, "10": 1}' in text


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (Place(option="o", word="earliest"), at(5, 5)),
        (Place(option="o", word="latest"), at(20, 7)),
        (Place(option="o", back=10), at(10, 5)),
        (Place(option="o", offsets={"a": {0: -1, 1: 6}}), at(20, 6)),
        (Place(option="o", offsets={"a": {1: -2}}), at(5, 5)),
        (Place(option="o", word="committed"), at(9, 5)),
        (Place(option="o", time_us=1), at(9, 5)),
    ],
)
def test_a_place_becomes_offsets(place: Place, found: Positions) -> None:
    assert resolve(place, edges(20, 7, earliest=5), BORN, {"a": {0: 9}}) == found


def test_partitions_that_an_end_does_not_name_are_read_to_their_end() -> None:
    place = Place(option="endingOffsets", offsets={"a": {0: 3}}, rest=-1)
    by_time = Place(option="endingOffsetsByTimestamp", times_us={"a": {0: 1}}, rest=-1)

    assert resolve(place, edges(20, 7), BORN, {}) == at(3, 7)
    assert resolve(by_time, edges(20, 7), BORN, {"a": {0: 4}}) == at(4, 7)


def test_a_time_for_a_partition_that_is_not_there_is_refused() -> None:
    place = Place(option="startingOffsetsByTimestamp", times_us={"a": {7: 1}})

    with pytest.raises(OptionInvalid, match="has no partition 7"):
        resolve(place, edges(1), BORN, {})


def test_offsets_of_a_partition_that_is_not_there_are_refused() -> None:
    place = Place(option="startingOffsets", offsets={"a": {7: 1}})

    with pytest.raises(OptionInvalid, match="has no partition 7"):
        resolve(place, edges(1), BORN, {})


def test_without_limits_a_trigger_takes_all() -> None:
    assert advance(at(5, 0), edges(20, 7), BORN, Span()) == at(20, 7)


def test_a_limit_is_shared_by_what_is_left_and_none_starves() -> None:
    span = Span(trigger_records_max=100)

    assert advance(at(0, 0, 0), edges(900, 100, 1), BORN, span) == at(89, 9, 1)


def test_a_limit_in_bytes_counts_by_the_size_of_the_records() -> None:
    assert advance(at(0), edges(100), BORN, Span(trigger_bytes_max=1000)) == at(10)


def test_a_limit_may_bind_each_partition() -> None:
    span = Span(trigger_partition_max=10)

    assert advance(at(0, 0), edges(900, 4), BORN, span) == at(10, 4)
    assert advance(at(0, 0), edges(900, 4), BORN, span, is_all=True) == at(900, 4)


def test_of_several_limits_the_tightest_counts() -> None:
    span = Span(trigger_partition_max=30, trigger_records_max=40)

    assert advance(at(0, 0), edges(300, 100), BORN, span) == at(30, 10)


def test_what_is_left_counts_new_partitions_and_never_less_than_nothing() -> None:
    assert backlog(at(5, 9), edges(20, 7, 4)) == 19


def test_all_that_is_available_knows_no_limit() -> None:
    assert advance(at(0), edges(9), BORN, Span(trigger_records_max=2), is_all=True) == at(9)


def test_a_log_that_ends_before_the_start_never_leads_back() -> None:
    assert advance(at(50), edges(9), BORN, Span()) == at(50)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_triggers_within_a_limit_reach_the_end(ends: list[int], limit: int) -> None:
    span = Span(trigger_records_max=limit)
    position = at(*([0] * len(ends)))
    for _ in range(sum(ends) + 1):
        following = advance(position, edges(*ends), BORN, span)
        if following == position:
            break
        taken = sum(each.end - each.start for each in plan(position, following))
        assert 0 < taken <= max(limit, len(ends)) + len(ends)
        position = following

    assert position == at(*ends)


def test_a_plan_is_what_lies_between_and_new_partitions_from_their_beginning() -> None:
    end = Positions({"a": {0: 9, 1: 5, 2: 4}}, BORN)

    assert plan(at(3, 5), end) == [
        Range(topic="a", partition=0, start=3, end=9),
        Range(topic="a", partition=2, start=0, end=4, is_new=True),
    ]


@given(
    st.integers(0, 1000),
    st.integers(1, 5000),
    st.integers(1, 10**6),
    st.integers(0, 50),
)
def test_pieces_of_a_range_are_the_range(
    start: int, count: int, task_bytes_max: int, task_records_max: int
) -> None:
    whole = Range(topic="a", partition=0, start=start, end=start + count)
    span = Span(task_bytes_max=task_bytes_max, task_records_max=task_records_max)

    pieces = split([whole], edges(start + count), span)

    assert pieces[0].start == whole.start
    assert pieces[-1].end == whole.end
    assert all(one.end == next_one.start for one, next_one in itertools.pairwise(pieces))
    assert all(one.start < one.end for one in pieces)
    if task_records_max:
        assert max(one.end - one.start for one in pieces) <= task_records_max


@given(st.lists(st.integers(1, 500), min_size=1, max_size=4), st.integers(1, 40))
def test_there_are_as_many_tasks_as_wanted_if_there_are_records_for_them(
    counts: list[int], tasks_min: int
) -> None:
    ranges = [
        Range(topic="a", partition=number, start=0, end=count)
        for number, count in enumerate(counts)
    ]

    pieces = split(ranges, edges(*counts), Span(tasks_min=tasks_min))

    assert len(pieces) >= min(tasks_min, sum(counts))
    assert sum(each.end - each.start for each in pieces) == sum(counts)
