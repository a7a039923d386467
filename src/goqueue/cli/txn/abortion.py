"""Ending a transaction in the name of its producer, whom the transaction itself names."""

from goqueue.cli.asking import Session
from goqueue.client.admin import TransactionDescription
from goqueue.client.transport import get, post

__all__ = ["abort_transaction"]


async def abort_transaction(session: Session, transaction: str) -> bytes:
    """Abort it; the body of the answer."""
    found = await session.read(get("transactions", transaction), TransactionDescription)
    fields: dict[str, object] = {
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "transactional_id": found.transactional_id,
        # Its producer may have ended it and begun another meanwhile.
        "transaction_id": transaction,
    }
    return await session.ask(post("transactions", "abort", fields=fields, is_repeatable=True))
