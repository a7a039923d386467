"""GoQueue: one append-only log, read as a stream and as a queue.

`connect` and `connect_sync` are the ways in. Everything else here is to annotate with, to catch or
to configure; it is imported when it is first named.
"""

from typing import TYPE_CHECKING

from goqueue._twin import prefer_sources
from goqueue.client import (
    AlreadyDelivered,
    ArgumentInvalid,
    Closed,
    DecodeError,
    GoQueueError,
    LeaderUnavailable,
    MessageTooLarge,
    NoReply,
    NotAllowed,
    NotEnoughReplicas,
    NotFound,
    ProducerFenced,
    ProducerNotFound,
    RateLimited,
    ReceiptStale,
    ReplicationFailed,
    SequenceOutOfOrder,
    ServerUnreachable,
    TimedOut,
    TlsError,
    TopicExists,
    TopicNotFound,
    TransactionAborted,
    TransactionNotFound,
    TransactionOutcomeUnknown,
    TransactionStateInvalid,
    TransactionTimedOut,
    connect,
    connect_sync,
)

if TYPE_CHECKING:
    from goqueue.client.admin_replies import DelayedMessage, Topic
    from goqueue.client.backups import Backup
    from goqueue.client.batch import ProducerConfig, Receipt, Sent
    from goqueue.client.call_timeout import timeout
    from goqueue.client.connection import Connection
    from goqueue.client.dead_letter import DeadLetter, Place
    from goqueue.client.message import Message
    from goqueue.client.producer import Producer
    from goqueue.client.queue_consumer import QueueConsumer
    from goqueue.client.replay import Replay
    from goqueue.client.request_reply import Reply
    from goqueue.client.retries import Retries
    from goqueue.client.retry_policy import Reject, Retry, RetryLater
    from goqueue.client.schedules import Schedule
    from goqueue.client.security import Acl, ApiKey, NewApiKey, Tenant
    from goqueue.client.serializers import Avro, Json, Protobuf
    from goqueue.client.stream_consumer import StreamConsumer
    from goqueue.client.sync import (
        SyncConnection,
        SyncMessage,
        SyncProducer,
        SyncQueueConsumer,
        SyncReceipt,
        SyncReplay,
        SyncStreamConsumer,
        SyncTransaction,
    )
    from goqueue.client.transaction import Transaction
    from goqueue.client.values import (
        Delay,
        DeliverAt,
        GroupMode,
        Headers,
        IsolationLevel,
        PriorityName,
        StartPosition,
    )
    from goqueue.client.worker import Worker
    from goqueue.model import Priority
else:
    from goqueue._lazy import __dir__, __getattr__  # noqa: F401 - Python calls them by name

__all__ = [
    "Acl",
    "AlreadyDelivered",
    "ApiKey",
    "ArgumentInvalid",
    "Avro",
    "Backup",
    "Closed",
    "Connection",
    "DeadLetter",
    "DecodeError",
    "Delay",
    "DelayedMessage",
    "DeliverAt",
    "GoQueueError",
    "GroupMode",
    "Headers",
    "IsolationLevel",
    "Json",
    "LeaderUnavailable",
    "Message",
    "MessageTooLarge",
    "NewApiKey",
    "NoReply",
    "NotAllowed",
    "NotEnoughReplicas",
    "NotFound",
    "Place",
    "Priority",
    "PriorityName",
    "Producer",
    "ProducerConfig",
    "ProducerFenced",
    "ProducerNotFound",
    "Protobuf",
    "QueueConsumer",
    "RateLimited",
    "Receipt",
    "ReceiptStale",
    "Reject",
    "Replay",
    "ReplicationFailed",
    "Reply",
    "Retries",
    "Retry",
    "RetryLater",
    "Schedule",
    "Sent",
    "SequenceOutOfOrder",
    "ServerUnreachable",
    "StartPosition",
    "StreamConsumer",
    "SyncConnection",
    "SyncMessage",
    "SyncProducer",
    "SyncQueueConsumer",
    "SyncReceipt",
    "SyncReplay",
    "SyncStreamConsumer",
    "SyncTransaction",
    "Tenant",
    "TimedOut",
    "TlsError",
    "Topic",
    "TopicExists",
    "TopicNotFound",
    "Transaction",
    "TransactionAborted",
    "TransactionNotFound",
    "TransactionOutcomeUnknown",
    "TransactionStateInvalid",
    "TransactionTimedOut",
    "Worker",
    "__version__",
    "connect",
    "connect_sync",
    "timeout",
]

__version__ = "0.1.0"

prefer_sources()
