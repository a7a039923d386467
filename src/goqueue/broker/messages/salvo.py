"""Delayed messages that are due together, on their way from the log to its end."""

from collections import deque

from goqueue.model import LogId, Offset

__all__ = ["DueBatch"]


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
