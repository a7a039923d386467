"""Transactions as operators see them: which are open, how one stands, and how to end one."""

import msgspec

from goqueue.client.admin.replies import TransactionDescription, TransactionStats
from goqueue.client.transport import Transport, get, post

__all__ = ["Transactions"]


class _Page(msgspec.Struct, frozen=True):
    transactions: tuple[TransactionDescription, ...]


_PAGES = msgspec.json.Decoder(_Page)
_TRANSACTIONS = msgspec.json.Decoder(TransactionDescription)
_STATS = msgspec.json.Decoder(TransactionStats)


class Transactions:
    """`q.transactions`; to work in one of your own see `q.transaction`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, *, limit: int = 100, skip: int = 0) -> tuple[TransactionDescription, ...]:
        """A page of those that have not ended, the oldest first; a page has at most 1,000."""
        request = get("transactions", limit=limit, skip=skip)
        return (await self._transport.read(request, _PAGES)).transactions

    async def describe(self, transaction_id: str) -> TransactionDescription:
        """One that is open, or the last of its producer; `TransactionNotFound` otherwise."""
        return await self._transport.read(get("transactions", transaction_id), _TRANSACTIONS)

    async def abort(self, transaction_id: str) -> TransactionDescription:
        """End one that hangs, whoever began it: nobody will ever see any of it.

        The transaction as it stood before. Its producer is told with its next request, and may
        begin another.
        """
        found = await self.describe(transaction_id)
        fields: dict[str, object] = {
            "producer_id": found.producer_id,
            "epoch": found.epoch,
            "transactional_id": found.transactional_id,
            # Its producer may have ended it and begun another meanwhile.
            "transaction_id": transaction_id,
        }
        await self._transport.ask(post("transactions", "abort", fields=fields, is_repeatable=True))
        return found

    async def stats(self) -> TransactionStats:
        """Counts over all transactions of the node."""
        return await self._transport.read(get("transactions", "stats"), _STATS)
