"""Entries on their way from a node to its exporters."""

import asyncio
import json
from pathlib import Path

import pytest

from goqueue.broker import Node
from goqueue.metrics import expose
from goqueue.model import LOCAL, Message
from goqueue.model.requests import CreateTopic, Publish
from goqueue.records import build
from goqueue.runtime import Disk, OsFileSystem, Pump
from goqueue.runtime.exporters.exporters import ExporterGroup
from goqueue.runtime.settings import TracingSettings
from goqueue.tracing import TraceEntry
from tests.unit.runtime.exporters.trace_entries import entry
from tests.unit.runtime.settings.given_settings import read


def tracing(**flags: str) -> TracingSettings:
    return read({f"tracing.{name}": text for name, text in flags.items()}).tracing


async def publish(root: Path, node: Node, taken: list[list[TraceEntry]] | None) -> None:
    """Two messages through a real pump and disk."""

    def halt(reason: str) -> None:
        raise AssertionError(reason)

    pump = Pump(node, halt, None if taken is None else taken.append)
    disk = Disk(OsFileSystem(str(root)), pump.take_from_disk)
    disk.start()
    pump.start(disk)
    await pump.wait_until_serving()
    await pump.ask(CreateTopic(name="orders"), LOCAL)
    await pump.ask(
        Publish(topic="orders", batch=bytearray(build([Message(value=b"a")] * 2))), LOCAL
    )
    await pump.stop()
    await asyncio.to_thread(disk.close)


def test_the_pump_hands_over_what_was_noted_and_each_note_once(tmp_path: Path) -> None:
    taken: list[list[TraceEntry]] = []
    node = Node("node", bytes(32))
    asyncio.run(publish(tmp_path, node, taken))
    assert sum(len(each) for entries in taken for each in entries) == 2
    assert all(taken), "nobody is called for nothing"
    assert node.take_trace_entries() == []


@pytest.mark.parametrize("sampling", [0.0, 1.0])
def test_without_exporters_no_note_is_kept_for_them(tmp_path: Path, sampling: float) -> None:
    node = Node("node", bytes(32), sampling=sampling)
    asyncio.run(publish(tmp_path, node, None))
    assert node.take_trace_entries() == []


def test_with_a_sampling_of_nothing_exporters_get_nothing(tmp_path: Path) -> None:
    taken: list[list[TraceEntry]] = []
    asyncio.run(publish(tmp_path, Node("node", bytes(32), sampling=0.0), taken))
    assert taken == []


def test_every_exporter_gets_every_note_and_counts_for_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spans.jsonl"
    exporting = ExporterGroup(tracing(exporters="stdout,file", file=str(file)), "node-1")
    exporting.start()
    exporting.put([entry(3)])
    exporting.close()
    lines = file.read_text()
    assert [json.loads(line)["offset"] for line in lines.splitlines()] == [0, 1, 2]
    assert capfd.readouterr().out == lines
    text = b"".join(expose(exporting.metrics())).decode()
    assert 'goqueue_tracing_spans_exported_total{exporter="stdout"} 3\n' in text
    assert 'goqueue_tracing_spans_dropped_total{exporter="file"} 0\n' in text
    assert 'goqueue_tracing_spans_queued{exporter="file"} 0\n' in text


def test_without_exporters_there_is_nothing_to_do_and_nothing_to_show() -> None:
    exporting = ExporterGroup(tracing(), "node-1")
    assert not exporting
    exporting.start()
    exporting.close()
    assert list(exporting.metrics()) == []
