"""The soak of a cluster: a short run of it, and proof that its verdict sees what it should."""

import subprocess
import sys
from pathlib import Path

from soak.cluster.verdict import Acknowledged, Copy, judge
from tests.examples import IS_EXHAUSTIVE

ROOT = Path(__file__).resolve().parents[2]
SECONDS, FAULT_EVERY = (60, 3) if IS_EXHAUSTIVE else (12, 2)


def test_a_cluster_whose_nodes_fail_under_load_keeps_every_promise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soak.cluster", "--directory", str(tmp_path / "soak")]
    command += ["--seconds", f"{SECONDS}", "--fault-every", f"{FAULT_EVERY}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in rows}
    assert counts["acknowledged"] > 0
    assert counts["copies compared"] == 18


FIRST = Acknowledged("a", 0, 0)
SECOND = Acknowledged("b", 0, 1)
HELD = {(0, 0): "a", (0, 1): "b"}


def test_a_run_in_which_all_is_stored_once_and_everywhere_is_sound() -> None:
    copies = [Copy("n1", 0, b"ab"), Copy("n2", 0, b"ab"), Copy("n1", 1, b"")]
    assert judge([FIRST, SECOND], HELD, copies).violations == []


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    assert judge([FIRST], HELD, []).violations == []


def test_a_message_that_is_gone_or_elsewhere_is_found() -> None:
    assert "b was acknowledged" in judge([FIRST, SECOND], {(0, 0): "a"}, []).violations[0]
    moved = {(0, 0): "b", (0, 1): "a"}
    assert len(judge([FIRST, SECOND], moved, []).violations) == 2


def test_a_message_that_is_stored_twice_is_found() -> None:
    assert judge([FIRST], {(0, 0): "a", (1, 4): "a"}, []).violations == ["a is stored 2 times"]


def test_copies_that_differ_are_found() -> None:
    copies = [Copy("n1", 0, b"abc"), Copy("n2", 0, b"abd"), Copy("n3", 0, b"ab")]
    assert judge([], {}, copies).violations == [
        "partition 0 differs on n1 and n2 at byte 2",
        "partition 0 differs on n1 and n3 at byte 2",
    ]
