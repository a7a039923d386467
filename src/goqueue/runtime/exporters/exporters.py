"""All exporters of a node, created from its settings."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from goqueue.metrics import Family, Kind, Sample
from goqueue.runtime.exporters.exporter import Exporter, Sink
from goqueue.runtime.exporters.span_files import FileSink
from goqueue.runtime.exporters.span_lines import StreamSink
from goqueue.runtime.settings import TracingSettings
from goqueue.tracing import TraceEntry

__all__ = ["ExporterGroup"]

_LABELS = ("exporter",)
_FAMILIES: tuple[tuple[str, Kind, str, Callable[[Exporter[Any]], int]], ...] = (
    (
        "goqueue_tracing_spans_exported_total",
        Kind.COUNTER,
        "Spans that an exporter has handed over.",
        lambda exporter: exporter.exported,
    ),
    (
        "goqueue_tracing_spans_dropped_total",
        Kind.COUNTER,
        "Spans that were lost: the queue was full, or they could not be handed over.",
        lambda exporter: exporter.dropped,
    ),
    (
        "goqueue_tracing_spans_queued",
        Kind.GAUGE,
        "Spans that wait to be exported.",
        lambda exporter: exporter.waiting,
    ),
)


class ExporterGroup:
    """Passes the entries of a node to every configured exporter; raises ExporterUnusable.

    `put` is called on the event loop and never waits.
    """

    def __init__(self, settings: TracingSettings, node_id: str) -> None:
        self._exporters: list[Exporter[Any]] = [
            Exporter(_sink(name, settings, node_id), settings.queue_spans)
            for name in settings.exporters
        ]

    def __bool__(self) -> bool:
        """Whether there is any exporter."""
        return bool(self._exporters)

    def start(self) -> None:
        for exporter in self._exporters:
            exporter.start()

    def put(self, entries: Sequence[TraceEntry]) -> None:
        for exporter in self._exporters:
            exporter.put(entries)

    def close(self) -> None:
        """Ship waiting spans, all exporters in parallel, for a few seconds at most."""
        if self._exporters:
            with ThreadPoolExecutor(len(self._exporters)) as closing:
                list(closing.map(lambda exporter: exporter.close(), self._exporters))

    def metrics(self) -> Iterator[Family]:
        """Counts of exported, dropped and waiting spans; none without an exporter."""
        if not self._exporters:
            return
        for name, kind, meaning, count in _FAMILIES:
            samples: list[Sample] = [((each.name,), count(each)) for each in self._exporters]
            yield Family(name=name, kind=kind, meaning=meaning, labels=_LABELS, samples=samples)


def _sink(name: str, settings: TracingSettings, node_id: str) -> Sink[Any]:
    match name:
        case "file":
            return FileSink(settings.file, settings.file_bytes, settings.file_count, node_id)
        case "stdout":
            return StreamSink(sys.stdout.fileno(), node_id)
        case _:
            # OpenTelemetry is slow to import and optional.
            from goqueue.runtime.exporters.otlp import open_collector

            return open_collector(settings.otlp_protocol, settings.otlp_endpoint, node_id)
