"""TransactionFactory: what a block reads, writes and acknowledges holds as a whole or not at all."""

from goqueue.client.transacting.acks import Acks
from goqueue.client.transacting.coordinator import Coordinator, commit_group
from goqueue.client.transacting.holder import TransactionalId
from goqueue.client.transacting.tenure import ProducerEpoch
from goqueue.client.transacting.transacting import TransactionFactory
from goqueue.client.transacting.transaction import Transaction

__all__ = [
    "Acks",
    "Coordinator",
    "TransactionalId",
    "ProducerEpoch",
    "TransactionFactory",
    "Transaction",
    "commit_group",
]
