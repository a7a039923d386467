"""The package ships itself: executors need nothing but a Python."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.records import COMPILED
from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

ROOT = Path(__file__).resolve().parents[3]
CHILD_S_MAX = 240


@pytest.mark.long
def test_executors_with_a_bare_python_run_the_compiled_connector(
    api: Api,
    connect: Callable[[ServerProcess], Api],
    node: ServerProcess,
    name: Callable[[], str],
    tmp_path: Path,
) -> None:
    source, sink = api.create(name(), 2), api.create(name())
    api.publish(source, *(f"v{number}" for number in range(50)))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    work = tmp_path / "work"
    work.mkdir()
    program = ROOT / "tests" / "integration" / "pipelines" / "shipped.py"

    # Nothing of this environment is on the executor's way to its modules.
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, program, node.url, source, sink, python],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=CHILD_S_MAX,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    executable, records, is_compiled, pyarrow = json.loads(ran.stdout.splitlines()[-1])
    assert executable == str(python)
    # Spark leaves behind what the executor unpacked, and that beside its own files.
    shutil.rmtree(Path(records[: records.index("goqueue-packages")]).parent)
    assert "goqueue-packages" in records
    assert "goqueue-packages" in pyarrow
    assert is_compiled == str(COMPILED)
    assert len(connect(node).read(sink)) == 50
