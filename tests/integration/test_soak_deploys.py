"""The soak of deploys: a short run of it, and proof that its verdict sees what it should."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from soak.deploys.verdict import Note, judge, read_notes
from tests.examples import IS_EXHAUSTIVE

ROOT = Path(__file__).resolve().parents[2]
SECONDS, DEPLOY_EVERY, KILL_EVERY = (60, 4, 10) if IS_EXHAUSTIVE else (6, 2, 3)


def test_workers_that_are_replaced_and_killed_under_load_keep_every_promise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soak.deploys", "--directory", str(tmp_path / "soak")]
    command += ["--seconds", f"{SECONDS}", "--deploy-every", f"{DEPLOY_EVERY}"]
    command += ["--kill-every", f"{KILL_EVERY}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["deploys"] >= 1
    assert counts["killed"] >= 1
    assert counts["handled"] >= counts["published"] > 0


def notes(*words: str) -> list[Note]:
    return read_notes([f"{line}\n" for line in words])


ONCE = {1: notes("begin a 1", "done a 1"), 2: notes("begin b 1", "done b 1")}


def violations(found: Mapping[int, list[Note]], *killed: int, dead_letters: int = 0) -> list[str]:
    return judge(["a", "b"], found, frozenset(killed), dead_letters=dead_letters).violations


def test_a_run_in_which_all_is_handled_once_is_sound() -> None:
    assert violations(ONCE) == []


def test_what_a_killed_worker_had_begun_may_be_handled_again() -> None:
    again = {**ONCE, 3: notes("begin a 1"), 4: notes("begin a 2", "done a 2")}
    del again[1]
    assert violations(again, 3) == []
    assert any("was begun by" in words for words in violations(again))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({1: ONCE[1]}, "b was lost"),
        ({**ONCE, 3: notes("begin a 2", "done a 2")}, "a was begun by [1, 3]"),
        ({**ONCE, 3: notes("begin c 1", "done c 1")}, "c was never published"),
        ({1: ONCE[1], 2: notes("begin b 1")}, "b was begun and not finished by 2"),
        ({1: ONCE[1], 2: notes("begin b 2", "done b 2")}, "b: a delivery was counted"),
    ],
)
def test_a_broken_promise_is_seen(found: dict[int, list[Note]], words: str) -> None:
    assert any(words in violation for violation in violations(found))


def test_a_dead_letter_is_a_broken_promise() -> None:
    assert violations(ONCE, dead_letters=1) == ["1 dead letters, and no handler has failed"]


def test_a_line_that_was_cut_by_a_kill_is_no_note() -> None:
    assert read_notes(["begin a 1\n", "done a"]) == [Note("begin", "a", 1)]
    assert read_notes(["begin a 1\n", "done a 1"]) == [Note("begin", "a", 1)]
