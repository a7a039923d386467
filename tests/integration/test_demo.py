"""The demonstration that a newcomer runs first: it must prove what it says, and clean up."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_demo(temporary: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / "demo" / "log_demo.py")],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_demo_proves_every_claim(tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TRUE" not in done.stdout
    assert done.stdout.count("proven:") >= 8


def test_the_demo_leaves_nothing_behind_and_writes_plain_text_to_a_pipe(tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
