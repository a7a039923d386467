"""The leader epochs of a log: which epoch wrote which offsets.

Owns the history that replicas compare after a failover. It is a fold over the epoch records
of the log; the copy on disk is a cache.

Invariant: epochs and their start offsets rise together.
"""

from collections.abc import Iterable

from goqueue.model import Offset

__all__ = ["Epochs"]


class Epochs:
    """Leader epochs of one log, oldest first."""

    def __init__(self, history: Iterable[tuple[int, int]] = ()) -> None:
        self._history: list[tuple[int, Offset]] = []
        for epoch, start in history:
            self.begin(epoch, Offset(start))

    @property
    def history(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._history)

    @property
    def latest(self) -> int | None:
        return self._history[-1][0] if self._history else None

    def begin(self, epoch: int, start: Offset) -> None:
        """Record that `epoch` wrote from `start` on. Idempotent."""
        if self._history:
            last_epoch, last_start = self._history[-1]
            if epoch <= last_epoch:
                return
            assert start >= last_start, "an epoch cannot start before the one it follows"
            if start == last_start:
                # The previous epoch wrote nothing and owns no offset.
                self._history.pop()
        self._history.append((epoch, start))

    def end_of(self, epoch: int, log_end: Offset) -> tuple[int, Offset] | None:
        """The newest known epoch not above `epoch`, and the offset where it ended.

        A follower truncates to that offset: below it both logs are equal.
        """
        answer: tuple[int, Offset] | None = None
        for index, (known, _) in enumerate(self._history):
            if known > epoch:
                break
            is_last = index + 1 == len(self._history)
            answer = (known, log_end if is_last else self._history[index + 1][1])
        return answer

    def truncate(self, end: Offset) -> None:
        """Forget epochs that start at or after `end`: their records are gone."""
        while self._history and self._history[-1][1] >= end:
            self._history.pop()

    def drop_below(self, start: Offset) -> None:
        """Forget epochs whose every record is below `start`, and move the oldest kept one there."""
        while len(self._history) > 1 and self._history[1][1] <= start:
            self._history.pop(0)
        if self._history and self._history[0][1] < start:
            self._history[0] = (self._history[0][0], start)
