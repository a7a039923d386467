"""Progress of pipelines: what Spark reports, what is kept of it, and what a checkpoint tells."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from goqueue.pipelines.progress import (
    BatchProgress,
    CheckpointBusy,
    Journal,
    batch_progress,
    folder_of,
    read_status,
    read_totals,
    with_ends,
)

TIME = "2026-11-15T12:00:00.000Z"


def offsets(*, orders: dict[str, int]) -> dict[str, Any]:
    return {"orders": {"born": TIME, "offsets": orders}}


def report(batch: int, **more: object) -> dict[str, Any]:
    """What Spark says about a batch."""
    return {
        "id": "q1",
        "batchId": batch,
        "timestamp": TIME,
        "numInputRows": 10,
        "processedRowsPerSecond": 5.0,
        "durationMs": {"addBatch": 1500, "triggerExecution": 2000},
        "sources": [
            {
                "endOffset": offsets(orders={"0": 7, "1": 3}),
                "latestOffset": json.dumps(offsets(orders={"0": 9, "1": 3})),
            }
        ],
        "observedMetrics": {
            "goqueue.out": {"goqueue_rows": 8, "total": 21},
            "goqueue:final": {"positive": 2, "known": None},
        },
        **more,
    }


def progress(batch: int, **more: object) -> BatchProgress:
    return batch_progress(report(batch, **more))


def test_a_report_of_spark_tells_rows_lag_and_violations() -> None:
    told = progress(4)

    assert (told.batch, told.rows_in, told.rows_out, told.batch_ms) == (4, 10, 8, 2000)
    assert (told.lag, [each.lag for each in told.partitions]) == (2, [2, 0])
    assert {each.expectation: each.count for each in told.violations} == {"known": 0, "positive": 2}
    assert told.observed == {"total": 21}
    assert told.dead_letters == 0


def test_rows_that_are_read_twice_are_counted_once() -> None:
    observed = {
        "goqueue.out": {"goqueue_rows": 3},
        "goqueue.in:source": {"goqueue_rows": 5},
        "goqueue.letters:source": {"goqueue_rows": 2},
    }
    told = progress(0, observedMetrics=observed)

    assert (told.rows_in, told.rows_out, told.dead_letters) == (5, 3, 2)


def test_a_replayed_batch_has_no_lag_to_tell_and_other_sources_no_positions() -> None:
    replayed = progress(0, sources=[{"endOffset": offsets(orders={"0": 7}), "latestOffset": None}])
    others = progress(0, sources=[{"endOffset": "17", "latestOffset": "not json"}, {}])

    assert (replayed.lag, replayed.partitions[0].offset) == (None, 7)
    assert (others.lag, others.partitions) == (None, ())


def test_time_has_not_begun_before_the_first_event() -> None:
    early = progress(0, eventTime={"watermark": "1970-01-01T00:00:00.000Z"})

    assert early.watermark is None
    assert progress(1, eventTime={"watermark": TIME}).watermark == TIME


def test_a_batch_is_counted_once_however_often_it_is_reported(tmp_path: Path) -> None:
    told: list[int] = []
    journal = Journal("p", tmp_path, TIME)
    journal.tell(lambda each: told.append(each.batch))
    journal.begin()

    taken = [journal.take(progress(number)) for number in (0, 1, 1, 0, 2)]
    journal.end(TIME, None)

    assert taken == [True, True, False, False, True]
    assert told == [0, 1, 2]
    totals = read_totals(tmp_path)
    assert totals is not None
    assert (totals.batches, totals.rows_in, totals.rows_out) == (3, 30, 24)
    assert totals.violations == {"known": 0, "positive": 6}


def test_a_later_run_goes_on_counting(tmp_path: Path) -> None:
    first = Journal("p", tmp_path, TIME)
    first.begin()
    first.take(progress(0))
    first.end(TIME, "it failed")
    second = Journal("p", tmp_path, TIME)
    second.begin()
    second.take(progress(0))
    second.take(progress(1))
    second.end(TIME, None)

    totals = read_totals(tmp_path)
    assert totals is not None
    assert (totals.batches, totals.rows_in, totals.error) == (2, 20, None)


def test_a_checkpoint_has_one_journal_at_a_time(tmp_path: Path) -> None:
    first = Journal("p", tmp_path, TIME)
    first.begin()

    with pytest.raises(CheckpointBusy, match=f"process {os.getpid()}"):
        Journal("p", tmp_path, TIME).begin()
    assert read_status(tmp_path).state == "running"
    first.end(TIME, None)
    Journal("p", tmp_path, TIME).begin()


def checkpoint(folder: Path, *, planned: int, done: int) -> None:
    """Files as Spark writes them, with what it leaves behind beside them."""
    (folder / "metadata").write_text('{"id":"q1"}', encoding="utf-8")
    for name, last in (("offsets", planned), ("commits", done)):
        (folder / name).mkdir()
        for number in range(last + 1):
            lines = ["v1", "{}", json.dumps(offsets(orders={"0": 10 * number, "1": number}))]
            (folder / name / str(number)).write_text("\n".join(lines), encoding="utf-8")
            (folder / name / f".{number}.crc").write_bytes(b"crc")


def test_a_checkpoint_tells_what_is_done_and_what_has_begun(tmp_path: Path) -> None:
    checkpoint(tmp_path, planned=5, done=4)

    status = read_status(tmp_path)

    assert (status.state, status.query_id) == ("stopped", "q1")
    assert (status.done_batch, status.open_batch) == (4, 5)
    assert [(each.partition, each.offset) for each in status.partitions] == [(0, 40), (1, 4)]


def test_lag_is_what_a_broker_says_beyond_the_checkpoint(tmp_path: Path) -> None:
    checkpoint(tmp_path, planned=4, done=4)

    status = with_ends(read_status(tmp_path), {"orders": {0: 45, 1: 4, 2: 3}})

    assert status.lag == 8
    assert [each.lag for each in status.partitions] == [5, 0, 3]


@pytest.mark.parametrize(
    ("error", "has_ended", "state"),
    [(None, True, "stopped"), ("it broke", True, "failed"), (None, False, "died")],
)
def test_a_status_tells_how_the_last_run_ended(
    tmp_path: Path, error: str | None, has_ended: bool, state: str
) -> None:
    checkpoint(tmp_path, planned=0, done=0)
    journal = Journal("p", tmp_path, TIME)
    journal.begin()
    kept = (folder_of(tmp_path) / "progress.json").read_bytes()
    journal.end(TIME, error)
    if not has_ended:
        # As a process leaves it that was killed: the lock is free, and nothing says the end.
        (folder_of(tmp_path) / "progress.json").write_bytes(kept)

    assert read_status(tmp_path).state == state


def test_a_checkpoint_that_is_not_there_or_damaged_is_no_error(tmp_path: Path) -> None:
    assert read_status(tmp_path / "none").state == "never ran"
    (tmp_path / "metadata").write_text("{", encoding="utf-8")
    folder_of(tmp_path).mkdir()
    (folder_of(tmp_path) / "progress.json").write_text("{", encoding="utf-8")

    status = read_status(tmp_path)

    assert (status.state, status.query_id, status.totals) == ("never ran", None, None)
