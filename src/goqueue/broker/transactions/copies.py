"""Where the broker's own transactions put what they copy, and where markers end transactions.

A standalone broker appends to its own logs. The coordinator of a cluster asks the leaders of
partitions: see `broker/coordinator/remote_copies`.
"""

from typing import Protocol

from goqueue.broker.catalog import Topic
from goqueue.broker.partitions import Publication
from goqueue.broker.state import NodeState
from goqueue.broker.topics import Topics
from goqueue.log import BatchMark, Marker
from goqueue.model import LogId, Now, Offset

__all__ = ["Copies", "LocalCopies"]


class Copies(Protocol):
    """The port."""

    def ensure_dead_letters(self, origin: Topic, name: str, now: Now) -> Topic | None:
        """The dead-letter topic of a topic, if it can be used; else it is being made."""

    def append(
        self,
        log: LogId,
        batch: bytearray,
        mark: BatchMark,
        publication: Publication,
        now: Now,
    ) -> Offset | None:
        """Append copies; the publication ends when they are committed. Raises Refused before.

        Returns where they begin, if that is known already.
        """

    def end(self, log: LogId, marker: Marker, publication: Publication, now: Now) -> bool:
        """Append a marker, in the same way; False if the partition needs none, or is gone."""

    def announced(self, move: int, now: Now) -> None:
        """That a move has begun is committed."""


class LocalCopies:
    """Copies in the logs of this broker."""

    def __init__(self, state: NodeState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def ensure_dead_letters(self, origin: Topic, name: str, now: Now) -> Topic | None:
        return self._topics.ensure_dead_letters(origin, name, now)

    def append(
        self,
        log: LogId,
        batch: bytearray,
        mark: BatchMark,
        publication: Publication,
        now: Now,
    ) -> Offset | None:
        target = self._state.partitions[log]
        appended = self._state.append(target, batch, now, mark)
        target.expect(appended.first, appended.next, publication)
        return appended.first

    def end(self, log: LogId, marker: Marker, publication: Publication, now: Now) -> bool:
        target = self._state.partitions.get(log)
        appended = None if target is None else self._state.end_transaction(target, marker, now)
        if target is None or appended is None:
            return False
        target.expect(appended.first, appended.next, publication)
        return True

    def announced(self, move: int, _: Now) -> None:
        raise AssertionError(f"move {move} needs no announcement: its copies are in own logs")
