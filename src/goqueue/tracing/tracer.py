"""The last notes, as many as hold so many spans.

Invariant: what is kept are the newest spans, at most `capacity` of them, however they are bundled.

The tracer: takes notes, keeps the last of them, and answers what became of a message.

Whether a trace is followed follows from its id alone, so every hop and every node decides alike.
Notes are handed on to exporters only if somebody wants them.

Cost: one object per note; a pass over its contexts only if some traces are not followed, or some
messages carry contexts of their own.
"""

from collections import deque
from collections.abc import Generator, Iterator
from typing import TypeVar

import msgspec

from goqueue.model.requests import TraceStatus, TracingStatistics
from goqueue.records.tracing import CONTEXT_BYTES, GIVEN_BYTES, choose
from goqueue.tracing.note import Kind, Note
from goqueue.tracing.span import TRACE_BYTES, Trace, due_of, spans_of, trace_of
from goqueue.tracing.trace_status import Fate, Step

__all__ = ["SPANS_MAX", "Ring", "Search", "Tracer"]


class Ring:
    """Notes in the order in which they were made; of the oldest perhaps only its last messages."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._notes: deque[Note] = deque()
        self._count = 0
        # How many messages of the oldest note are gone already.
        self._gone = 0

    def __len__(self) -> int:
        """How many spans are kept."""
        return self._count

    def add(self, note: Note) -> None:
        self._notes.append(note)
        self._count += len(note)
        while self._count > self.capacity:
            left = len(self._notes[0]) - self._gone
            excess = self._count - self.capacity
            if excess < left:
                self._gone += excess
                self._count -= excess
            else:
                self._notes.popleft()
                self._gone = 0
                self._count -= left

    def __iter__(self) -> Iterator[tuple[Note, range]]:
        """Each note with the indexes of it that are kept, oldest first.

        Those that are kept when it begins: what is added since is not looked at.
        """
        notes, gone = tuple(self._notes), self._gone
        for note in notes:
            yield note, range(gone, len(note))
            gone = 0


SPANS_MAX = 10_000
_ALL = 1 << 64
_SAMPLED = 1

# Spans that are sorted by their trace in a step: as much work as a note in other places.
_STEP_SPANS = 10

Outcome = TypeVar("Outcome")
# Work in small steps, each of which yields how many units it did.
Steps = Generator[int, None, Outcome]

# Notes, each with the index of one of its messages.
_Places = list[tuple[Note, int]]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which traces are wanted: those with a span that is like this, and of this status.

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

    def fits(self, note: Note) -> bool:
        """Whether a span of this note could be wanted."""
        place = note.place
        return (
            self.topic in (None, place.topic)
            and self.partition in (None, place.partition)
            and self.group in (None, note.group)
            and self.member in (None, note.member)
            and (self.start is None or note.until >= self.start)
            and (self.end is None or note.at <= self.end)
        )

    def picks(self, note: Note, index: int) -> bool:
        """Whether a span of a note that fits is wanted."""
        if self.key is not None and (note.keys is None or note.keys[index] != self.key):
            return False
        if self.offset is None:
            return True
        # What happens to a group has a generation in the place of an offset.
        return note.offsets[index] == self.offset and note.kind is not Kind.REBALANCE


class Tracer:
    """Notes what happens to messages."""

    def __init__(self, sampling: float = 1.0, capacity: int = SPANS_MAX) -> None:
        self._sampling = sampling
        self.threshold = round(sampling * _ALL)
        self._ring = Ring(capacity)
        self._exported: list[Note] | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is noted at all."""
        return self.threshold > 0

    @property
    def is_all(self) -> bool:
        """Whether every trace is followed that nobody decided against."""
        return self.threshold >= _ALL

    def follows(self, context: bytes) -> bool:
        """Whether a trace that nobody else decided about is followed."""
        return int.from_bytes(context[8:TRACE_BYTES]) < self.threshold

    def export(self) -> None:
        """From now on somebody takes what is noted."""
        self._exported = []

    def take(self) -> list[Note]:
        """What was noted since the last time."""
        taken = self._exported
        if not taken:
            return []
        self._exported = []
        return taken

    def add(self, note: Note) -> None:
        """Note what happened, as far as its traces are followed."""
        if not len(note) or not self.threshold:
            return
        if note.given or self.threshold < _ALL:
            chosen = self._followed(note)
            if not chosen:
                return
            if len(chosen) < len(note):
                note = note.only(chosen)
        self._ring.add(note)
        if self._exported is not None:
            self._exported.append(note)

    def _followed(self, note: Note) -> list[int]:
        if self.threshold < _ALL:
            chosen = choose(note.contexts(), self.threshold)
        else:
            chosen = list(range(len(note)))
        given = note.given
        if given:
            # Whoever began the trace may have decided against it.
            chosen = [index for index in chosen if _is_sampled(given.get(index, b""))]
        return chosen

    # Asking

    def find(self, trace: bytes) -> Trace | None:
        """What is kept of one trace."""
        found: _Places = []
        for note, kept in self._ring:
            contexts = note.contexts()
            found += [(note, index) for index in _places(contexts, trace) if index in kept]
        return _gather(found) if found else None

    def search(self, search: Search, limit: int) -> tuple[list[Trace], int]:
        """The newest traces that are wanted, and how many are."""
        return _finished(self.search_steps(search, limit))

    def search_steps(self, search: Search, limit: int) -> Steps[tuple[list[Trace], int]]:
        """The same in steps, each of which says how much it did."""
        by_trace = yield from self._by_trace()
        newest: list[_Places] = []
        # By their first span that is kept.
        for places in reversed(by_trace.values()):
            is_wanted = any(search.fits(note) and search.picks(note, at) for note, at in places)
            if is_wanted and (search.status is None or search.status is _status(places)):
                newest.append(places)
            yield len(places)
        found: list[Trace] = []
        for places in newest[:limit]:
            found.append(_gather(places))
            yield len(places)
        return found, len(newest)

    def _by_trace(self) -> Steps[dict[bytes, _Places]]:
        """Where the spans of each trace are, in the order in which they were noted."""
        found: dict[bytes, _Places] = {}
        for note, kept in self._ring:
            contexts = note.contexts()
            for first in range(kept.start, kept.stop, _STEP_SPANS):
                for index in range(first, min(first + _STEP_SPANS, kept.stop)):
                    start = index * CONTEXT_BYTES
                    trace = contexts[start : start + TRACE_BYTES]
                    places = found.get(trace)
                    if places is None:
                        found[trace] = [(note, index)]
                    else:
                        places.append((note, index))
                yield 1
        return found

    def statistics(self) -> TracingStatistics:
        """Counts over all that is kept."""
        return _finished(self.statistics_steps())

    def statistics_steps(self) -> Steps[TracingStatistics]:
        """The same in steps, each of which says how much it did."""
        counts = dict.fromkeys(TraceStatus, 0)
        latency_ns = 0
        by_trace = yield from self._by_trace()
        for places in by_trace.values():
            status = _status(places)
            counts[status] += 1
            if status is TraceStatus.COMPLETED:
                begin = min(note.at for note, _ in places)
                latency_ns += max(note.until for note, _ in places) - begin
            yield len(places)
        return TracingStatistics(
            completed=counts[TraceStatus.COMPLETED],
            errors=counts[TraceStatus.ERROR],
            pending=counts[TraceStatus.PENDING],
            average_ns=latency_ns // max(1, counts[TraceStatus.COMPLETED]),
            sampling=self._sampling,
            spans=len(self._ring),
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
    return len(given) != GIVEN_BYTES or bool(given[-1] & _SAMPLED)


def _places(contexts: bytes, trace: bytes) -> Iterator[int]:
    """Where among the contexts a trace is."""
    at = contexts.find(trace)
    while at >= 0:
        if at % CONTEXT_BYTES == 0:
            yield at // CONTEXT_BYTES
        at = contexts.find(trace, at + 1)


def _status(places: _Places) -> TraceStatus:
    fate = Fate()
    # A publication to several partitions is noted when all have it: by then one may be read.
    for note, index in sorted(places, key=_moment):
        offset = note.offsets[index]
        is_delayed = note.waiting is not None and due_of(note, offset) is not None
        fate.take(Step(note.kind, note.group, note.place, offset, is_delayed))
    return fate.status


def _gather(places: _Places) -> Trace:
    spans = [span for note, index in places for span in spans_of(note, (index,))]
    return trace_of(spans, _status(places))


def _moment(place: tuple[Note, int]) -> tuple[int, bool]:
    note, _ = place
    return note.at, note.kind is not Kind.PUBLISH
