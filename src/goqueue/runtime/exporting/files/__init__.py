"""Files of spans: the one that is written to, and the shelf of those that are full."""

from goqueue.runtime.exporting.files.sink import FileSink

__all__ = ["FileSink"]
