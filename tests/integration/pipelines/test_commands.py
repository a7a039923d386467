"""`goqueue pipeline` as people run it, as far as it needs no Spark: what is told before."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.http_api import Api
from tests.integration.program import Program
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from goqueue.pipelines.progress import Journal, batch_progress

TIME = "2026-11-15T12:00:00.000Z"


@pytest.fixture
def goqueue(node: ServerProcess, tmp_path: Path) -> Program:
    return Program(node.url, tmp_path)


def write(folder: Path, source: str, sink: str) -> Path:
    file = folder / "flow.yaml"
    text = (
        f"name: flow\ndescription: Orders.\nsource: {{topics: {source}}}\nsink: {{topic: {sink}}}\n"
    )
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_that_cannot_be_used_is_wrong_usage(goqueue: Program, tmp_path: Path) -> None:
    file = write(tmp_path, "a", "b")
    file.write_text(file.read_text(encoding="utf-8").replace("topics", "topcs"), encoding="utf-8")

    for command in ("run", "check", "status"):
        done = goqueue.run("pipeline", command, file)
        assert (done.code, done.out) == (2, b"")
        words = f"goqueue: {file}:3: source.topcs: is unknown; did you mean `topics`?\n"
        assert done.err == words
    assert goqueue.run("pipeline", "run", tmp_path / "none.yaml").code == 2


def test_a_topic_that_is_not_there_is_told_before_spark_starts(
    api: Api, goqueue: Program, name: Callable[[], str], tmp_path: Path
) -> None:
    topic = api.create(name())

    done = goqueue.run("pipeline", "run", write(tmp_path, topic, "nowhere"), "--once")

    assert done.code == 1
    assert done.err.startswith(
        'goqueue: topic "nowhere" does not exist (topic_not_found); see: goqu'
    )
    assert not (tmp_path / "_pipelines").exists()


def test_without_a_server_nothing_starts(tmp_path: Path) -> None:
    done = Program("http://127.0.0.1:1", tmp_path).run("pipeline", "run", write(tmp_path, "a", "b"))

    assert done.code == 3
    assert "start one with: goqueue dev" in done.err


def test_a_status_is_read_from_the_checkpoint_and_its_lag_asked_for(
    api: Api, goqueue: Program, name: Callable[[], str], tmp_path: Path
) -> None:
    topic = api.create(name())
    api.publish(topic, *(f"v{number}" for number in range(10)))
    file = write(tmp_path, topic, "out")
    offsets = {topic: {"born": TIME, "offsets": {"0": 7}}}
    report = {
        "id": "q1",
        "batchId": 3,
        "timestamp": TIME,
        "numInputRows": 7,
        "durationMs": {"triggerExecution": 5},
        "sources": [{"endOffset": offsets, "latestOffset": offsets}],
        "observedMetrics": {"goqueue:final": {"positive": 2}},
    }
    journal = Journal("flow", tmp_path / "_pipelines" / "flow", TIME)
    journal.begin()
    journal.take(batch_progress(report))

    running = goqueue.do("pipeline", "status", file).text
    journal.end(TIME, "the world ended")
    (failed,) = json.loads(goqueue.do("pipeline", "status", file, "-o", "json").out)["pipelines"]
    unreached = Program("http://127.0.0.1:1", tmp_path).do("pipeline", "status", file)

    assert "running" in running
    assert "expectation positive: 2 violations" in running
    assert (failed["status"]["state"], failed["status"]["lag"]) == ("failed", 3)
    assert failed["status"]["totals"]["error"] == "the world ended"
    assert "lag is that of the last batch" in unreached.err
    assert "failed: the world ended" in unreached.text


def test_what_can_be_run_here_is_listed(
    goqueue: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a", "b")
    (tmp_path / "broken.yaml").write_text("source: {}\nsink: {}\nnam: x\n", encoding="utf-8")
    (tmp_path / "other.yaml").write_text("services: {}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    listed = json.loads(goqueue.do("pipeline", "list", "-o", "json").out)["pipelines"]
    table = goqueue.do("pipeline", "list").text

    files = {each["name"]: each["description"] for each in listed if each["kind"] == "file"}
    assert files["flow"] == "Orders."
    assert files["broken"].startswith("cannot be run: broken.yaml:3: nam: is unknown")
    assert set(files) == {"flow", "broken"}
    assert {each["name"] for each in listed if each["kind"] == "packaged"} >= {"archive", "replay"}
    assert "Orders." in table


def test_without_the_extra_the_way_to_it_is_told(goqueue: Program, tmp_path: Path) -> None:
    # A folder that hides PySpark, as if it were not installed.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nf = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pyspark' else f(name, *rest)\n",
        encoding="utf-8",
    )
    path = goqueue.environment.get("PYTHONPATH")
    goqueue.environment["PYTHONPATH"] = str(tmp_path) if path is None else f"{tmp_path}:{path}"

    for arguments in (["run", "flow.yaml"], ["run", "archive"], ["list"], ["check", "flow.yaml"]):
        done = goqueue.run("pipeline", *arguments)
        assert done.code == 2
        assert "pip install '.[spark]' in a clone" in done.err
    assert goqueue.do("pipeline", "--help").err == ""
