"""What a running pipeline shows: lines for people, lines of JSON for programs."""

import json

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from goqueue.cli.options import Output
from goqueue.cli.pipeline.run import batch_line, displayed
from goqueue.pipelines.progress import BatchProgress, PartitionProgress, Totals, Violations
from goqueue.pipelines.sinks import Table
from goqueue.pipelines.spec_files import parse_pipeline

PIPELINE = parse_pipeline("name: flow\nsource: {topics: a}\nsink: {console: 2}\n", "f.yaml")

PROGRESS = BatchProgress(
    query_id="q1",
    batch=3,
    at="2026-11-15T12:00:00.000Z",
    rows_in=12_000,
    rows_out=11_990,
    rows_per_s=5432.1,
    batch_ms=2210,
    lag=7,
    partitions=(PartitionProgress(topic="a", partition=0, offset=12_000, end=12_007),),
    violations=(Violations(expectation="positive", count=10), Violations(expectation="b", count=0)),
    observed={"total": 21},
)

TOTALS = Totals(pipeline="flow", pid=1, started_at="", rows_in=12_000, rows_out=11_990)


def test_a_batch_is_one_line_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    with displayed(PIPELINE, Output.TABLE) as display:
        display.batch(PROGRESS)
    display.end(TOTALS, is_stopped=True)

    line, last = capsys.readouterr().out.splitlines()
    assert line == batch_line(PROGRESS)
    assert line == (
        "batch 3, 12,000 rows in, 11,990 out, 5,432 rows/s, 2,210 ms, lag 7, positive: 10, total=21"
    )
    assert last == "stopped: 1 batch in this run; 12,000 rows in, 11,990 out in all"


def test_a_batch_is_one_object_for_a_program(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with displayed(PIPELINE, Output.JSON) as display:
        display.batch(PROGRESS)
        display.rows(Table(3, ("n",), (("1",), ("2",)), 5))
    display.end(TOTALS, is_stopped=False)

    batch, rows = map(json.loads, capsysbinary.readouterr().out.splitlines())
    assert (batch["pipeline"], batch["batch"], batch["lag"]) == ("flow", 3, 7)
    assert batch["violations"][0] == {"expectation": "positive", "count": 10}
    assert rows == {"batch": 3, "count": 5, "rows": [{"n": "1"}, {"n": "2"}]}


def test_rows_are_drawn_as_a_table_that_cannot_take_over_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with displayed(PIPELINE, Output.TABLE) as display:
        display.rows(Table(0, ("name",), (("\x1b[31mred",),), 1))
        display.rows(Table(1, ("name",), (), 0))

    out = capsys.readouterr().out
    assert "\\x1b[31mred" in out
    assert "\x1b" not in out
