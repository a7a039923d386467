"""Appends for delayed messages that are under way: deliveries, and cancellations.

Owns the messages of a partition that are due together, until they are appended at its end; what was
appended and is not committed yet; and who waits to hear whether a cancellation came in time. Never
decides what follows: the caller is told what became of each append.

Invariant: the pending appends of a partition are in the order of their offsets. Each was one
append, which the disk takes as a whole, so it is also committed or taken back as a whole.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from goqueue.broker.outbox import Outbox
from goqueue.model import Code, Instant, LogId, Offset, Refused, RequestId, TransactionKey
from goqueue.model.requests import Done
from goqueue.records import DelayedRecords

__all__ = ["Cancelled", "Cancels", "DueBatch", "Entry", "Fired", "PendingDelayAppends", "Published"]


class DueBatch:
    """Messages that are due together: those still to be read, and the copies of those that were.

    One at a time for each partition, so that order holds and little is in memory.
    """

    __slots__ = ("contexts", "copies", "log", "messages", "order", "size")

    def __init__(self, log: LogId, due: list[Offset]) -> None:
        self.log = log
        self.order = deque(due)
        self.messages: list[Offset] = []
        self.copies: list[bytearray] = []
        # The trace contexts that messages carry.
        self.contexts: dict[Offset, bytes] = {}
        self.size = 0

    def neighbours(self) -> tuple[Offset, Offset]:
        """The first messages to be read that stand beside each other: [first, next)."""
        first = following = self.order[0]
        for offset in self.order:
            if offset != following:
                break
            following = Offset(following + 1)
        return first, following

    def add(self, copy: bytearray, context: bytes | None) -> None:
        """The next message was read: this is to be appended for it."""
        if context is not None:
            self.contexts[self.order[0]] = context
        self.messages.append(self.order.popleft())
        self.copies.append(copy)
        self.size += len(copy)

    def clear(self) -> None:
        """What was read is appended."""
        self.messages.clear()
        self.copies.clear()
        self.contexts = {}
        self.size = 0


class Published(msgspec.Struct, frozen=True):
    """Delayed records of one batch, and the transaction that they are in, if any."""

    next: Offset
    waiting: DelayedRecords
    holder: TransactionKey | None = None


class Fired(msgspec.Struct, frozen=True):
    """Deliveries, in the order of their offsets, and the trace contexts that some carry."""

    next: Offset
    messages: tuple[Offset, ...]
    contexts: dict[Offset, bytes]


class Cancelled(msgspec.Struct, frozen=True):
    """A cancellation."""

    next: Offset
    message: Offset


# `next` is the offset after the last record.
Entry = Published | Fired | Cancelled


class PendingDelayAppends:
    """Entries by partition."""

    def __init__(self) -> None:
        self._entries: dict[LogId, deque[Entry]] = {}

    def __contains__(self, log: LogId) -> bool:
        """Whether anything of a partition is on its way."""
        return bool(self._entries.get(log))

    def add(self, log: LogId, entry: Entry) -> None:
        self._entries.setdefault(log, deque()).append(entry)

    def committed(self, log: LogId, upto: Offset) -> Iterator[Entry]:
        """Remove what lies below an offset, first things first."""
        entries = self._entries[log]
        while entries and entries[0].next <= upto:
            yield entries.popleft()

    def taken_back(self, log: LogId, offset: Offset) -> Iterator[Entry]:
        """Remove what is not below an offset, last things first."""
        entries = self._entries[log]
        while entries and entries[-1].next > offset:
            yield entries.pop()

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The partitions are gone."""
        for log in logs:
            self._entries.pop(log, None)


class Cancels:
    """Requests by the message that they are about."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._requests: dict[tuple[LogId, Offset], list[RequestId]] = {}
        # Since when each request waits, the first one first, and for which message.
        self._since: dict[RequestId, tuple[Instant, tuple[LogId, Offset]]] = {}

    def wait(self, log: LogId, message: Offset, request: RequestId, now: Instant) -> None:
        self._requests.setdefault((log, message), []).append(request)
        self._since[request] = (now, (log, message))

    def succeed(self, log: LogId, message: Offset) -> None:
        """The message is cancelled."""
        for request in self._take(log, message):
            self._outbox.answer(request, Done())

    def come_late(self, log: LogId, message: Offset, delivered: Offset) -> None:
        """The message was delivered before."""
        for request in self._take(log, message):
            refused = Refused(Code.ALREADY_DELIVERED, delivered_offset=delivered)
            self._outbox.answer(request, refused)

    def refuse(self, log: LogId, message: Offset, code: Code) -> None:
        """Neither is possible."""
        for request in self._take(log, message):
            self._outbox.answer(request, Refused(code))

    def _take(self, log: LogId, message: Offset) -> list[RequestId]:
        """The requests about a message that wait; none of them does any longer."""
        waiting = self._requests.pop((log, message), [])
        for request in waiting:
            del self._since[request]
        return waiting

    def end_overdue(self, before: Instant) -> None:
        """Answer those that have waited since then: what becomes of them is not known."""
        while self._since:
            request, (since, message) = next(iter(self._since.items()))
            if since > before:
                return
            del self._since[request]
            self._requests[message].remove(request)
            self._outbox.answer(request, Refused(Code.REPLICATION_FAILED))

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The topic is gone, and its messages with it."""
        gone = frozenset(logs)
        for key in [key for key in self._requests if key[0] in gone]:
            for request in self._take(*key):
                refusal = Refused(Code.TOPIC_NOT_FOUND, topic=key[0].topic)
                self._outbox.answer(request, refusal)
