"""Exporters whose other side is gone, silent, overloaded or full: the node works on, and counts."""

import contextlib
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.http_api import Api
from tests.integration.server_process import ServerProcess, serving
from tests.integration.small_disk import mounted
from tests.integration.tracing.collectors import (
    collecting,
    find_collector,
    receiving,
    unused_port,
)

PATIENCE_S = 60.0
MANY = 60
BATCH = ["x"] * 100

Connect = Callable[[ServerProcess], Api]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's exporters try a batch for a second, not for ten."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


def otlp(protocol: str, port: int) -> list[str]:
    scheme = "http://" if protocol == "http" else ""
    flags = ["--tracing-exporters", "otlp", "--tracing-otlp-protocol", protocol]
    return [*flags, "--tracing-otlp-endpoint", f"{scheme}127.0.0.1:{port}"]


def counted(api: Api, what: str, exporter: str = "otlp") -> int:
    text = api.send("GET", "/metrics").content.decode()
    found = re.search(
        rf'^goqueue_tracing_spans_{what}{{exporter="{exporter}"}} (\d+)$', text, re.MULTILINE
    )
    assert found is not None, text
    return int(found[1])


def wait_until_counted(api: Api, what: str, count: int, exporter: str = "otlp") -> None:
    """Every look is a request to the node, which continues to work meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while counted(api, what, exporter) < count:
        assert time.monotonic() < deadline, f"{counted(api, what, exporter)} of {count} {what}"


def wait_until_gone(api: Api, count: int, exporter: str) -> None:
    """Until so many spans were exported or dropped: none of them waits any more."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(counted(api, f"{what}_total", exporter) for what in ("exported", "dropped")) < count:
        assert time.monotonic() < deadline, f"{count} spans were not gone in time"


@contextlib.contextmanager
def other_side(folder: Path, protocol: str, mode: str) -> Iterator[int]:
    """The port of a collector that takes nothing."""
    if mode == "dead":
        yield unused_port()
    else:
        with receiving(folder, protocol, mode) as receiver:
            yield receiver.port


@pytest.mark.parametrize("protocol", ["http", pytest.param("grpc", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "mode",
    ["silent", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("dead", "refusing"))],
)
def test_a_collector_that_takes_nothing_costs_spans_and_no_messages(
    tmp_path: Path, protocol: str, mode: str, connect: Connect
) -> None:
    with other_side(tmp_path, protocol, mode) as port:
        flags = [*otlp(protocol, port), "--tracing-queue-spans", "1000"]
        with serving(tmp_path / "data", *flags) as node:
            api = connect(node)
            api.create("orders")
            for _ in range(MANY):
                api.publish("orders", *BATCH)
            # The queue has room for a thousand, and a few batches were tried and given up.
            assert counted(api, "dropped_total") > MANY * len(BATCH) // 2
            assert counted(api, "queued") <= 1000
            wait_until_counted(api, "dropped_total", MANY * len(BATCH))
            assert counted(api, "exported_total") == 0
            last = api.get("/topics/orders/partitions/0/messages", offset=MANY * len(BATCH) - 1)
            assert len(last["messages"]) == 1
            assert node.stop() == 0
        assert node.said.count("spans are dropped") == 1


def test_a_collector_that_comes_back_gets_what_is_new(tmp_path: Path, connect: Connect) -> None:
    port = unused_port()
    with serving(tmp_path / "data", *otlp("http", port)) as node:
        api = connect(node)
        api.create("orders")
        api.publish("orders", "lost")
        wait_until_counted(api, "dropped_total", 1)
        with receiving(tmp_path, port=port) as receiver:
            api.publish("orders", "new")
            wait_until_counted(api, "exported_total", 1)
            (span,) = receiver.spans()
            assert span.attributes["goqueue.message.offset"] == 1


def test_what_waits_is_sent_when_the_node_stops(tmp_path: Path, connect: Connect) -> None:
    with (
        receiving(tmp_path, "grpc") as receiver,
        serving(tmp_path / "data", *otlp("grpc", receiver.port)) as node,
    ):
        api = connect(node)
        api.create("orders")
        for _ in range(20):
            api.publish("orders", *BATCH)
        assert node.stop() == 0
        offsets = [span.attributes["goqueue.message.offset"] for span in receiver.spans()]
        assert offsets == list(range(20 * len(BATCH)))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_opentelemetrys_own_collector_takes_and_hands_on_what_we_send(
    tmp_path: Path, protocol: str, connect: Connect
) -> None:
    program = find_collector()
    if program is None:
        pytest.skip("otelcol, OpenTelemetry's collector, is neither on the path nor in build/")
    with (
        receiving(tmp_path) as receiver,
        collecting(program, tmp_path, receiver) as ports,
        serving(tmp_path / "data", *otlp(protocol, ports[protocol])) as node,
    ):
        api = connect(node)
        api.create("orders")
        (message,) = api.publish("orders", "a")
        wait_until_counted(api, "exported_total", 1)
        (span,) = receiver.spans()
        assert span.name == "send orders"
        assert span.attributes["goqueue.message.offset"] == message["offset"]
        assert counted(api, "dropped_total") == 0


def test_a_full_disk_under_the_span_file_costs_spans_and_no_messages(
    tmp_path: Path, connect: Connect
) -> None:
    with mounted(tmp_path / "disk", 256 * 1024) as disk:
        file = disk / "spans.jsonl"
        flags = ["--tracing-exporters", "file", "--tracing-file", str(file)]
        with serving(tmp_path / "data", *flags) as node:
            api = connect(node)
            api.create("orders")
            for _ in range(20):
                api.publish("orders", *BATCH)
            wait_until_counted(api, "dropped_total", 1, "file")
            wait_until_gone(api, 20 * len(BATCH), "file")
            lost = counted(api, "dropped_total", "file")
            file.unlink()
            api.publish("orders", "room again")
            assert node.stop() == 0
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert lines[-1]["offset"] == 20 * len(BATCH)
        assert lost > 0
        assert "No space left on device" in node.said


def test_a_removed_span_file_is_made_anew_and_a_restart_appends(
    tmp_path: Path, connect: Connect
) -> None:
    file = tmp_path / "data" / "traces" / "spans.jsonl"
    with serving(tmp_path / "data", "--tracing-exporters", "file") as node:
        api = connect(node)
        api.create("orders")
        api.publish("orders", "a")
        wait_until_counted(api, "exported_total", 1, "file")
        file.unlink()
        api.publish("orders", "b")
        wait_until_counted(api, "exported_total", 2, "file")
        node.kill()
        with file.open("ab") as torn:
            torn.write(b'{"trace_id":"46d7')
        node.start()
        api = connect(node)
        api.publish("orders", "c")
        assert node.stop() == 0
    b, torn_line, c = file.read_bytes().splitlines()
    assert json.loads(b)["offset"] == 1
    assert torn_line == b'{"trace_id":"46d7'
    assert json.loads(c)["offset"] == 2


def test_span_files_are_rotated_while_the_node_runs(tmp_path: Path, connect: Connect) -> None:
    folder = tmp_path / "data" / "traces"
    flags = ["--tracing-exporters", "file", "--tracing-file-bytes", "64KiB"]
    with serving(tmp_path / "data", *flags, "--tracing-file-count", "3") as node:
        api = connect(node)
        api.create("orders")
        for number in range(10):
            api.publish("orders", *BATCH)
            wait_until_counted(api, "exported_total", (number + 1) * len(BATCH), "file")
        assert node.stop() == 0
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3
    assert names[-1] == "spans.jsonl"
    offsets: list[int] = []
    for name in names:
        data = (folder / name).read_bytes()
        assert len(data) <= 64 * 1024
        lines = (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()
        offsets += [json.loads(line)["offset"] for line in lines]
    assert offsets == list(range(10 * len(BATCH) - len(offsets), 10 * len(BATCH)))


def test_a_standard_output_that_nobody_reads_holds_up_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "goqueue.cli", "serve", "--http", "127.0.0.1:0"]
    command += ["--data-dir", str(tmp_path / "data"), "--tracing-exporters", "stdout"]
    command += ["--tracing-queue-spans", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2].rstrip(",")
        api = Api(url)
        api.create("orders")
        for _ in range(40):
            api.publish("orders", *BATCH)
        wait_until_counted(api, "dropped_total", 1, "stdout")
        api.close()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


# Settings

_WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from goqueue.cli.program import main
main()
"""


def test_otlp_without_its_packages_is_refused_with_the_way_to_get_them(tmp_path: Path) -> None:
    arguments = ["serve", "--data-dir", str(tmp_path / "data"), "--tracing-exporters", "otlp"]
    arguments += ["--http", "nowhere", "--tracing-file-bytes", "1"]
    command = [sys.executable, "-c", _WITHOUT, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 2
    assert "pip install '.[otlp]'" in ran.stderr
    assert "--listeners-http" in ran.stderr
    assert "--tracing-file-bytes" in ran.stderr
    assert not (tmp_path / "data").exists()


def test_a_node_without_otlp_never_imports_opentelemetry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT, "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--http", "127.0.0.1:0", "--tracing-exporters", "file,stdout"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "listening on" in process.stdout.readline()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_variables_that_opentelemetry_refuses_are_told_at_the_start(tmp_path: Path) -> None:
    arguments = ["serve", "--data-dir", str(tmp_path / "data"), "--http", "127.0.0.1:0"]
    arguments += ["--tracing-exporters", "otlp", "--tracing-otlp-protocol", "grpc"]
    ran = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", *arguments],
        env={**os.environ, "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "zip"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 1
    assert "OTLP cannot be spoken" in ran.stderr
    assert "Traceback" not in ran.stderr
