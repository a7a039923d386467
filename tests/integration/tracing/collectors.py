"""Processes that take OTLP: our receiver, and a collector of OpenTelemetry's own in front of it.

The collector is the program `otelcol`, on the path or in build/otelcol: one with otlpreceiver and
otlphttpexporter in it, as every distribution has them, or as `ocb` builds it from those two.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Received", "Receiver", "collecting", "find_collector", "receiving", "unused_port"]

_RECEIVER = Path(__file__).with_name("otlp_receiver.py")
_BUILT = Path(__file__).resolve().parents[3] / "build" / "otelcol" / "otelcol"
START_S_MAX = 60

_CONFIGURATION = """
receivers:
  otlp:
    protocols:
      http: {{ endpoint: "127.0.0.1:{http}" }}
      grpc: {{ endpoint: "127.0.0.1:{grpc}" }}
exporters:
  otlphttp:
    endpoint: "http://127.0.0.1:{behind}"
    sending_queue: {{ enabled: false }}
service:
  telemetry: {{ metrics: {{ level: none }} }}
  pipelines:
    traces: {{ receivers: [otlp], exporters: [otlphttp] }}
"""


class Received(msgspec.Struct, frozen=True):
    """A span as it came."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: str
    start: int
    end: int
    attributes: dict[str, Any]
    events: list[tuple[int, str]]
    links: list[tuple[str, str]]
    status: str
    message: str
    resource: dict[str, Any]


class Receiver(msgspec.Struct, frozen=True):
    """Where a receiver listens, and where it writes."""

    port: int
    path: Path

    def spans(self) -> list[Received]:
        """All that has come so far."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Received) for line in lines]


def unused_port() -> int:
    """A port where nobody listens; somebody may later, but hardly at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def receiving(
    folder: Path, protocol: str = "http", mode: str = "taking", port: int = 0
) -> Iterator[Receiver]:
    """A receiver that runs as long as the block; on any free port unless one is named."""
    path = folder / f"received-{protocol}.jsonl"
    command = [sys.executable, str(_RECEIVER), protocol, mode, str(path), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Receiver(int(process.stdout.readline()), path)
        finally:
            process.kill()


def find_collector() -> str | None:
    """The program of OpenTelemetry's collector, if it is here."""
    return shutil.which("otelcol") or (str(_BUILT) if os.access(_BUILT, os.X_OK) else None)


@contextlib.contextmanager
def collecting(program: str, folder: Path, behind: Receiver) -> Iterator[dict[str, int]]:
    """A collector that hands on to a receiver what it gets; its ports by protocol."""
    ports = {"http": unused_port(), "grpc": unused_port()}
    configuration = folder / "collector.yaml"
    configuration.write_text(_CONFIGURATION.format(**ports, behind=behind.port))
    command = [program, "--config", str(configuration)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if "Everything is ready" in line:
                    break
            else:
                raise AssertionError("the collector did not start:\n" + "".join(said))
            yield ports
        finally:
            process.kill()
