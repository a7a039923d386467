"""Pipelines of a real Spark against a real node: built, run, stopped, resumed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.http_api import Api, Json
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.sql import SparkSession

import goqueue
from goqueue.pipelines.errors import Failure, Fault, StepInvalid
from goqueue.pipelines.plan import build
from goqueue.pipelines.progress import BatchProgress, CheckpointBusy, Journal, Totals, read_status
from goqueue.pipelines.runner import (
    RunFailed,
    RunRequest,
    Stop,
    local_checkpoint,
    query_name,
    run_pipeline,
)
from goqueue.pipelines.sinks import Table, check_sink
from goqueue.pipelines.spark_session import NICENESS
from goqueue.pipelines.spec_files import parse_pipeline
from tests.integration.spark.sessions import FAST, ROOT

EXAMPLE = ROOT / "examples" / "pipelines" / "orders_per_minute.yaml"
CHILD_S_MAX = 240


@pytest.fixture(scope="module")
def out(node: ServerProcess) -> str:
    """A topic to write to, of all tests that only plan."""
    with contextlib.closing(Api(node.url)) as api:
        return api.create("out")


class Stage:
    """Runs pipelines in a folder, and remembers what they showed."""

    def __init__(self, spark: SparkSession, node: ServerProcess, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.link = {"goqueue.servers": node.url}
        self.batches: list[BatchProgress] = []
        self.tables: list[Table] = []

    def request(self, text: str) -> RunRequest:
        pipeline = parse_pipeline(text, "pipeline.yaml")
        return RunRequest(pipeline=pipeline, folder=self.folder, link=self.link, is_once=True)

    def run(self, text: str) -> Totals:
        request = self.request(text)
        journal = Journal(request.pipeline.name, local_checkpoint(request), "2026-11-15T12:00:00Z")
        journal.tell(self.batches.append)
        return run_pipeline(self.spark, request, journal, Stop(), self.tables.append)

    def check(self, text: str) -> dict[str, str]:
        request = self.request(text)
        plan = build(self.spark, request.pipeline, self.folder, self.link)
        check_sink(plan.written, request.pipeline, self.link)
        assert "CollectMetrics goqueue.out" in plan.explained()
        return plan.schemas


@pytest.fixture
def stage(spark: SparkSession, node: ServerProcess, tmp_path: Path) -> Stage:
    return Stage(spark, node, tmp_path)


def flow(source: str, sink: str, *more: str) -> str:
    """A pipeline of orders: their ids and amounts as columns, and what is added."""
    return "\n".join(
        [
            "name: flow",
            "source:",
            f"  topics: {source}",
            "  options: {startingOffsets: earliest, maxRecordsPerTrigger: 4}",
            "steps:",
            "  - name: parsed",
            "    sql: |",
            "      SELECT string(key) key, from_json(string(value), 'id INT, n INT') j",
            "      FROM source",
            "  - name: final",
            "    sql: SELECT key, j.id, j.n FROM parsed",
            f"sink: {{{sink}}}",
            *more,
        ]
    )


def publish(api: Api, topic: str, amounts: list[int]) -> None:
    values = [json.dumps({"id": number, "n": n}) for number, n in enumerate(amounts)]
    api.publish(topic, *({"key": "k", "value": value} for value in values))


def written(api: Api, topic: str) -> list[Json]:
    return [json.loads(message["value"]) for message in api.read(topic)]


def test_rows_come_back_once_and_a_second_run_goes_on_where_the_first_ended(
    api: Api, name: Callable[[], str], stage: Stage
) -> None:
    source, sink, group = api.create(name()), api.create(name()), name()
    publish(api, source, [1, 2, 3, 4, 5, 6])
    text = flow(source, f"topic: {sink}, encode: json", f"group: {group}", "observe: {s: sum(n)}")

    first = stage.run(text)
    publish(api, source, [7])
    second = stage.run(text)

    assert [row["n"] for row in written(api, sink)] == [1, 2, 3, 4, 5, 6, 7]
    assert (first.rows_in, first.rows_out, second.rows_in, second.batches) == (6, 6, 7, 3)
    assert [batch.observed["s"] for batch in stage.batches] == [10, 11, 7]
    assert [batch.lag for batch in stage.batches] == [2, 0, 0]
    assert api.committed(group, source) == 7
    status = read_status(stage.folder / "_pipelines" / "flow")
    assert (status.state, status.done_batch, status.open_batch) == ("stopped", 2, None)
    assert [(each.topic, each.offset) for each in status.partitions] == [(source, 7)]


def test_expectations_count_drop_and_fail(api: Api, name: Callable[[], str], stage: Stage) -> None:
    source, sink = api.create(name()), api.create(name())
    publish(api, source, [5, -1, 50])
    lines = [
        "expectations:",
        "  - {name: small, that: n < 10}",
        "  - {name: positive, that: n > 0, on_violation: drop, step: final}",
    ]
    hard = [*lines, "  - {name: known, that: n <> 50, on_violation: fail}"]

    totals = stage.run(flow(source, f"topic: {sink}, encode: json", *lines))
    with pytest.raises(RunFailed) as failed:
        stage.run(flow(source, f"topic: {sink}, encode: json", *hard, "checkpoint: other"))

    assert [row["n"] for row in written(api, sink)] == [5, 50]
    assert totals.violations == {"small": 1, "positive": 1}
    assert (totals.rows_in, totals.rows_out) == (3, 2)
    assert failed.value.failure.fault is Fault.WORK
    assert 'expectation `known` of `final` is violated by {"key":"k","id":2,"n":50}' in str(
        failed.value
    )
    assert read_status(stage.folder / "other").state == "failed"


@pytest.mark.usefixtures("out")
def test_a_plan_says_which_columns_each_step_has(stage: Stage) -> None:
    schemas = stage.check(flow("orders", "topic: out, encode: json"))

    assert schemas["final"] == "key string, id int, n int"


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        ("j.idd, j.n", "j.id, j.n", "step `final`: No such struct field `idd`"),
        ("nokey, j.n", "key, j.id, j.n", "step `final`: A column, .* `nokey` .* .line 1, pos"),
        ("FRM parsed", "FROM parsed", "step `final`: Syntax error at or near"),
        ("FROM nowhere", "FROM parsed", "step `final`: The table or view `nowhere` cannot be"),
        ("DROP VIEW source", "SELECT key, j.id, j.n FROM parsed", "step `final`: Syntax error"),
        ("SELECT 1", "SELECT key, j.id, j.n FROM parsed", "step `final`: reads none of the sourc"),
        ("maxRecords: 4", "maxRecordsPerTrigger: 4", "`source`: option `maxrecords` of format"),
        ("topic: out", "topic: out, encode: json", "sink: there is no column `value`"),
        (
            "topic: out, encode: json, options: {exactly: 1}",
            "topic: out, encode: json",
            "sink: option `exactly` of format goqueue: is unknown",
        ),
        (
            "SELECT j.n, count(*) c FROM parsed GROUP BY j.n",
            "SELECT key, j.id, j.n FROM parsed",
            "output_mode `append`: Invalid streaming output mode: append",
        ),
    ],
)
@pytest.mark.usefixtures("out")
def test_what_cannot_be_planned_is_told_with_its_step(
    stage: Stage, wrong: str, right: str, words: str
) -> None:
    text = flow("orders", "topic: out, encode: json")
    assert right in text

    with pytest.raises(StepInvalid, match=words) as refusal:
        stage.check(text.replace(right, wrong))

    assert "\n" not in str(refusal.value)
    assert "org.apache" not in str(refusal.value)


@pytest.mark.usefixtures("out")
def test_expectations_are_checked_with_the_plan(stage: Stage) -> None:
    text = flow("orders", "topic: out, encode: json", "expectations:")
    unused = text.replace("steps:", "steps:\n  - {name: idle, sql: SELECT 1 AS x FROM source}")

    for line, words in (
        ("  - {name: e, that: nn > 0}", "expectation `e`: A column, .* `nn` cannot be"),
        ("  - {name: e, that: n}", "expectation `e`: is of type int, not true or false"),
    ):
        with pytest.raises(StepInvalid, match=words):
            stage.check(f"{text}\n{line}")
    with pytest.raises(StepInvalid, match="is about `idle`, of which nothing reaches the sink"):
        stage.check(f"{unused}\n  - {{name: e, that: x = 1, step: idle}}")


def test_values_that_cannot_be_decoded_become_dead_letters_with_the_same_batch(
    api: Api, name: Callable[[], str], stage: Stage
) -> None:
    source, sink, letters = api.create(name()), api.create(name()), api.create(name())
    api.publish(source, '{"id":1}', "junk", '{"id":2}', '{"id":"x"}')
    text = "\n".join(
        [
            "name: strict",
            "source:",
            f"  topics: {source}",
            "  options: {startingOffsets: earliest}",
            f"  decode: {{schema: id BIGINT, mode: dlq, dead_letters: {letters}}}",
            "steps: [{name: ids, sql: SELECT value.id FROM source}]",
            f"sink: {{topic: {sink}, encode: json}}",
        ]
    )

    totals = stage.run(text)

    assert written(api, sink) == [{"id": 1}, {"id": 2}]
    assert [message["value"] for message in api.read(letters)] == ["junk", '{"id":"x"}']
    assert api.read(letters)[0]["headers"]["goqueue.dlq.offset"] == "1"
    assert (totals.rows_in, totals.rows_out, totals.dead_letters) == (4, 2, 2)


def test_files_and_tables_get_the_same_rows(
    api: Api, name: Callable[[], str], stage: Stage
) -> None:
    source = api.create(name())
    publish(api, source, [1, 2, 3, 4, 5, 6])

    stage.run(flow(source, "parquet: lake, partition_by: [key]"))
    stage.run(flow(source, "console: 2", "checkpoint: shown"))

    rows = stage.spark.read.parquet(str(stage.folder / "lake")).orderBy("n").collect()
    assert [(row.key, row.n) for row in rows] == [("k", n) for n in range(1, 7)]
    files = list((stage.folder / "lake" / "key=k").glob("*.parquet"))
    assert len(files) == 2, "one per batch"
    assert [table.count for table in stage.tables] == [4, 2]
    assert stage.tables[0].rows == (("k", "0", "1"), ("k", "1", "2"))


def test_a_step_in_python_is_found_beside_the_file(
    api: Api, name: Callable[[], str], stage: Stage
) -> None:
    source, sink = api.create(name()), api.create(name())
    publish(api, source, [1, 2, 3])
    (stage.folder / "doubling_of_orders.py").write_text(
        "import pyarrow as pa\n"
        "import pyarrow.compute as pc\n"
        "from pyspark.sql.functions import arrow_udf\n"
        "def doubled(n):\n"
        "    return pc.multiply(n, pa.scalar(2, pa.int32()))\n"
        "def double(rows):\n"
        "    return rows.select(arrow_udf(doubled, 'int')('n').alias('n'))\n"
        "def nothing(rows):\n"
        "    return None\n",
        encoding="utf-8",
    )
    text = flow(source, f"topic: {sink}, encode: json")
    added = "  - {name: twice, python: 'doubling_of_orders:double'}\nsink:"

    stage.run(text.replace("sink:", added))

    assert [row["n"] for row in written(api, sink)] == [2, 4, 6]
    with pytest.raises(StepInvalid, match="gives NoneType back, and no DataFrame"):
        stage.check(text.replace("sink:", added.replace(":double", ":nothing")))
    with pytest.raises(StepInvalid, match="has no function `triple`"):
        stage.check(text.replace("sink:", added.replace(":double", ":triple")))
    with pytest.raises(StepInvalid, match="`nowhere` cannot be imported: ModuleNotFound"):
        stage.check(text.replace("sink:", added.replace("doubling_of_orders", "nowhere")))


def test_the_example_counts_orders_per_minute(
    api: Api, name: Callable[[], str], stage: Stage
) -> None:
    names = {each: api.create(name()) for each in ("orders.per_minute", "orders.bad", "orders")}
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in names.items():
        text = re.sub(
            rf"(topics?|dead_letters): {re.escape(old)}$", rf"\1: {new}", text, flags=re.MULTILINE
        )

    def order(second: int, amount: float, product: str = "tea") -> str:
        at = f"2026-11-15T12:{second // 60:02}:{second % 60:02}Z"
        return json.dumps({"id": second, "product": product, "amount": amount, "at": at})

    api.publish(names["orders"], order(1, 2.5), order(30, 1.5), order(59, 4, "rum"), "junk")
    api.publish(names["orders"], order(61, -1), order(62, 1), order(200, 1))
    totals = stage.run(text)

    found = {
        (row["minute"][11:16], row["product"]): row
        for row in written(api, names["orders.per_minute"])
    }
    assert set(found) == {("12:00", "tea"), ("12:00", "rum"), ("12:01", "tea")}
    assert (found["12:00", "tea"]["orders"], found["12:00", "tea"]["turnover"]) == (2, 4.0)
    assert found["12:01", "tea"]["orders"] == 1, "the negative one was dropped"
    assert totals.violations == {"amount_is_positive": 1, "time_is_given": 0}
    assert totals.dead_letters == 1


def test_a_checkpoint_is_run_by_one_process_and_errors_name_topics(
    api: Api, name: Callable[[], str], stage: Stage
) -> None:
    source, sink = api.create(name()), api.create(name())
    text = flow(source, f"topic: {sink}, encode: json")
    request = stage.request(text)
    holder = Journal("flow", local_checkpoint(request), "2026-11-15T12:00:00Z")
    holder.begin()

    with pytest.raises(CheckpointBusy, match="runs on the checkpoint"):
        stage.run(text)
    assert read_status(stage.folder / "_pipelines" / "flow").state == "running"
    holder.end("2026-11-15T12:00:01Z", None)

    assert query_name(request.pipeline) == f"flow: {source} -> {sink}"
    with pytest.raises(RunFailed, match=r"there is no topic 'none\.such'") as failed:
        stage.run(flow("none.such", f"topic: {sink}, encode: json", "checkpoint: none"))
    assert failed.value.failure.fault is Fault.USAGE


@pytest.mark.long
def test_ctrl_c_finishes_the_batch_and_the_next_run_goes_on(
    api: Api,
    node: ServerProcess,
    name: Callable[[], str],
    stage: Stage,
    tmp_path: Path,
) -> None:
    source, sink = api.create(name(), 2), api.create(name())
    values = [json.dumps({"id": number, "n": 1}) for number in range(200)]
    for begin in range(0, 200, 100):
        part = values[begin : begin + 100]
        api.publish(source, *({"key": value, "value": value} for value in part))
    text = flow(source, f"topic: {sink}, encode: json", "configuration:")
    text += "".join(f"\n  {setting}: '{value}'" for setting, value in FAST.items())
    text = text.replace("maxRecordsPerTrigger: 4", "maxRecordsPerTrigger: 10")
    file = tmp_path / "flow.yaml"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "goqueue.cli", "-s", node.url, "pipeline", "run", "-o", "json"]
    command += ["--master", "local[2]", str(file)]

    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    first = [json.loads(child.stdout.readline()) for _ in range(2)]
    niceness = os.getpriority(os.PRIO_PROCESS, child.pid)
    child.send_signal(signal.SIGINT)
    rest, said = child.communicate(timeout=CHILD_S_MAX)
    batches = first + [json.loads(line) for line in rest.splitlines()]
    published = Counter(row["id"] for row in written(api, sink))
    status = read_status(tmp_path / "_pipelines" / "flow")
    stage.run(text.replace("maxRecordsPerTrigger: 10", "maxRecordsPerTrigger: 100"))

    assert (child.returncode, said) == (0, "")
    assert niceness >= NICENESS, "it steps back for the broker"
    assert len(batches) < 20, "it stopped long before all was done"
    assert sum(batch["rows_out"] for batch in batches) == len(published), "the batch was finished"
    assert (status.state, status.done_batch) == ("stopped", batches[-1]["batch"])
    found = Counter(row["id"] for row in written(api, sink))
    assert found == Counter(range(200))
    assert api.get("/transactions")["transactions"] == []


def test_registered_values_are_read_and_written_and_a_new_version_is_taken_up(
    api: Api, name: Callable[[], str], stage: Stage, node: ServerProcess
) -> None:
    source, sink, letters = api.create(name()), name(), api.create(name())
    narrow = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    note = {"name": "note", "type": "string", "default": ""}
    wide = {**narrow, "fields": [*narrow["fields"], note]}
    text = "\n".join(
        [
            "name: registered",
            "source:",
            f"  topics: {source}",
            "  options: {startingOffsets: earliest}",
            "  decode:",
            f"    {{format: avro, subject: {source}-value, evolution: latest, mode: dlq,",
            f"     dead_letters: {letters}}}",
            "steps: [{name: all, sql: SELECT value.* FROM source}]",
            f"sink: {{topic: {sink}, encode: protobuf, subject: {sink}-value, register: true}}",
        ]
    )
    with goqueue.connect_sync(node.url) as q:
        q.topics.create(sink, partitions=1, schema_validation=True)
        for schema, row in ((narrow, {"id": 1}), (wide, {"id": 2, "note": "x"})):
            with q.producer(serializer=goqueue.Avro(f"{source}-value", schema)) as producer:
                producer.send(source, row, partition=0).wait()
            q.publish(source, "junk", partition=0)
            stage.run(text)

        assert q.schemas.versions(f"{sink}-value") == (1, 2)
        assert [message["value"] for message in api.read(letters)] == ["junk", "junk"]
        assert len(api.read(sink)) == 2


def test_a_run_starts_again_when_the_schema_of_its_source_changes(
    stage: Stage, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[object] = []

    def play(*given: object) -> None:
        played.append(given)
        if len(played) < 3:
            raise RunFailed(Failure(Fault.SCHEMA, "the latest schema is 2"))

    monkeypatch.setattr("goqueue.pipelines.runner._play", play)
    stage.run(flow(out, f"topic: {out}, encode: json"))

    assert len(played) == 3
