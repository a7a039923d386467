"""The number of the next message among all that a producer sent to one partition.

A batch that the broker refused has used up no number. After one whose outcome is unknown nobody
can tell the next number: the lane goes on as another producer, whose numbers begin at 0.

Invariant: a number is used for one batch only, however often that batch is sent.
"""

from goqueue.client.errors import SequenceOutOfOrder
from goqueue.client.producing.lanes.identity import Identity, Registry

__all__ = ["PartitionSequence"]

_NUMBER_MAX = 2**31 - 1


class PartitionSequence:
    """Where one lane stands."""

    __slots__ = ("_identity", "_registry", "following", "is_lost")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._identity: Identity | None = None
        self.is_lost = False
        self.following = 0

    async def stamp(self, count: int) -> str:
        """The part of a query that says who sends a batch of so many messages, and its number."""
        if self.is_lost or self.following + count > _NUMBER_MAX:
            await self.renew()
        if self._identity is None:
            self._identity = await self._registry.identity()
        identity = self._identity
        return (
            f"&producer_id={identity.producer_id}&epoch={identity.epoch}&sequence={self.following}"
        )

    @property
    def is_renewable(self) -> bool:
        return self._registry.is_renewable

    def advance(self, count: int) -> None:
        """The broker took the batch, now or before."""
        self.following += count

    def lose(self) -> None:
        """The outcome of the batch is unknown, and nobody will ask again."""
        self.is_lost = True

    async def renew(self) -> None:
        """Begin at 0 as another producer. Only where no batch is left that may still be sent."""
        if not self._registry.is_renewable:
            words = "what became of an earlier batch is unknown: no other can follow it"
            raise SequenceOutOfOrder("sequence_out_of_order", words)
        if self._identity is not None:
            self._identity = await self._registry.renew(self._identity)
        self.following = 0
        self.is_lost = False
