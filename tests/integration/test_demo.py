"""The demonstration that a newcomer runs first: it must prove what it says, and clean up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=["broker_demo", "log_demo"])
def demo(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "tuple[subprocess.CompletedProcess[str], Path]":
    """A demonstration that has ended, and the folder for temporary files that it had."""
    temporary = tmp_path_factory.mktemp("temporary")
    done = subprocess.run(
        [sys.executable, "-m", f"demo.{request.param}"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done, temporary


def test_the_demo_proves_every_claim(
    demo: "tuple[subprocess.CompletedProcess[str], Path]",
) -> None:
    done, _ = demo

    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TRUE" not in done.stdout
    assert done.stdout.count("proven:") >= 8


def test_the_demo_leaves_nothing_behind_and_writes_plain_text_to_a_pipe(
    demo: "tuple[subprocess.CompletedProcess[str], Path]",
) -> None:
    done, temporary = demo

    assert list(temporary.iterdir()) == []
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
