"""The commands of the packaged pipelines, as far as they go without Spark."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from goqueue.cli.pipeline.command import PACKAGED
from goqueue.cli.program import run

RUN = ["pipeline", "run"]


@pytest.mark.parametrize("name", sorted(PACKAGED))
def test_every_pipeline_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RUN, name, "--help"]) == 0

    shown = capsys.readouterr().out
    assert "Example:" in shown
    assert f"goqueue pipeline run {name}" in shown
    assert "--master" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["archive", "--to", "lake"], "--topic: name at least one topic"),
        (["archive", "--to", "lake", "-t", "a", "-t", "a"], "--topic: a topic is named twice"),
        (["archive", "--to", "lake", "-t", "a", "--every", "-1"], "--every: is not negative"),
        (
            ["archive", "--to", "lake", "-t", "a", "--compression", "rar"],
            "--compression: is one of",
        ),
        (["archive", "--to", "no/such", "--compact"], "--to: no/such is no folder"),
        (["replay", "-t", "a", "--to", "a"], "--to: is the topic that is read"),
        (["replay", "-t", "a", "--to", "b", "--since", "noon"], "--since: is a time such as"),
        (["redrive", "-t", "a", "--max", "0"], "--max: is at least 1"),
        (["traces", "--spans", "no/such"], "--spans: there is nothing at no/such"),
        (["audit", "-t", "a"], "--sequence: say by --sequence"),
        (["audit", "-t", "a", "--sequence", "1", "--expected", "x"], "--expected: 'x' is not"),
        (["audit", "-t", "a", "--against", "a"], "--against: is the same topic"),
        (["audit", "-t", "a", "--against", "b", "--first", "1"], "--first: does not go with"),
    ],
)
def test_a_wrong_option_ends_the_command_before_spark_starts(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run([*RUN, *arguments]) == 2

    said = capsys.readouterr().err
    assert said.startswith(f"goqueue: {arguments[0]}: {words}")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
