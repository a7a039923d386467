"""The leader epochs of a log: which epoch wrote which offsets.

Owns the history that replicas compare after a failover. It is a fold over the epoch records
of the log; of epochs whose record is below the start, the copy on disk is the only trace.

Invariant: epochs and their start offsets rise together.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter

from goqueue.model import Offset

__all__ = ["Epochs"]

_epoch_of = itemgetter(0)
_start_of = itemgetter(1)


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
        index = bisect_right(self._history, epoch, key=_epoch_of) - 1
        if index < 0:
            return None
        is_last = index + 1 == len(self._history)
        return self._history[index][0], log_end if is_last else self._history[index + 1][1]

    def epoch_at(self, offset: Offset) -> int:
        """The epoch that wrote an offset; 0 if it was written before any."""
        index = bisect_right(self._history, offset, key=_start_of) - 1
        return 0 if index < 0 else self._history[index][0]

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
