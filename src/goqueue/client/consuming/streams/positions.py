"""How far a group's member has come in each of its partitions, and what of it was committed.

Pure. A position is always the next offset to read, as in the contract.

Invariant: a position never moves back while the partition is ours.
"""

from goqueue.model import LogId

__all__ = ["Positions"]


class Positions:
    """Positions of the partitions that are ours."""

    def __init__(self) -> None:
        self._finished: dict[LogId, int] = {}
        self._committed: dict[LogId, int] = {}
        self._begun: dict[LogId, int] = {}

    def adopt(self, log: LogId, offset: int, *, is_committed: bool) -> None:
        """Begin with a partition at `offset`.

        Where the group has no position yet, the place to begin is one to commit: another member
        that looked for the latest offset would find a later one, and miss what lies between.
        """
        self._finished[log] = offset
        self._committed[log] = offset if is_committed else -1
        self._begun[log] = offset

    def forget(self, log: LogId) -> None:
        """The partition went to another member."""
        self._finished.pop(log, None)
        self._committed.pop(log, None)
        self._begun.pop(log, None)

    def finish(self, log: LogId, next_offset: int) -> None:
        """Everything below `next_offset` was worked on."""
        if log in self._finished and next_offset > self._finished[log]:
            self._finished[log] = next_offset

    def settled(self) -> dict[LogId, int]:
        """Up to where nothing is left to commit: what is committed, or where we began."""
        return {log: max(begun, self._committed[log]) for log, begun in self._begun.items()}

    def unsettled(self) -> dict[LogId, int]:
        """Partitions of which more was worked on than is committed, and where they stood before."""
        return {
            log: offset for log, offset in self.settled().items() if self._finished[log] > offset
        }

    def uncommitted(self) -> dict[LogId, int]:
        """What a commit has to say."""
        return {
            log: offset
            for log, offset in self._finished.items()
            if offset > self._committed.get(log, -1)
        }

    def note_committed(self, offsets: dict[LogId, int]) -> None:
        for log, offset in offsets.items():
            if log in self._committed:
                self._committed[log] = max(self._committed[log], offset)
