"""Spans as lines on standard output."""

import os
from collections.abc import Sequence

from goqueue.runtime.exporting.exporter import NotShipped
from goqueue.runtime.exporting.lines import encode_line
from goqueue.tracing import Span

__all__ = ["StreamSink"]

_BATCH_SPANS = 512


class StreamSink:
    """Writes lines to a descriptor that is somebody else's; a reader that is slow is waited for."""

    name = "stdout"
    batch_spans = _BATCH_SPANS

    def __init__(self, descriptor: int, node_id: str) -> None:
        self._descriptor = descriptor
        self._node_id = node_id

    def encode(self, span: Span) -> bytes:
        return encode_line(span, self._node_id)

    def ship(self, encoded: Sequence[bytes]) -> None:
        left = memoryview(b"".join(encoded))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            words = f"standard output cannot be written to: {error.strerror}"
            raise NotShipped(words) from error

    @staticmethod
    def tidy() -> bool:
        return False

    def abort(self) -> None:
        """Whoever waits for a reader waits for it alone."""

    def close(self) -> None:
        """The stream is not ours to close."""
