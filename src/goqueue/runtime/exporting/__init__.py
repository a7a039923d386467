"""Spans that leave the node: to files, to standard output, to a collector.

Nothing in here ever holds up the node: what cannot be taken at once is dropped and counted.
"""

from goqueue.runtime.exporting.exporter import Exporter, ExporterUnusable, NotShipped, Sink
from goqueue.runtime.exporting.exporting import Exporting
from goqueue.runtime.exporting.files import FileSink
from goqueue.runtime.exporting.lines import SpanEvent, SpanLine, encode_line
from goqueue.runtime.exporting.stream import StreamSink

__all__ = [
    "Exporter",
    "ExporterUnusable",
    "Exporting",
    "FileSink",
    "NotShipped",
    "Sink",
    "SpanEvent",
    "SpanLine",
    "StreamSink",
    "encode_line",
]
