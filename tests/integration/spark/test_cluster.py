"""The connector on a cluster of Spark, whose executors are processes of their own."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from tests.integration.spark.sessions import ROOT

ROWS = 4000


@pytest.mark.long
def test_rows_go_through_executors_exactly_once_whoever_is_killed() -> None:
    """Written, streamed and read there; an executor, the driver and the broker die, in turn."""
    command = [sys.executable, "-m", "soak.spark", "--rounds", "3", "--blows", "1"]
    command += ["--rows", str(ROWS), "--batches", "8"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = (line.rsplit(None, 1) for line in ran.stdout.splitlines() if line.startswith("  "))
    counts = {name.strip(): int(count) for name, count in lines}
    assert counts["rows"] == 3 * ROWS
    for name in ("executor", "driver", "broker"):
        assert counts[f"killed: {name}"] == 1, name
    assert "streams that gave up" not in counts
