"""Delayed messages that are due together, on their way from the log to its end."""

from collections import deque

from goqueue.model import LogId, Offset

__all__ = ["Salvo"]


class Salvo:
    """Messages that are due together: those still to be read, and the copies of those that were.

    One at a time for each partition, so that order holds and little is in memory.
    """

    __slots__ = ("copies", "log", "messages", "order", "size")

    def __init__(self, log: LogId, due: list[Offset]) -> None:
        self.log = log
        self.order = deque(due)
        self.messages: list[Offset] = []
        self.copies: list[bytearray] = []
        self.size = 0

    def neighbours(self) -> tuple[Offset, Offset]:
        """The first messages to be read that stand beside each other: [first, next)."""
        first = following = self.order[0]
        for offset in self.order:
            if offset != following:
                break
            following = Offset(following + 1)
        return first, following

    def add(self, copy: bytearray) -> None:
        """The next message was read: this is to be appended for it."""
        self.messages.append(self.order.popleft())
        self.copies.append(copy)
        self.size += len(copy)

    def clear(self) -> None:
        """What was read is appended."""
        self.messages.clear()
        self.copies.clear()
        self.size = 0
