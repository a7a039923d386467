"""The transactional ids that one connection holds."""

from collections.abc import Sequence

from goqueue.client.consuming import OffsetSource
from goqueue.client.producing import ProducerConfig
from goqueue.client.tasks import Tasks
from goqueue.client.transacting.coordinator import commit_group
from goqueue.client.transacting.holder import TransactionalId
from goqueue.client.transacting.transaction import Transaction
from goqueue.client.transport import Transport

__all__ = ["TransactionFactory"]


class TransactionFactory:
    """Makes transactions; those of one id are of one holder."""

    def __init__(self, transport: Transport, tasks: Tasks) -> None:
        self._transport = transport
        self._tasks = tasks
        self._holders: dict[str, TransactionalId] = {}

    def transaction(
        self, transactional_id: str, reading: OffsetSource | None, timeout_s: float
    ) -> Transaction:
        return Transaction(self._holder(transactional_id), reading, timeout_s=timeout_s)

    async def take_over(self, transactional_id: str, timeout_s: float) -> None:
        await self._holder(transactional_id).take_over(timeout_s)

    async def commit_group(self, key: str, transaction_ids: Sequence[str]) -> bool:
        return await commit_group(self._transport, key, transaction_ids)

    async def close(self) -> None:
        """Abort what is open."""
        for holder in self._holders.values():
            await holder.close()

    def _holder(self, transactional_id: str) -> TransactionalId:
        holder = self._holders.get(transactional_id)
        if holder is None:
            holder = TransactionalId(
                transactional_id, self._transport, self._tasks, ProducerConfig()
            )
            self._holders[transactional_id] = holder
        return holder
