"""Producer ids, fencing, and the decision about every transaction: a machine without IO.

`Producers` assigns ids and epochs, `Transactions` says what may happen to a transaction and when it
times out. Sequence numbers and aborted ranges of a partition are in `goqueue.log.producer_state`;
`goqueue.broker.transactions.coordinator` journals the decisions and writes the markers.
"""

from goqueue.transactions.changes import (
    Begun,
    Decided,
    Ended,
    KeyKept,
    ParticipantsAdded,
    Prepared,
    ProducerStated,
    ProgressAdded,
    TenantForgotten,
    TransactionChange,
)
from goqueue.transactions.producers import Producer, Producers
from goqueue.transactions.transaction import (
    Admission,
    Outcome,
    Transaction,
    ended_state,
)
from goqueue.transactions.transactions import SILENCE_NS, Transactions

__all__ = [
    "SILENCE_NS",
    "Admission",
    "Begun",
    "Decided",
    "Ended",
    "KeyKept",
    "Outcome",
    "ParticipantsAdded",
    "Prepared",
    "Producer",
    "ProducerStated",
    "Producers",
    "ProgressAdded",
    "TenantForgotten",
    "Transaction",
    "TransactionChange",
    "Transactions",
    "ended_state",
]
