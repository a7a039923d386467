"""Why producers and their transactions are turned down, by what the routes have in common."""

from goqueue.model import Code

__all__ = ["OF_PRODUCERS", "OF_TRANSACTIONS"]

OF_PRODUCERS = (Code.PRODUCER_NOT_FOUND, Code.PRODUCER_FENCED)
# One that ended by its timeout is told so, whatever is tried with it.
OF_TRANSACTIONS = (*OF_PRODUCERS, Code.TRANSACTION_STATE_INVALID, Code.TRANSACTION_TIMEOUT)
