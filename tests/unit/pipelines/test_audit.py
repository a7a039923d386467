"""Rows counted off: what is lost, what is there twice, what is out of order."""

import random

import pytest

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

from goqueue.pipelines.audit import Findings, Gap, Place, SequenceCounts
from goqueue.pipelines.connection import ConnectionOptions, OptionWrong
from goqueue.pipelines.packaged_options import AuditOptions, CopyOptions

WIRING = ConnectionOptions(server="http://127.0.0.1:1")


def counted(
    *rows: tuple[str, int, int], first: int | None = None, expected: dict[str, int] | None = None
) -> Findings:
    """Rows as (producer, sequence, partition); offsets rise by themselves."""
    counting = SequenceCounts(first=first, expected=expected)
    for offset, (producer, sequence, partition) in enumerate(rows):
        counting.add(producer, sequence, partition, offset)
    return counting.findings()


def test_rows_without_a_fault_are_clean() -> None:
    found = counted(("a", 1, 0), ("b", 7, 0), ("a", 2, 1), ("a", 3, 0), first=None)

    assert found.is_clean
    assert (found.rows, found.producers) == (4, 2)


def test_missing_numbers_are_found_between_before_and_after() -> None:
    rows = (("a", 2, 0), ("a", 3, 0), ("a", 6, 0))

    assert counted(*rows).gaps == (Gap("a", 4, 5),)
    assert counted(*rows, first=0).gaps == (Gap("a", 0, 1), Gap("a", 4, 5))
    ended = counted(*rows, first=0, expected={"a": 9, "b": 1})
    assert ended.gaps == (Gap("a", 0, 1), Gap("a", 4, 5), Gap("a", 7, 8))
    assert ended.missing == 6
    assert ended.absent == ("b",)
    assert not ended.is_clean


def test_what_is_there_again_is_a_duplicate_and_no_break_of_the_order() -> None:
    found = counted(("a", 1, 0), ("a", 2, 0), ("a", 1, 0), ("a", 3, 0))

    assert (found.duplicates, found.disorders, found.missing) == (1, 0, 0)
    assert found.duplicate_rows == (Place("a", 1, 0, 2),)
    assert not found.is_clean


def test_a_number_that_comes_after_a_higher_one_breaks_the_order_of_its_partition() -> None:
    found = counted(("a", 1, 0), ("a", 3, 0), ("a", 2, 0), ("a", 4, 0))
    apart = counted(("a", 1, 0), ("a", 3, 0), ("a", 2, 1), ("a", 4, 0))

    assert found.disordered_rows == (Place("a", 2, 0, 2),)
    assert not found.is_clean
    assert apart.is_clean


def test_a_row_without_a_number_is_not_passed_over() -> None:
    counting = SequenceCounts()
    counting.add("a", None, 0, 0)

    assert counting.findings().unreadable == 1
    assert not counting.findings().is_clean


def test_findings_do_not_depend_on_which_partition_is_counted_first() -> None:
    rng = random.Random(7)
    rows = [("ab"[rng.randrange(2)], rng.randrange(30), offset % 3, offset) for offset in range(60)]
    forwards, backwards = SequenceCounts(), SequenceCounts()
    for partition in (0, 1, 2):
        for row in rows:
            if row[2] == partition:
                forwards.add(*row)
    for partition in (2, 1, 0):
        for row in rows:
            if row[2] == partition:
                backwards.add(*row)

    assert forwards.findings() == backwards.findings()
    assert forwards.findings().duplicates > 0


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({}, "--sequence"),
        ({"sequence": "1", "identity": "key"}, "--sequence"),
        ({"identity": "key", "producer": "key"}, "--producer"),
        ({"identity": "key", "first": 1}, "--first"),
        ({"sequence": "1", "expected": {"a": -1}}, "--expected"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, object], option: str) -> None:
    with pytest.raises(OptionWrong) as refused:
        AuditOptions(**{"connection": WIRING, "topic": "orders", **wrong})  # type: ignore[arg-type]  # Wrong ones are what is tested.
    assert refused.value.option == option


def test_a_topic_is_not_compared_with_itself() -> None:
    with pytest.raises(OptionWrong, match="--against"):
        CopyOptions(connection=WIRING, topic="orders", against="orders")
