"""Transactions: what a block reads, writes and acknowledges holds as a whole or not at all."""

from goqueue.client.transacting.acks import Acks
from goqueue.client.transacting.coordinator import Coordinator, commit_group
from goqueue.client.transacting.holder import Holder
from goqueue.client.transacting.tenure import Tenure
from goqueue.client.transacting.transacting import Transacting
from goqueue.client.transacting.transaction import Transaction

__all__ = ["Acks", "Coordinator", "Holder", "Tenure", "Transacting", "Transaction", "commit_group"]
