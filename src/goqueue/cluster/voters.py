"""Who votes for the leader of the metadata log, and what a majority of them is.

A voter is a broker with its data directory: a broker whose disk was wiped comes back with another
directory id, so it is another voter and cannot vote a second time in a term that it forgot.

While the voters change, two sets count (joint consensus): a decision needs a majority of each.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from goqueue.model import Instant, Offset

__all__ = ["VOTERS_MAX", "Voter", "Voters"]

VOTERS_MAX = 5


class Voter(NamedTuple):
    """A broker, and the id that was created with its data directory."""

    broker: str
    directory: str


class Voters(msgspec.Struct, frozen=True):
    """The voters, sorted. While they change, `old` has those that vote as well."""

    new: tuple[Voter, ...]
    old: tuple[Voter, ...] = ()

    def __contains__(self, voter: object) -> bool:
        return voter in self.new or voter in self.old

    @property
    def is_joint(self) -> bool:
        """Whether two majorities are needed."""
        return bool(self.old)

    def all(self) -> tuple[Voter, ...]:
        """Everybody whose vote may count, once each, sorted."""
        return tuple(sorted({*self.new, *self.old}))

    def is_majority(self, members: Collection[Voter]) -> bool:
        """Whether these are a majority of the voters, of both sets while they change."""
        return all(
            sum(voter in members for voter in part) > len(part) // 2
            for part in (self.new, self.old)
            if part
        )

    def majority_since(self, heard: Mapping[Voter, Instant]) -> Instant | None:
        """The latest time since when a majority was heard, or None if none was heard at all."""
        since: Instant | None = None
        for part in (self.new, self.old):
            if not part:
                continue
            times = sorted((heard[voter] for voter in part if voter in heard), reverse=True)
            needed = len(part) // 2 + 1
            if len(times) < needed:
                return None
            reached = times[needed - 1]
            since = reached if since is None else min(since, reached)
        return since

    def majority_end(self, ends: Mapping[Voter, Offset]) -> Offset:
        """How far a log reaches on a majority, of both sets while they change."""
        reached: list[Offset] = []
        for part in (self.new, self.old):
            if part:
                held = sorted((ends.get(voter, Offset(0)) for voter in part), reverse=True)
                reached.append(held[len(part) // 2])
        return min(reached, default=Offset(0))
