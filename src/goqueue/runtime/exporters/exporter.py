"""One span exporter: a bounded queue of entries, and a thread that ships their spans.

The node only puts entries on the queue, which takes no lock and wakes no thread: producer and
consumer each write their own counter and read the other's. The thread builds spans and ships them;
what cannot be shipped is dropped and counted. Each cause of a failure is logged at most once a
minute.

The thread and the event loop share one interpreter. So the thread works in short slices and rests
three times as long after each: under load the node gets three quarters of the time, and spans that
an exporter cannot ship within its quarter are dropped.

Invariant: at most `capacity` spans wait. Of an entry that does not fit, the first
messages are kept.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from goqueue.tracing import Span, TraceEntry, spans_of

__all__ = ["Complaints", "Exporter", "ExporterUnusable", "NotShipped", "Sink", "SpanQueue"]


class SpanQueue:
    """Entries waiting for one exporter, oldest first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: deque[tuple[TraceEntry, range]] = deque()
        self._put = 0
        self._taken = 0

    def __len__(self) -> int:
        """The number of waiting spans."""
        return self._put - self._taken

    def put(self, entry: TraceEntry) -> int:
        """Add as much of an entry as fits; the number of spans that did not."""
        count = len(entry)
        fitting = min(count, self._capacity - len(self))
        if fitting > 0:
            # Counted first: the consumer must never have taken more than was put.
            self._put += fitting
            self._entries.append((entry, range(fitting)))
        return count - max(fitting, 0)

    def take(self, limit: int) -> list[tuple[TraceEntry, range]]:
        """The oldest entries with the indexes of their messages, at most `limit` in total."""
        taken: list[tuple[TraceEntry, range]] = []
        while limit and self._entries:
            entry, indexes = self._entries.popleft()
            if len(indexes) > limit:
                self._entries.appendleft((entry, indexes[limit:]))
                indexes = indexes[:limit]
            limit -= len(indexes)
            self._taken += len(indexes)
            taken.append((entry, indexes))
        return taken


_logger = logging.getLogger(__name__)

_EVERY_NS = 60_000_000_000


class Complaints:
    """Logs failures. Causes are from a fixed list, so the memory is bounded."""

    def __init__(
        self,
        tell: Callable[[str], None] = _logger.warning,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._told: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def add(self, cause: str, words: str) -> None:
        """Log a failure, unless the same cause was logged within the last minute."""
        now = self._clock()
        told = self._told.get(cause)
        if told is not None and now - told < _EVERY_NS:
            self._kept[cause] = self._kept.get(cause, 0) + 1
            return
        self._told[cause] = now
        kept = self._kept.pop(cause, 0)
        self._tell(f"{words} (and {kept} times more since it was last told)" if kept else words)


T = TypeVar("T")

_PAUSE_S = 0.2
_SLICE = 16
# The rest after a slice, as a multiple of its working time.
_REST = 3
_FLUSH_S = 3.0
_ABORT_S = 1.0


class ExporterUnusable(Exception):
    """Why a configured exporter cannot be used; the message is for the operator."""


class NotShipped(Exception):
    """Spans could not be shipped; the message is for the operator."""

    def __init__(self, words: str, *, cause: str = "") -> None:
        super().__init__(words)
        self.cause = cause or words


class Sink(Protocol[T]):
    """A target of spans. Every method except `abort` is called by the exporter's thread."""

    @property
    def name(self) -> str: ...

    @property
    def batch_spans(self) -> int:
        """The maximum number of spans per call of `ship`."""
        ...

    def encode(self, span: Span) -> T:
        """A span in the format of this sink."""
        ...

    def ship(self, encoded: Sequence[T]) -> None:
        """Ship spans; raises NotShipped if some of them were not."""
        ...

    def tidy(self) -> bool:
        """Do a small piece of deferred work; whether there is more."""
        ...

    def abort(self) -> None:
        """Interrupt a waiting `ship`, if possible; called by another thread."""
        ...

    def close(self) -> None: ...


class Exporter(Generic[T]):
    """Ships spans to one sink in its own thread."""

    def __init__(self, sink: Sink[T], queue_spans: int) -> None:
        self._sink = sink
        self._queue = SpanQueue(queue_spans)
        self._wake_at = queue_spans // 2
        self._complaints = Complaints()
        self._wake = threading.Event()
        self._deadline: float | None = None
        # Each is written by one thread: the producer, and the exporter's own.
        self._overflowed = 0
        self._lost = 0
        self._exported = 0
        self._abandoned = 0
        self._thread = threading.Thread(
            target=self._run, name=f"goqueue-export-{sink.name}", daemon=True
        )

    @property
    def name(self) -> str:
        return self._sink.name

    @property
    def exported(self) -> int:
        """The number of shipped spans."""
        return self._exported

    @property
    def dropped(self) -> int:
        """The number of dropped spans: the queue was full, or they could not be shipped."""
        return self._overflowed + self._lost + self._abandoned

    @property
    def waiting(self) -> int:
        """Spans that wait to be shipped."""
        return len(self._queue)

    def put(self, entries: Sequence[TraceEntry]) -> None:
        """Queue entries as far as there is room; never waits."""
        queue = self._queue
        for entry in entries:
            self._overflowed += queue.put(entry)
        if len(queue) > self._wake_at:
            self._wake.set()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ship waiting spans for a few seconds at most; the rest is dropped."""
        self._deadline = time.monotonic() + _FLUSH_S
        self._wake.set()
        self._thread.join(_FLUSH_S)
        if self._thread.is_alive():
            self._sink.abort()
            self._thread.join(_ABORT_S)
        self._abandoned = self.waiting
        if self._abandoned:
            _logger.warning("%s: %d spans were not exported", self.name, self._abandoned)

    # The thread

    def _run(self) -> None:
        while self._deadline is None:
            self._wake.wait(_PAUSE_S)
            self._wake.clear()
            self._drain()
        self._drain()
        self._sink.close()

    def _drain(self) -> None:
        """Ship all waiting spans, with deferred work in between."""
        has_more = True
        while has_more and not self._is_late():
            batch = self._queue.take(self._sink.batch_spans)
            if batch:
                self._ship(batch)
            # Also if more is waiting: one piece per batch keeps up with what is written.
            is_untidy = self._tidy()
            has_more = bool(batch) or (is_untidy and self._deadline is None)

    def _tidy(self) -> bool:
        try:
            return self._sink.tidy()
        except NotShipped as failure:
            self._complaints.add(failure.cause, f"{self.name}: {failure}")
            return False

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _ship(self, batch: list[tuple[TraceEntry, range]]) -> None:
        count = sum(len(indexes) for _, indexes in batch)
        try:
            encoded = self._encoded(batch)
            began = time.thread_time()
            self._sink.ship(encoded)
            self._rest(began)
        except NotShipped as failure:
            self._lost += count
            words = f"{self.name}: spans are dropped: {failure}"
            self._complaints.add(failure.cause, words)
        except Exception as bug:  # noqa: BLE001 - no bug in here may keep later spans from leaving
            self._lost += count
            words = f"{self.name}: spans are dropped because of a bug: {bug!r}"
            self._complaints.add(type(bug).__name__, words)
        else:
            self._exported += count

    def _encoded(self, batch: list[tuple[TraceEntry, range]]) -> list[T]:
        encode = self._sink.encode
        encoded: list[T] = []
        for entry, indexes in batch:
            for at in range(0, len(indexes), _SLICE):
                began = time.thread_time()
                encoded += map(encode, spans_of(entry, indexes[at : at + _SLICE]))
                self._rest(began)
        return encoded

    def _rest(self, began: float) -> None:
        """Yield the interpreter, except during the close."""
        if self._deadline is None:
            time.sleep(max(0.0, time.thread_time() - began) * _REST)
