"""One epoch of a transactional id: who holds it, and the producer that numbers its batches.

The numbers of a partition run on from transaction to transaction. They end with the epoch, and the
epoch ends when a batch is left whose outcome is unknown: the broker could not tell such a batch,
should it arrive late, from one of the next transaction.
"""

from goqueue.client.errors import TransactionAborted
from goqueue.client.producing import Fixed, ProducerConfig, Identity, Producer
from goqueue.client.tasks import Tasks
from goqueue.client.transport import Transport
from goqueue.model.requests import Owner

__all__ = ["ProducerEpoch"]

# Far below the last number, so that no transaction comes near it.
_NUMBER_MAX = 2**30


class ProducerEpoch:
    """Good for one transaction after the other, until it `is_spent`."""

    def __init__(
        self,
        transport: Transport,
        tasks: Tasks,
        owner: Owner,
        gathering: ProducerConfig,
        timeout_s: float,
    ) -> None:
        registry = Fixed(Identity(owner.producer_id, owner.epoch))
        self.owner = owner
        self.timeout_s = timeout_s
        # Of the transaction that is open, or was the last.
        self.transaction_id = ""
        self.producer = Producer(transport, tasks, gathering, registry)
        self._is_spent = False

    @property
    def is_spent(self) -> bool:
        producer = self.producer
        return self._is_spent or producer.is_lost or producer.following > _NUMBER_MAX

    def spend(self) -> None:
        """The next transaction needs another epoch."""
        self._is_spent = True

    async def give_up(self) -> None:
        """Send nothing more of what waits. What is under way is nobody's any more."""
        words = "the transaction was aborted before the message was sent"
        if self.producer.discard(TransactionAborted("transaction_aborted", words)):
            self.spend()
        if self.is_spent:
            # Said once more: the producer forgets what it was spent by.
            self.spend()
            await self.producer.end()
