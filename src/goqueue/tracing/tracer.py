"""The tracer: samples and records entries, keeps the newest, and answers trace queries.

Sampling depends on the trace id alone, so every hop and every node decides alike. Exporters
receive entries only after `export`.

Invariant: the ring holds the newest spans, at most `capacity`, however entries group them.

Cost: one object per entry; a pass over its contexts only if some traces are not sampled, or some
messages carry their own contexts.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import msgspec

from goqueue.model.requests import TraceStatus, TracingStatistics
from goqueue.records import CONTEXT_BYTES, GIVEN_CONTEXT_BYTES, sampled_indexes
from goqueue.tracing.span import TRACE_BYTES, Trace, due_of, spans_of, trace_of
from goqueue.tracing.trace_entry import Kind, TraceEntry
from goqueue.tracing.trace_status import Fate, Step

__all__ = ["SPANS_MAX", "Ring", "Search", "Tracer"]


class Ring:
    """Entries in the order of recording; of the oldest perhaps only its last messages."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: deque[TraceEntry] = deque()
        self._count = 0
        # How many messages of the oldest entry were evicted.
        self._gone = 0

    def __len__(self) -> int:
        """The number of spans in the ring."""
        return self._count

    def add(self, entry: TraceEntry) -> None:
        self._entries.append(entry)
        self._count += len(entry)
        while self._count > self.capacity:
            left = len(self._entries[0]) - self._gone
            excess = self._count - self.capacity
            if excess < left:
                self._gone += excess
                self._count -= excess
            else:
                self._entries.popleft()
                self._gone = 0
                self._count -= left

    def __iter__(self) -> Iterator[tuple[TraceEntry, range]]:
        """Each entry with the range of its indexes in the ring, oldest first.

        Covers what is in the ring at the start; later entries are not visited.
        """
        entries, gone = tuple(self._entries), self._gone
        for entry in entries:
            yield entry, range(gone, len(entry))
            gone = 0


SPANS_MAX = 10_000
_ALL = 1 << 64
_SAMPLED = 1

# Spans grouped by trace in one step: as much work as one entry elsewhere.
_STEP_SPANS = 10

Outcome = TypeVar("Outcome")
# Work in small steps; each yields the units it did.
Steps = Generator[int, None, Outcome]

# Entries, each with the index of one of its messages.
_Places = list[tuple[TraceEntry, int]]


# Tells on which topics spans may be seen; None: on all of them.
TopicFilter = Callable[[str], bool] | None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """A query: traces with a matching span and this status.

    Times are inclusive; `key` is a fingerprint.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: int | None = None
    group: str | None = None
    member: str | None = None
    start: int | None = None
    end: int | None = None
    status: TraceStatus | None = None

    def fits(self, entry: TraceEntry) -> bool:
        """Whether a span of this entry can match."""
        place = entry.place
        return (
            self.topic in (None, place.topic)
            and self.partition in (None, place.partition)
            and self.group in (None, entry.group)
            and self.member in (None, entry.member)
            and (self.start is None or entry.until >= self.start)
            and (self.end is None or entry.at <= self.end)
        )

    def picks(self, entry: TraceEntry, index: int) -> bool:
        """Whether this span of a fitting entry matches."""
        if self.key is not None and (entry.keys is None or entry.keys[index] != self.key):
            return False
        if self.offset is None:
            return True
        # For a group the offset is its generation.
        return entry.offsets[index] == self.offset and entry.kind is not Kind.REBALANCE


class Tracer:
    """Records what happens to messages."""

    def __init__(self, sampling: float = 1.0, capacity: int = SPANS_MAX) -> None:
        self._sampling = sampling
        self.threshold = round(sampling * _ALL)
        self._ring = Ring(capacity)
        self._exported: list[TraceEntry] | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded at all."""
        return self.threshold > 0

    @property
    def is_all(self) -> bool:
        """Whether every trace is recorded, unless its sender turned it off."""
        return self.threshold >= _ALL

    def follows(self, context: bytes) -> bool:
        """Whether a trace without a decision of its sender is recorded."""
        return int.from_bytes(context[8:TRACE_BYTES]) < self.threshold

    def export(self) -> None:
        """Keep entries for an exporter from now on."""
        self._exported = []

    def take(self) -> list[TraceEntry]:
        """The entries since the last call."""
        taken = self._exported
        if not taken:
            return []
        self._exported = []
        return taken

    def add(self, entry: TraceEntry) -> None:
        """Record what happened to messages of sampled traces."""
        if not len(entry) or not self.threshold:
            return
        if entry.given or self.threshold < _ALL:
            chosen = self._followed(entry)
            if not chosen:
                return
            if len(chosen) < len(entry):
                entry = entry.only(chosen)
        self._ring.add(entry)
        if self._exported is not None:
            self._exported.append(entry)

    def _followed(self, entry: TraceEntry) -> list[int]:
        if self.threshold < _ALL:
            chosen = sampled_indexes(entry.contexts(), self.threshold)
        else:
            chosen = list(range(len(entry)))
        given = entry.given
        if given:
            # The sender may have turned its trace off.
            chosen = [index for index in chosen if _is_sampled(given.get(index, b""))]
        return chosen

    # Queries

    def find(self, trace: bytes, sees: TopicFilter = None) -> Trace | None:
        """The known spans of one trace, on topics that may be seen."""
        found: _Places = []
        for entry, kept in self._ring:
            if sees is not None and not sees(entry.place.topic):
                continue
            contexts = entry.contexts()
            found += [(entry, index) for index in _places(contexts, trace) if index in kept]
        return _gather(found) if found else None

    def search(self, search: Search, limit: int) -> tuple[list[Trace], int]:
        """The newest matching traces, and how many match."""
        return _finished(self.search_steps(search, limit))

    def search_steps(
        self, search: Search, limit: int, sees: TopicFilter = None
    ) -> Steps[tuple[list[Trace], int]]:
        """The same in steps; each yields the units it did."""
        by_trace = yield from self._by_trace(sees)
        newest: list[_Places] = []
        # By their first known span.
        for places in reversed(by_trace.values()):
            is_wanted = any(search.fits(entry) and search.picks(entry, at) for entry, at in places)
            if is_wanted and (search.status is None or search.status is _status(places)):
                newest.append(places)
            yield len(places)
        found: list[Trace] = []
        for places in newest[:limit]:
            found.append(_gather(places))
            yield len(places)
        return found, len(newest)

    def _by_trace(self, sees: TopicFilter) -> Steps[dict[bytes, _Places]]:
        """The locations of the spans of each trace, in the order of recording.

        Who may not see a topic sees no span on it, also where a caller chose the id of the trace.
        """
        found: dict[bytes, _Places] = {}
        for entry, kept in self._ring:
            if sees is not None and not sees(entry.place.topic):
                yield 1
                continue
            contexts = entry.contexts()
            for first in range(kept.start, kept.stop, _STEP_SPANS):
                for index in range(first, min(first + _STEP_SPANS, kept.stop)):
                    start = index * CONTEXT_BYTES
                    trace = contexts[start : start + TRACE_BYTES]
                    places = found.get(trace)
                    if places is None:
                        found[trace] = [(entry, index)]
                    else:
                        places.append((entry, index))
                yield 1
        return found

    def statistics(self) -> TracingStatistics:
        """Counts over the whole ring."""
        return _finished(self.statistics_steps())

    def statistics_steps(self, sees: TopicFilter = None) -> Steps[TracingStatistics]:
        """The same in steps; each yields the units it did."""
        counts = dict.fromkeys(TraceStatus, 0)
        latency_ns = 0
        by_trace = yield from self._by_trace(sees)
        for places in by_trace.values():
            status = _status(places)
            counts[status] += 1
            if status is TraceStatus.COMPLETED:
                begin = min(entry.at for entry, _ in places)
                latency_ns += max(entry.until for entry, _ in places) - begin
            yield len(places)
        return TracingStatistics(
            completed=counts[TraceStatus.COMPLETED],
            errors=counts[TraceStatus.ERROR],
            pending=counts[TraceStatus.PENDING],
            average_ns=latency_ns // max(1, counts[TraceStatus.COMPLETED]),
            sampling=self._sampling,
            spans=len(self._ring) if sees is None else sum(map(len, by_trace.values())),
            capacity=self._ring.capacity,
        )


def _finished(steps: Steps[Outcome]) -> Outcome:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome


def _is_sampled(given: bytes) -> bool:
    return len(given) != GIVEN_CONTEXT_BYTES or bool(given[-1] & _SAMPLED)


def _places(contexts: bytes, trace: bytes) -> Iterator[int]:
    """The indexes of a trace among the contexts."""
    at = contexts.find(trace)
    while at >= 0:
        if at % CONTEXT_BYTES == 0:
            yield at // CONTEXT_BYTES
        at = contexts.find(trace, at + 1)


def _status(places: _Places) -> TraceStatus:
    fate = Fate()
    # A publication to several partitions is recorded when all have it; one may be read by then.
    for entry, index in sorted(places, key=_moment):
        offset = entry.offsets[index]
        is_delayed = entry.waiting is not None and due_of(entry, offset) is not None
        fate.take(Step(entry.kind, entry.group, entry.place, offset, is_delayed))
    return fate.status


def _gather(places: _Places) -> Trace:
    spans = [span for entry, index in places for span in spans_of(entry, (index,))]
    return trace_of(spans, _status(places))


def _moment(place: tuple[TraceEntry, int]) -> tuple[int, bool]:
    entry, _ = place
    return entry.at, entry.kind is not Kind.PUBLISH
