"""A real Prometheus in a process of its own, with the configuration of the project."""

import contextlib
import math
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

__all__ = ["DEPLOY", "Prometheus", "found", "scraping"]

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
START_S_MAX = 60
_LOOK_S = 0.05


def found(program: str) -> str:
    """The path of a program of Prometheus; the test is skipped where it is not installed."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not on the PATH (Debian: apt install prometheus has it)")
    return path


class Prometheus:
    """Answers queries, and tells how its rules fare."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30)

    def close(self) -> None:
        self._client.close()

    def query(self, expression: str) -> list[dict[str, str]]:
        """The labels of every series with a value; one that is not a number is none."""
        answer = self._client.post("/api/v1/query", data={"query": expression})
        body = answer.json()
        assert body["status"] == "success", f"{expression}\n{body}"
        result = body["data"]["result"]
        return [each["metric"] for each in result if not math.isnan(float(each["value"][1]))]

    def answers(self, left: dict[str, str]) -> bool:
        """Remove the queries that have an answer; whether none is left."""
        for expression in [each for each in left if self.query(each)]:
            del left[expression]
        return not left

    def rules(self) -> list[dict[str, object]]:
        groups = self._client.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def states(self, alert: str) -> list[str]:
        """The states of an alert, one for each node, topic or group that it is about."""
        alerts = self._client.get("/api/v1/alerts").json()["data"]["alerts"]
        return [each["state"] for each in alerts if each["labels"]["alertname"] == alert]

    def is_ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self._client.get("/-/ready").status_code == 200
        return False


@contextlib.contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    """Prometheus scrapes this address every second, and evaluates the project's rules."""
    program = found("prometheus")
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    assert "127.0.0.1:8080" in config
    assert "15s" in config
    config = config.replace("127.0.0.1:8080", target).replace("15s", "1s")
    shutil.copytree(DEPLOY / "prometheus" / "rules", folder / "rules")
    (folder / "prometheus.yml").write_text(config)
    address = f"127.0.0.1:{_free_port()}"
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    prometheus = Prometheus(f"http://{address}")
    try:
        deadline = time.monotonic() + START_S_MAX
        while not prometheus.is_ready():
            assert time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            # The pause between two looks ends early if the process does.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                pytest.fail((folder / "prometheus.log").read_text())
        yield prometheus
    finally:
        prometheus.close()
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
