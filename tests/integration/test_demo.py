"""The demonstration that a newcomer runs first: it must prove what it says, and clean up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_demo(name: str, temporary: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", f"demo.{name}"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", ["broker_demo", "log_demo"])
def test_the_demo_proves_every_claim(name: str, tmp_path: Path) -> None:
    done = run_demo(name, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TRUE" not in done.stdout
    assert done.stdout.count("proven:") >= 8


@pytest.mark.parametrize("name", ["broker_demo", "log_demo"])
def test_the_demo_leaves_nothing_behind_and_writes_plain_text_to_a_pipe(
    name: str, tmp_path: Path
) -> None:
    done = run_demo(name, tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
