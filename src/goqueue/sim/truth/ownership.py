"""The judge of cooperative groups: who was told to own which partition, and until when it must.

A member that was told that it owns a partition, and nothing else since, keeps it for at least the
time that a revocation has, unless it gives the partition up, leaves, or may have lost its session.
Until then nobody else may be told to own it, and its commits are taken, whatever happens to other
partitions.
"""

from typing import NamedTuple

from goqueue.model import SECOND, Instant, LogId

__all__ = ["OwnershipTruth"]

_REVOCATION_NS = 60 * SECOND


class _Claim(NamedTuple):
    """What a member was told last about a partition of a topic, which has a number."""

    member_id: str
    topic: int
    generation: int
    # When it asked, if it was told to keep the partition.
    kept_at: Instant


class OwnershipTruth:
    """What the members of one group were told."""

    def __init__(self) -> None:
        self._claims: dict[LogId, dict[str, _Claim]] = {}
        # When a member gave up a partition.
        self._given_up: dict[tuple[str, LogId], Instant] = {}
        # The newest generation in which somebody was told to own a partition, and who.
        self._newest: dict[LogId, tuple[int, str]] = {}
        # Members that took each other's place are one.
        self._aliases: dict[str, str] = {}

    def identity(self, member_id: str) -> str:
        return self._aliases.get(member_id, member_id)

    def name(self, member_id: str, instance_id: str) -> None:
        """A member joins as an instance, or may have."""
        self._aliases[member_id] = f"instance {instance_id}"

    def give_up(self, member_id: str, logs: tuple[LogId, ...], at: Instant) -> None:
        """A member says that it has given up partitions."""
        for log in logs:
            self._given_up[(member_id, log)] = at
            self._claims.get(log, {}).pop(member_id, None)

    def end(self, member_id: str) -> None:
        """A member may be gone, or may have been replaced."""
        for claims in self._claims.values():
            claims.pop(member_id, None)

    def told(
        self,
        member_id: str,
        logs: dict[LogId, int],
        kept: frozenset[LogId],
        generation: int,
        asked_at: Instant,
    ) -> None:
        """A member was told in a generation to own partitions of topics, and which of them stay."""
        for log, claims in self._claims.items():
            if log not in logs:
                claims.pop(member_id, None)
        for log, topic in logs.items():
            newest = self._newest.get(log, (0, ""))
            if generation > newest[0]:
                self._newest[log] = (generation, member_id)
            if self._given_up.get((member_id, log), Instant(-1)) >= asked_at:
                # Told before it gave up the partition.
                continue
            claims = self._claims.setdefault(log, {})
            if log in kept:
                claims[member_id] = _Claim(member_id, topic, generation, asked_at)

    def claimants(self, member_id: str, log: LogId, topic: int, generation: int) -> list[_Claim]:
        """Other members that were told to own a partition, in older generations."""
        who = self.identity(member_id)
        return [
            claim
            for claim in self._claims.get(log, {}).values()
            if self.identity(claim.member_id) != who
            and claim.topic == topic
            and claim.generation < generation
        ]

    def must_keep(self, member_id: str, log: LogId, topic: int, now: Instant) -> bool:
        """Whether a member that is there certainly owns a partition."""
        claim = self._claims.get(log, {}).get(member_id)
        return claim is not None and claim.topic == topic and self.is_kept(claim, now)

    def is_kept(self, claim: _Claim, now: Instant) -> bool:
        """Whether no revocation can have been forced."""
        return now < claim.kept_at + _REVOCATION_NS

    def foreign(self, member_id: str, log: LogId, generation: int) -> bool:
        """Whether a partition is known to be somebody else's since a later generation."""
        newest, owner = self._newest.get(log, (0, member_id))
        return newest > generation and self.identity(owner) != self.identity(member_id)
