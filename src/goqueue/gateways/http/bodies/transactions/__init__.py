"""Bodies about producers and their transactions."""

from goqueue.gateways.http.bodies.transactions.lifecycle import (
    BegunOut,
    CommitGroupBody,
    EndBody,
    OwnerBody,
    PreparedOut,
    StatusOut,
)
from goqueue.gateways.http.bodies.transactions.listing import (
    TransactionOut,
    TransactionPartition,
    TransactionsOut,
    TransactionStats,
)
from goqueue.gateways.http.bodies.transactions.producers import (
    AuthorBody,
    AuthoredBody,
    AuthoredOut,
    ProducerBeatBody,
    ProducerBeatOut,
    ProducerBody,
    ProducerOut,
)
from goqueue.gateways.http.bodies.transactions.progress import AddOffsetsBody, AddPartitionBody
from goqueue.gateways.http.bodies.transactions.scalars import (
    EPOCH_MAX,
    Epoch,
    ProducerId,
    SequenceNumber,
    TransactionId,
)

__all__ = [
    "EPOCH_MAX",
    "AddOffsetsBody",
    "AddPartitionBody",
    "AuthorBody",
    "AuthoredBody",
    "AuthoredOut",
    "BegunOut",
    "CommitGroupBody",
    "EndBody",
    "Epoch",
    "OwnerBody",
    "PreparedOut",
    "ProducerBeatBody",
    "ProducerBeatOut",
    "ProducerBody",
    "ProducerId",
    "ProducerOut",
    "SequenceNumber",
    "StatusOut",
    "TransactionId",
    "TransactionOut",
    "TransactionPartition",
    "TransactionStats",
    "TransactionsOut",
]
