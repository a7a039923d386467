"""Which ranges of an archive share a task, and so a file."""

import pytest

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

from types import SimpleNamespace

from goqueue.pipelines.archive.files import bundle


def ranges(*wanted: tuple[str, int, int]) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(value=SimpleNamespace(topic=topic, partition=partition, start=0, end=rows))
        for topic, partition, rows in wanted
    ]


def test_small_ranges_of_a_topic_share_a_task_in_their_order() -> None:
    planned = ranges(("a", 0, 10), ("a", 1, 90_000), ("a", 2, 10), ("b", 0, 10))

    assert bundle(planned) == [planned[:3], planned[3:]]


def test_a_task_does_not_grow_beyond_what_is_worth_one() -> None:
    planned = ranges(("a", 0, 99_999), ("a", 1, 2), ("a", 2, 5_000_000), ("a", 3, 1))

    assert bundle(planned) == [planned[:1], planned[1:2], planned[2:3], planned[3:]]
    assert bundle([]) == []
