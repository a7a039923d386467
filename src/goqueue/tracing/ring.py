"""The last notes, as many as hold so many spans.

Invariant: what is kept are the newest spans, at most `capacity` of them, however they are bundled.
"""

from collections import deque
from collections.abc import Iterator

from goqueue.tracing.note import Note

__all__ = ["Ring"]


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
