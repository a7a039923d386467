"""The same face without await: a loop in a thread of its own, for any number of threads."""

from goqueue.client.sync.admin import (
    SyncDeadLetters,
    SyncDelayedMessages,
    SyncGroups,
    SyncSchedules,
    SyncTopics,
    SyncTraces,
    SyncTransactions,
)
from goqueue.client.sync.connection import SyncConnection
from goqueue.client.sync.consumer import SyncQueueConsumer, SyncReplay, SyncStreamConsumer
from goqueue.client.sync.loop_thread import LoopThread
from goqueue.client.sync.message import SyncMessage
from goqueue.client.sync.producer import SyncProducer, SyncReceipt
from goqueue.client.sync.security import SyncAcls, SyncApiKeys, SyncTenants
from goqueue.client.sync.transaction import SyncTransaction

__all__ = [
    "LoopThread",
    "SyncAcls",
    "SyncApiKeys",
    "SyncConnection",
    "SyncDeadLetters",
    "SyncDelayedMessages",
    "SyncGroups",
    "SyncMessage",
    "SyncProducer",
    "SyncQueueConsumer",
    "SyncReceipt",
    "SyncReplay",
    "SyncSchedules",
    "SyncStreamConsumer",
    "SyncTenants",
    "SyncTopics",
    "SyncTraces",
    "SyncTransaction",
    "SyncTransactions",
]
