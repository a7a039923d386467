"""Messages that wait for earlier ones of their key.

Invariant: of each key at most one message is outside of here (ready, in backoff or in flight), and
it is the earliest that is not settled.
"""

from collections import deque

from goqueue.records import MessageSummary

__all__ = ["KeyOrder"]


class KeyOrder:
    """Who waits for whom, by key."""

    def __init__(self) -> None:
        self._behind: dict[bytes, deque[MessageSummary]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many messages wait."""
        return self._count

    def clear(self) -> list[MessageSummary]:
        """Forget everything; what waited."""
        waiting = [message for behind in self._behind.values() for message in behind]
        self._behind.clear()
        self._count = 0
        return waiting

    def admit(self, message: MessageSummary) -> bool:
        """Whether a message may be delivered now; if not it waits here. To be asked in order."""
        key = message.key
        if not key:
            return True
        behind = self._behind.get(key)
        if behind is None:
            self._behind[key] = deque()
            return True
        behind.append(message)
        self._count += 1
        return False

    def release(self, message: MessageSummary) -> MessageSummary | None:
        """A message was settled: the next of its key, if one waits."""
        behind = self._behind.get(message.key)
        if behind is None:
            return None
        if not behind:
            del self._behind[message.key]
            return None
        self._count -= 1
        return behind.popleft()
