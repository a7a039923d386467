"""The example for Spark Declarative Pipelines, run by `spark-pipelines` itself."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import goqueue
from goqueue.client.sync import SyncConnection
from tests.integration.server_process import serving

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "declarative"
NEEDS = ("grpc_status", "pandas", "pyspark", "zstandard")

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in NEEDS),
    reason="Spark's Connect stack is not installed: make test-declarative",
)


def run_pipeline(project: Path) -> None:
    """Run the project once; whatever is there is processed, then it ends."""
    command = [
        str(Path(sys.executable).parent / "spark-pipelines"),
        "run",
        "--remote",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command,
        check=False,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def keys_of(queue: SyncConnection, topic: str, count: int) -> list[bytes]:
    with queue.stream(topic) as stream:
        return sorted(next(stream).key or b"" for _ in range(count))


def test_the_example_moves_large_orders_once_over_two_runs(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    with serving(tmp_path / "data") as server, goqueue.connect_sync(server.url) as queue:
        spec = project / "spark-pipeline.yml"
        text = spec.read_text().replace("127.0.0.1:8080", server.url.removeprefix("http://"))
        spec.write_text(re.sub("storage: .*", f"storage: file://{tmp_path}/storage", text))
        for topic in ("orders", "orders.large"):
            queue.topics.create(topic, partitions=2)
        queue.publish("orders", {"amount": 50}, key="small")
        queue.publish("orders", {"amount": 150}, key="first")
        run_pipeline(project)
        queue.publish("orders", {"amount": 250}, key="second")
        run_pipeline(project)

        assert queue.topics.describe("orders.large").total_messages == 2
        assert keys_of(queue, "orders.large", 2) == [b"first", b"second"]
