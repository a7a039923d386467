"""The demonstration that a newcomer runs first: it must prove what it says, and clean up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.fast_java import FAST_JAVA

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ["demo.broker_demo", "--without-spark"],
        pytest.param(["demo.broker_demo"], marks=pytest.mark.long),
        ["demo.log_demo"],
    ],
    ids=" ".join,
)
def test_the_demo_proves_every_claim_in_plain_text_and_leaves_nothing_behind(
    command: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, **FAST_JAVA, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TRUE" not in done.stdout
    assert done.stdout.count("proven:") >= 8
    assert list(tmp_path.iterdir()) == []
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
