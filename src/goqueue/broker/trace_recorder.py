"""Records trace entries for the components of a node, at the points where they act.

Owns how publishes, deliveries, acks and moves become trace entries. Decides nothing, and nothing
waits for it: with tracing off every call returns at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec

from goqueue.broker.catalog import Catalog, Topic
from goqueue.broker.turns import Steps
from goqueue.delivery import LeasePart
from goqueue.groups import Group
from goqueue.model import TRACEPARENT_HEADER, Header, LogId, Now, Offset, TransactionKey
from goqueue.model.requests import Published, TraceSeed
from goqueue.records import (
    GIVEN_CONTEXT_BYTES,
    DelayedRecords,
    TraceScan,
    derive_contexts,
    find_trace_contexts,
    scan_sampled,
    scan_traces,
)
from goqueue.tracing import TRACE_BYTES, UNWRITTEN, Kind, Place, TraceEntry, Tracer, place_of

__all__ = ["PublishTrace", "TraceRecorder", "trace_header"]

# The partition of what was never written.
_NOWHERE = -1
# Publications of open transactions that are kept in mind; how further ones end is not told.
_OPEN_MAX = 100_000

_context_of = attrgetter("trace_context")


class PublishTrace(msgspec.Struct, frozen=True):
    """What is to be told of a publication when it is committed, by partition."""

    topic: Topic
    at: int
    parts: dict[int, tuple[TraceScan, DelayedRecords | None]]


class TraceRecorder:
    """Records the traces of messages."""

    def __init__(self, catalog: Catalog, tracer: Tracer) -> None:
        self.tracer = tracer
        self.is_on = tracer.is_on
        self._catalog = catalog
        self._places: dict[LogId, tuple[int, Place]] = {}
        self._refused = 0
        # What open transactions have published, by their key and the log.
        self._open: dict[TransactionKey, dict[LogId, list[TraceEntry]]] = {}
        self._open_count = 0

    def place(self, log: LogId) -> Place | None:
        """The place of a partition; None if its topic is gone."""
        topic = self._catalog.get(log.topic)
        return None if topic is None else self._place(topic, log)

    def _place(self, topic: Topic, log: LogId) -> Place:
        known = self._places.get(log)
        if known is None or known[0] != topic.number:
            life = f"{topic.number} {topic.stated.created_at}"
            place = place_of(log.topic, log.partition, life)
            known = self._places[log] = (topic.number, place)
        return known[1]

    def seed(self, log: LogId) -> TraceSeed | None:
        """From what the traces of a partition follow; None if none is followed."""
        place = self.place(log) if self.is_on else None
        return None if place is None else TraceSeed(place.high, place.low, self.tracer.threshold)

    def forget(self, name: str, logs: Iterable[LogId]) -> None:
        """A topic is gone."""
        for log in (*logs, LogId(name, _NOWHERE)):
            self._places.pop(log, None)
        places = [(key, log) for key, by_log in self._open.items() for log in by_log]
        for key, log in places:
            if log.topic == name:
                self._take_open(key, log)

    # Publishing

    def start(self, topic: Topic, now: Now) -> PublishTrace | None:
        """Begin the trace of a publication."""
        return PublishTrace(topic, now.wall, {}) if self.is_on else None

    def add_part(
        self,
        trace: PublishTrace,
        log: LogId,
        batch: bytearray,
        first: Offset,
        waiting: DelayedRecords | None,
    ) -> None:
        """A batch is on its way to a partition, where it begins at `first`."""
        if self.tracer.is_all:
            told: TraceScan | None = scan_traces(batch)
        else:
            place = self._place(trace.topic, log)
            told = scan_sampled(batch, (place.high, place.low), first, self.tracer.threshold)
        if told is not None:
            trace.parts[log.partition] = (told, waiting)

    def published(
        self,
        trace: PublishTrace,
        published: Published,
        now: Now,
        transaction: TransactionKey | None = None,
    ) -> Steps:
        """The publication has ended: record what is in the log, a partition at a step."""
        for placed in published.placed:
            yield 1
            if placed.refused is not None or placed.is_duplicate or not placed.count:
                continue
            part = trace.parts.get(placed.partition)
            if part is None:
                continue
            told, waiting = part
            offsets: Sequence[int] = range(placed.first, placed.first + placed.count)
            if told.indexes is not None:
                offsets = [placed.first + index for index in told.indexes]
            log = LogId(trace.topic.name, placed.partition)
            entry = TraceEntry(
                Kind.PUBLISH,
                self._place(trace.topic, log),
                offsets,
                trace.at,
                now.wall,
                given=told.contexts,
                keys=told.keys,
                waiting=waiting,
            )
            self.tracer.add(entry)
            if transaction is not None and self._open_count < _OPEN_MAX:
                self._open.setdefault(transaction, {}).setdefault(log, []).append(entry)
                self._open_count += 1

    def ended(self, key: TransactionKey, log: LogId, now: Now, *, is_commit: bool) -> None:
        """Readers of a log see the end of a transaction: what was aborted comes to nobody."""
        for entry in self._take_open(key, log) if self._open else ():
            if not is_commit:
                at = now.wall
                aborted = TraceEntry(
                    Kind.ABORT, entry.place, entry.offsets, at, at, given=entry.given
                )
                self.tracer.add(aborted)

    def _take_open(self, key: TransactionKey, log: LogId) -> list[TraceEntry]:
        by_log = self._open.get(key)
        entries = [] if by_log is None else by_log.pop(log, [])
        self._open_count -= len(entries)
        if by_log is not None and not by_log:
            del self._open[key]
        return entries

    def refused(
        self,
        topic: Topic,
        batch: bytes | bytearray | memoryview,
        codes: Mapping[int, str],
        now: Now,
    ) -> None:
        """Messages of a batch were refused, each for a reason of its own."""
        if not self.is_on:
            return
        contexts = scan_traces(batch).contexts
        place = self._place(topic, LogId(topic.name, _NOWHERE))
        for index, code in codes.items():
            # By the time, so that no two are alike, also in another life of the node.
            self._refused = max(self._refused + 1, now.wall)
            given = contexts.get(index)
            self.tracer.add(
                TraceEntry(
                    Kind.REFUSE,
                    place,
                    (UNWRITTEN + self._refused,),
                    now.wall,
                    now.wall,
                    given={} if given is None else {0: given},
                    detail=code,
                )
            )

    # Deliveries

    def leased(
        self,
        kind: Kind,
        group: Group,
        log: LogId,
        parts: Iterable[LeasePart],
        now: Now,
        *,
        detail: str = "",
    ) -> None:
        """Something happened to deliveries of one partition to one group."""
        place = self.place(log) if self.is_on else None
        if place is None:
            return
        for part in parts:
            lease = part.lease
            contexts = map(_context_of, part.messages) if lease.has_trace_contexts else ()
            self.tracer.add(
                TraceEntry(
                    kind,
                    place,
                    part.offsets,
                    now.wall,
                    now.wall,
                    given={index: each for index, each in enumerate(contexts) if each},
                    attempts=[lease.attempt] * len(part),
                    group=group.name,
                    group_number=group.number,
                    member=lease.member,
                    detail=detail,
                )
            )

    # Delays

    def fired(
        self,
        log: LogId,
        messages: Sequence[Offset],
        first: int,
        contexts: Mapping[Offset, bytes],
        now: Now,
    ) -> None:
        """Delayed messages stand where they are seen now: in their order, from `first` on."""
        place = self.place(log) if self.is_on else None
        if place is None:
            return
        given = {
            index: contexts.get(message) or message.to_bytes(8)
            for index, message in enumerate(messages)
        }
        offsets = range(first, first + len(messages))
        self.tracer.add(TraceEntry(Kind.FIRE, place, offsets, now.wall, now.wall, given=given))

    def cancelled(self, log: LogId, message: Offset, data: memoryview, now: Now) -> None:
        """A delayed message, whose record this is, will never be delivered."""
        place = self.place(log)
        if place is not None:
            context = find_trace_contexts(data).get(message)
            given = {} if context is None else {0: context}
            self.tracer.add(
                TraceEntry(Kind.CANCEL, place, (message,), now.wall, now.wall, given=given)
            )

    # Moves

    def context_of(self, log: LogId, offset: int, data: memoryview) -> bytes:
        """The context of a stored record, as one that is given; nothing if none is wanted."""
        place = self.place(log) if self.is_on else None
        if place is None:
            return b""
        given = find_trace_contexts(data).get(offset, b"")
        if len(given) == GIVEN_CONTEXT_BYTES:
            return given
        origin = int.from_bytes(given) if given else offset
        made = derive_contexts(place.high, place.low, (origin,))
        return made + (b"\x01" if self.tracer.follows(made) else b"\x00")

    def moved(
        self,
        kind: Kind,
        log: LogId,
        offset: int,
        context: bytes,
        now: Now,
        *,
        group: Group | None,
        attempt: int,
        detail: str,
    ) -> None:
        """A message stands at a new place; its copy carries its context."""
        place = self.place(log) if context else None
        if place is None:
            return
        self.tracer.add(
            TraceEntry(
                kind,
                place,
                (offset,),
                now.wall,
                now.wall,
                given={0: context},
                attempts=(attempt,),
                group="" if group is None else group.name,
                group_number=0 if group is None else group.number,
                detail=detail,
            )
        )

    # Groups

    def rebalanced(self, group: Group, now: Now) -> None:
        """The partitions of a group are dealt out anew."""
        if self.is_on:
            topic = group.topics[0] if group.topics else ""
            # With the time: groups of other nodes have the same numbers and generations.
            place = place_of(topic, _NOWHERE, f"group {group.number} {now.wall}")
            self.tracer.add(
                TraceEntry(
                    Kind.REBALANCE,
                    place,
                    (group.generation,),
                    now.wall,
                    now.wall,
                    group=group.name,
                    group_number=group.number,
                )
            )


def trace_header(context: bytes) -> Header:
    """The header that carries a context."""
    trace, span = context[:TRACE_BYTES].hex(), context[TRACE_BYTES : GIVEN_CONTEXT_BYTES - 1].hex()
    return TRACEPARENT_HEADER, f"00-{trace}-{span}-{context[-1]:02x}".encode()
