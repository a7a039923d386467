"""The role of a log on this node, and its commit rule: who decides what is committed.

A standalone log commits what its own disk reports. The leader and the followers of a replicated log
commit what the owner of the replica decides (`decide`), and never more than the own disk holds.

Invariant: a decision counts in the leader epoch in which it was made. With a new epoch, and from a
truncation on, only what is committed already is decided.
"""

import enum

from goqueue.model import Offset

__all__ = ["STANDALONE", "Replica", "ReplicaRole"]


class ReplicaRole(enum.Enum):
    """What this node does for a log."""

    STANDALONE = "standalone"
    LEADER = "leader"
    FOLLOWER = "follower"


class Replica:
    """The role and leader epoch of one log, and how far its owner let it commit."""

    __slots__ = ("_decided", "_epoch", "_role")

    def __init__(self, role: ReplicaRole = ReplicaRole.STANDALONE, epoch: int = 0) -> None:
        self._role = role
        self._epoch = epoch
        self._decided = Offset(0)

    @property
    def role(self) -> ReplicaRole:
        return self._role

    @property
    def epoch(self) -> int:
        """The leader epoch; 0 for a standalone log."""
        return self._epoch

    @property
    def is_standalone(self) -> bool:
        return self._role is ReplicaRole.STANDALONE

    def succeeded_by(self, role: ReplicaRole, epoch: int, committed: Offset) -> "Replica":
        """The role in a leader epoch that is not older; decisions of an older one are dropped."""
        assert epoch >= self._epoch, "a leader epoch never falls"
        successor = Replica(role, epoch)
        successor._decided = self._decided if epoch == self._epoch else committed
        return successor

    def decide(self, upto: Offset) -> None:
        """Everything below `upto` is committed as soon as the own disk holds it."""
        assert not self.is_standalone, "a standalone log commits what its disk reports"
        self._decided = max(self._decided, upto)

    def committable(self, held: Offset) -> Offset:
        """How far a log may commit whose own disk holds everything below `held`."""
        if self._role is ReplicaRole.STANDALONE:
            return held
        return min(self._decided, held)

    def lower_to(self, end: Offset) -> None:
        """Records from `end` on are being removed: no decision about them counts any more."""
        self._decided = min(self._decided, end)


# Shared by all standalone logs, of which there may be ten thousand: nothing ever changes it.
STANDALONE = Replica()
