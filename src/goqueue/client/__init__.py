"""The Python SDK: publish, consume and administer over HTTP, with and without await."""

from goqueue.client.entrance import connect, connect_sync
from goqueue.client.errors import (
    AlreadyDelivered,
    Closed,
    GoQueueError,
    MessageTooLarge,
    NotAllowed,
    NotFound,
    RateLimited,
    ReceiptStale,
    ServerUnreachable,
    TopicExists,
    TopicNotFound,
)

__all__ = [
    "AlreadyDelivered",
    "Closed",
    "GoQueueError",
    "MessageTooLarge",
    "NotAllowed",
    "NotFound",
    "RateLimited",
    "ReceiptStale",
    "ServerUnreachable",
    "TopicExists",
    "TopicNotFound",
    "connect",
    "connect_sync",
]
