"""What was appended for delayed messages and is not committed yet.

Never decides what follows from it: whoever appended it is told what became of it.

Invariant: the entries of a partition are in the order of their offsets. Each was one append, which
the disk takes as a whole, so it is also committed or taken back as a whole.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from goqueue.model import LogId, Offset
from goqueue.records import Waiting

__all__ = ["Cancelled", "Entry", "Fired", "Published", "PendingDelayAppends"]


class Published(msgspec.Struct, frozen=True):
    """Delayed records of one batch, and the transaction that they are in, if any."""

    next: Offset
    waiting: Waiting
    holder: tuple[int, int] | None = None


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

    def forget(self, log: LogId) -> None:
        """The partition is gone."""
        self._entries.pop(log, None)
