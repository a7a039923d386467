"""The Python SDK: publish, consume and administer over HTTP, with and without await."""

from goqueue.client.batch import ProducerConfig
from goqueue.client.entry import connect, connect_sync
from goqueue.client.errors import (
    AlreadyDelivered,
    Closed,
    GoQueueError,
    MessageTooLarge,
    NotAllowed,
    NotFound,
    ProducerFenced,
    ProducerNotFound,
    RateLimited,
    ReceiptStale,
    SequenceOutOfOrder,
    ServerUnreachable,
    TopicExists,
    TopicNotFound,
    TransactionAborted,
    TransactionNotFound,
    TransactionOutcomeUnknown,
    TransactionStateInvalid,
    TransactionTimedOut,
)
from goqueue.client.retries import Retries

__all__ = [
    "AlreadyDelivered",
    "Closed",
    "GoQueueError",
    "MessageTooLarge",
    "NotAllowed",
    "NotFound",
    "ProducerConfig",
    "ProducerFenced",
    "ProducerNotFound",
    "RateLimited",
    "ReceiptStale",
    "Retries",
    "SequenceOutOfOrder",
    "ServerUnreachable",
    "TopicExists",
    "TopicNotFound",
    "TransactionAborted",
    "TransactionNotFound",
    "TransactionOutcomeUnknown",
    "TransactionStateInvalid",
    "TransactionTimedOut",
    "connect",
    "connect_sync",
]
