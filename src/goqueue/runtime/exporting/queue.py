"""What waits for one exporter: notes, counted in spans.

One thread puts, another takes, and neither ever waits for the other: each writes a count of its own
and reads that of the other one.

Invariant: at most `capacity` spans wait. Of a note that does not fit, the first messages are kept.
"""

from collections import deque

from goqueue.tracing import Note

__all__ = ["SpanQueue"]


class SpanQueue:
    """Notes on their way to one exporter, oldest first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._notes: deque[tuple[Note, range]] = deque()
        self._put = 0
        self._taken = 0

    def __len__(self) -> int:
        """How many spans wait."""
        return self._put - self._taken

    def put(self, note: Note) -> int:
        """Add a note as far as there is room; how many spans found none."""
        count = len(note)
        fitting = min(count, self._capacity - len(self))
        if fitting > 0:
            # Counted first: whoever takes must never have taken more than was put.
            self._put += fitting
            self._notes.append((note, range(fitting)))
        return count - max(fitting, 0)

    def take(self, limit: int) -> list[tuple[Note, range]]:
        """The oldest notes with the messages of each that are meant, at most `limit` in all."""
        taken: list[tuple[Note, range]] = []
        while limit and self._notes:
            note, indexes = self._notes.popleft()
            if len(indexes) > limit:
                self._notes.appendleft((note, indexes[limit:]))
                indexes = indexes[:limit]
            limit -= len(indexes)
            self._taken += len(indexes)
            taken.append((note, indexes))
        return taken
