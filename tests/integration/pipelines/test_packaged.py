"""The packaged pipelines on a real Spark, against a real node."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.integration.http_api import Api, Json
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess, serving

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from goqueue.pipelines.archive.compaction import compact
from goqueue.pipelines.archive.manifest import Layout, read_manifest
from goqueue.pipelines.archive.run import Archived, archive
from goqueue.pipelines.audit import SequenceCounts, audit, audit_copy, audit_rows
from goqueue.pipelines.connection import ConnectionOptions, OptionWrong, PipelineFailed
from goqueue.pipelines.packaged_options import (
    ArchiveOptions,
    AuditOptions,
    CompactOptions,
    CopyOptions,
    RedriveOptions,
    ReplayOptions,
    TracesOptions,
)
from goqueue.pipelines.progress import BatchProgress, Journal
from goqueue.pipelines.redrive import redrive
from goqueue.pipelines.replay import FROM_HEADER, Done, replay, save
from goqueue.pipelines.runner import Stop
from goqueue.pipelines.traces import trace_report
from tests.integration.fast_java import FAST_JAVA
from tests.integration.spark.sessions import ROOT

CHILD_S_MAX = 240


@pytest.fixture
def connection(node: ServerProcess) -> ConnectionOptions:
    return ConnectionOptions(server=node.url)


def publish(api: Api, topic: str, count: int, first: int = 0) -> list[str]:
    """Numbered messages of five keys; their values."""
    values = [f"v{number}" for number in range(first, first + count)]
    api.publish(
        topic,
        *(
            {"value": value, "key": f"k{int(value[1:]) % 5}", "headers": {"n": value[1:]}}
            for value in values
        ),
    )
    return values


def archived(lake: Path) -> Counter[str]:
    table = ds.dataset(lake, partitioning="hive").to_table()
    return Counter(value.decode() for value in table.column("value").to_pylist())


def everything(api: Api, topic: str, partitions: int = 2) -> list[Json]:
    return [each for number in range(partitions) for each in api.read(topic, number)]


# ---- archive -------------------------------------------------------------------------------


def test_an_archive_goes_on_where_it_was_and_is_compacted_without_loss(
    spark: SparkSession,
    api: Api,
    connection: ConnectionOptions,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    topic, lake = api.create(name(), 2), tmp_path / "lake"
    options = ArchiveOptions(connection=connection, topics=(topic,), to=lake, is_once=True)
    batches: list[BatchProgress] = []
    journal, stop = Journal("archive", None, "now"), Stop()
    journal.tell(batches.append)
    journal.tell(lambda _: stop.ask())

    values = publish(api, topic, 20)
    endless = msgspec.structs.replace(options, is_once=False, every_s=0.0)
    first = archive(spark, endless, stop=stop, journal=journal)
    values += publish(api, topic, 10, first=20)
    second = archive(spark, options)
    nothing = archive(spark, options)

    assert (first.rows, second.rows) == (20, 10)
    assert nothing == msgspec.structs.replace(Archived(), seconds=nothing.seconds)
    assert [batch.rows_in for batch in batches] == [20]
    assert archived(lake) == Counter(values)
    manifest = read_manifest(Layout(lake))
    assert sum(entry.rows for entry in manifest.entries) == 30
    row = ds.dataset(lake, partitioning="hive").to_table().to_pylist()[0]
    assert row["topic"] == topic
    assert row["headers"] == [{"key": "n", "value": row["value"][1:]}]

    merged = compact(spark, CompactOptions(to=lake))
    assert merged.files_after == 1 < merged.files_before
    assert archived(lake) == Counter(values)

    # The manifest alone knows where to continue: without a checkpoint nothing comes twice.
    other = msgspec.structs.replace(options, checkpoint=tmp_path / "anew")
    values += publish(api, topic, 5, first=30)
    assert archive(spark, other).rows == 5
    assert archived(lake) == Counter(values)
    # And a checkpoint that is behind the manifest is told so.
    publish(api, topic, 5, first=35)
    with pytest.raises(PipelineFailed, match="is in the archive already"):
        archive(spark, options)
    assert archived(lake) == Counter(values)


@pytest.mark.long
def test_an_archive_whose_driver_died_amid_its_commit_is_whole_after_the_next_run(
    spark: SparkSession,
    api: Api,
    node: ServerProcess,
    connection: ConnectionOptions,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    topics, lake = (api.create(name()), api.create(name())), tmp_path / "lake"
    large = "x" * 30_000
    for topic in topics * 2:
        api.publish(topic, *(f"{number}{large}" for number in range(20)))
    program = [sys.executable, "-m", "tests.integration.pipelines.dying_archive"]
    child = subprocess.run(
        [*program, node.url, str(lake), *topics],
        cwd=ROOT,
        env={**os.environ, **FAST_JAVA},
        capture_output=True,
        timeout=CHILD_S_MAX,
        check=False,
    )
    assert child.returncode == 77, child.stderr

    cut_off = sum(archived(lake).values())
    options = ArchiveOptions(connection=connection, topics=topics, to=lake, is_once=True)
    archive(spark, options)

    table = ds.dataset(lake, partitioning="hive").to_table()
    places = Counter((row["topic"], row["offset"]) for row in table.to_pylist())
    assert 0 < cut_off < 80
    assert len(places) == 80
    assert set(places.values()) == {1}


# ---- replay and audit ----------------------------------------------------------------------


@pytest.mark.long
def test_a_replay_sends_each_row_once_in_the_order_of_keys_and_says_whence(
    spark: SparkSession,
    api: Api,
    connection: ConnectionOptions,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, target = api.create(name(), 2), api.create(name(), 3)
    values = publish(api, source, 50)
    options = ReplayOptions(
        connection=connection,
        topic=source,
        to=target,
        chunk_rows=20,
        checkpoint=tmp_path / "replay",
    )

    stopped = replay(spark, options, is_stopped=iter([False, True]).__next__)
    # As if the driver had died between the decision and its note.
    save(options.place, Done(0, 0))
    done = replay(spark, options)
    again = replay(spark, options)

    assert (stopped.chunks_done, done.chunks_done, done.rows) == (1, 3, 50)
    assert again.rows == 50
    found = everything(api, target, 3)
    assert Counter(each["value"] for each in found) == Counter(values)
    headers = {each["value"]: each["headers"] for each in found}
    first = api.read(source, 0)[0]
    assert headers[first["value"]] == {"n": first["value"][1:], FROM_HEADER: f"{source}/0/0"}
    copied = audit_copy(spark, CopyOptions(connection=connection, topic=source, against=target))
    assert copied.is_clean
    assert (copied.source_rows, copied.target_rows) == (50, 50)


@pytest.mark.long
def test_a_replay_of_an_archive_brings_back_what_a_time_bounds(
    spark: SparkSession,
    api: Api,
    connection: ConnectionOptions,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, target, lake = api.create(name(), 2), api.create(name(), 2), tmp_path / "lake"
    values = publish(api, source, 20)
    archive(spark, ArchiveOptions(connection=connection, topics=(source,), to=lake, is_once=True))
    options = ReplayOptions(
        connection=connection,
        topic=source,
        to=target,
        archive=lake,
        since="-1h",
        chunk_rows=15,
        keeps_time=True,
        keeps_partition=True,
        checkpoint=tmp_path / "replay",
    )

    done = replay(spark, options)

    assert done.rows == 20
    for number in (0, 1):
        before, after = api.read(source, number), api.read(target, number)
        assert [each["value"] for each in after] == [each["value"] for each in before]
        assert [each["timestamp"][:23] for each in after] == [
            each["timestamp"][:23] for each in before
        ]
    assert Counter(each["value"] for each in everything(api, target)) == Counter(values)


def test_a_dry_run_of_a_replay_shows_what_would_be_sent_and_sends_nothing(
    api: Api,
    node: ServerProcess,
    name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = api.create(name(), 2), api.create(name())
    publish(api, source, 30)
    monkeypatch.chdir(tmp_path)
    command = ["pipeline", "run", "replay", "--topic", source, "--to", target, "--rate", "2"]

    ran = Program(node.url, tmp_path).do(*command, "--dry-run", "-o", "json")

    plan = json.loads(ran.out)
    assert (plan["rows_at_most"], plan["chunks"], plan["chunks_done"]) == (30, 3, 0)
    assert sum(each["end"] - each["start"] for each in plan["stretches"]) == 30
    assert everything(api, target, 1) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_an_audit_finds_what_was_planted(
    spark: SparkSession, api: Api, connection: ConnectionOptions, name: Callable[[], str]
) -> None:
    topic = api.create(name(), 2)
    for number in (0, 1, 3, 2, 2, 5):
        api.publish(topic, {"value": json.dumps({"n": number}), "partition": 0, "key": "p"})
    api.publish(topic, {"value": "no json", "partition": 1, "key": "p"})
    options = AuditOptions(
        connection=connection,
        topic=topic,
        sequence="get_json_object(cast(value AS STRING), '$.n')",
        first=0,
    )

    found = audit(spark, options)

    assert (found.rows, found.missing, found.duplicates, found.disorders) == (7, 1, 1, 1)
    assert found.unreadable == 1
    assert [(gap.first, gap.last) for gap in found.gaps] == [(4, 4)]
    assert [place.offset for place in found.duplicate_rows] == [4]
    assert [place.offset for place in found.disordered_rows] == [3]
    twice = audit(spark, AuditOptions(connection=connection, topic=topic, identity="value"))
    assert (twice.duplicates, twice.missing, twice.is_clean) == (1, 0, False)
    with pytest.raises(OptionWrong, match="--sequence"):
        audit(spark, msgspec.structs.replace(options, sequence="no_such_column"))


@pytest.mark.long
def test_an_audit_by_sql_finds_what_counting_finds(spark: SparkSession) -> None:
    rng = random.Random(11)
    for first, expected in ((None, {}), (0, {"a": 45, "b": 20, "z": 3})):
        rows = [
            ("abc"[rng.randrange(3)], rng.randrange(2, 40), offset % 3, offset)
            for offset in range(90)
        ]
        counting = SequenceCounts(first=first, expected=expected)
        for row in rows:
            counting.add(*row)
        table = spark.createDataFrame(
            rows, "producer STRING, sequence BIGINT, partition INT, offset BIGINT"
        )

        assert audit_rows(table, first, expected) == counting.findings()


# ---- redrive -------------------------------------------------------------------------------


def bury(api: Api, topic: str, group: str, reasons: dict[str, str]) -> None:
    """Publish values, and reject each for its reason."""
    api.publish(topic, *({"value": value, "key": value} for value in reasons))
    member = api.join(group, topic)
    left = dict(reasons)
    while left:
        for message in member.poll():
            body = {"receipt_handle": message["receipt_handle"]}
            api.post("/messages/reject", {**body, "reason": left.pop(message["value"])})
    member.leave()


@pytest.mark.long
def test_dead_letters_are_reported_and_redriven_by_selection_once(
    spark: SparkSession, api: Api, connection: ConnectionOptions, name: Callable[[], str]
) -> None:
    topic, group = api.create(name(), 2), name()
    bury(api, topic, group, {"a": "bad", "b": "bad", "c": "slow", "d": "slow", "e": "odd"})
    published = len(everything(api, topic))
    options = RedriveOptions(connection=connection, topic=topic)

    report = redrive(spark, options)
    assert [(each.reason, each.letters, each.selected) for each in report.groups] == [
        ("bad", 2, 2),
        ("slow", 2, 2),
        ("odd", 1, 1),
    ]
    assert {each.consumer_group for each in report.groups} == {group}
    assert len(everything(api, topic)) == published

    # What the broker redrove for others is recognised by its copies.
    moved = api.post(f"/topics/{topic}/dlq/redrive", {"filter": {"reason": "odd"}})
    assert moved == {"moved": 1}
    chosen = msgspec.structs.replace(options, where="reason = 'bad'", is_sent=True)
    some = redrive(spark, msgspec.structs.replace(chosen, letters_max=1))
    rest = redrive(spark, chosen)
    none = redrive(spark, chosen)
    assert [each.sent for each in (some, rest, none)] == [1, 1, 0]
    assert none.redriven == 3
    # A later redrive by the broker moves what is left.
    assert api.post(f"/topics/{topic}/dlq/redrive", {}) == {"moved": 2}

    back = everything(api, topic)
    values = Counter(each["value"] for each in back)
    assert values == Counter(dict.fromkeys("abcde", 2))
    copies = [each for each in back if "goqueue.dlq.redriven-from" in each.get("headers", {})]
    assert len(copies) == 5
    assert all(each["headers"]["goqueue.dlq.hops"] == "1" for each in copies)
    with pytest.raises(OptionWrong, match="--where"):
        redrive(spark, msgspec.structs.replace(options, where="no_such = 1"))


# ---- traces --------------------------------------------------------------------------------


def span(name: str, number: int, group: str = "", **events: int) -> str:
    """A line of a span file; events by their types, `_` for the dot, in milliseconds."""
    happened = [
        {"timestamp": f"2026-11-15T12:00:00.{ms:03d}Z", "event_type": kind.replace("_", ".", 1)}
        for kind, ms in events.items()
    ]
    line: Json = {"trace_id": f"{number:032x}", "span_id": "1", "name": name, "topic": "orders"}
    line |= {"partition": 0, "offset": number, "consumer_group": group, "events": happened}
    return json.dumps(line)


@pytest.mark.long
def test_span_files_tell_latencies_slow_traces_and_unfinished_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = []
    for number in range(100):
        lines.append(span("publish", number, publish_received=0, publish_persisted=2))
        if number < 98:
            lines.append(span("consume", number, "g", consume_fetched=12))
        if number < 95:
            lines.append(span("ack", number, "g", consume_acked=12 + number))
    lines.append(span("refuse", 100, publish_received=0, publish_validation_failed=1))
    with gzip.open(tmp_path / "spans-00000001.jsonl.gz", "wt") as file:
        file.write("\n".join(lines[:50]))
    (tmp_path / "spans.jsonl").write_text("\n".join([*lines[50:], '{"trace_id": "cut of']))

    report = trace_report(spark, TracesOptions(paths=(str(tmp_path),), slowest=2))

    hops = {each.hop: each for each in report.latencies}
    assert (hops["publish"].p50_ms, hops["publish"].journeys) == (2.0, 100)
    assert (hops["wait"].p99_ms, hops["wait"].journeys) == (10.0, 98)
    assert (hops["work"].max_ms, hops["total"].max_ms) == (94.0, 106.0)
    assert [each.offset for each in report.slowest] == [94, 93]
    assert [(each.state, each.journeys) for each in report.incomplete] == [
        ("refused", 1),
        ("unfetched", 2),
        ("unsettled", 3),
    ]
    assert (report.journeys, report.completed, report.broken_lines) == (101, 95, 1)


def test_the_spans_that_a_node_writes_are_understood(
    spark: SparkSession, name: Callable[[], str], tmp_path: Path
) -> None:
    with serving(tmp_path / "data", "--tracing-exporters", "file") as traced:
        there = Api(traced.url)
        topic = there.create(name())
        there.publish(topic, "taken", "dropped", "left")
        member = there.join("g", topic)
        taken, dropped, _ = member.take(3)
        there.ack(taken)
        there.post("/messages/reject", {"receipt_handle": dropped["receipt_handle"]})
        there.close()
        assert traced.stop() == 0
    paths = (str(tmp_path / "data" / "traces"),)

    report = trace_report(spark, TracesOptions(paths=paths, topics=(topic,)))

    assert (report.journeys, report.completed, report.broken_lines) == (3, 1, 0)
    assert {each.hop: each.journeys for each in report.latencies} == {
        "publish": 3,
        "wait": 3,
        "work": 1,
        "total": 1,
    }
    assert {each.state: each.journeys for each in report.incomplete} == {"dead": 1, "unsettled": 1}
