"""The transactional ids that one connection holds."""

from collections.abc import Sequence

from goqueue.client.consuming import Reading
from goqueue.client.producing import Gathering
from goqueue.client.tasks import Tasks
from goqueue.client.transacting.coordinator import commit_group
from goqueue.client.transacting.holder import Holder
from goqueue.client.transacting.transaction import Transaction
from goqueue.client.transport import Transport

__all__ = ["Transacting"]


class Transacting:
    """Makes transactions; those of one id are of one holder."""

    def __init__(self, transport: Transport, tasks: Tasks) -> None:
        self._transport = transport
        self._tasks = tasks
        self._holders: dict[str, Holder] = {}

    def transaction(
        self, transactional_id: str, reading: Reading | None, timeout_s: float
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

    def _holder(self, transactional_id: str) -> Holder:
        holder = self._holders.get(transactional_id)
        if holder is None:
            holder = Holder(transactional_id, self._transport, self._tasks, Gathering())
            self._holders[transactional_id] = holder
        return holder
