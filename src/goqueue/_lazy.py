"""What `goqueue` offers and imports only when it is first named.

Outside the packages, so that `import goqueue` takes a few milliseconds whatever a program may use
later. `goqueue/__init__.py` imports the same names for type checkers; a test compares the two.
"""

import importlib
import sys

__all__ = ["MODULES", "__dir__", "__getattr__"]

MODULES = {
    "Acl": "goqueue.client.security",
    "ApiKey": "goqueue.client.security",
    "Connection": "goqueue.client.connection",
    "DeadLetter": "goqueue.client.dead_letter",
    "Delay": "goqueue.client.values",
    "DelayedMessage": "goqueue.client.admin_replies",
    "DeliverAt": "goqueue.client.values",
    "GroupMode": "goqueue.client.values",
    "Headers": "goqueue.client.values",
    "IsolationLevel": "goqueue.client.values",
    "Message": "goqueue.client.message",
    "NewApiKey": "goqueue.client.security",
    "Place": "goqueue.client.dead_letter",
    "Priority": "goqueue.model",
    "PriorityName": "goqueue.client.values",
    "Producer": "goqueue.client.producer",
    "ProducerConfig": "goqueue.client.batch",
    "QueueConsumer": "goqueue.client.queue_consumer",
    "Receipt": "goqueue.client.batch",
    "Reject": "goqueue.client.retry_policy",
    "Replay": "goqueue.client.replay",
    "Reply": "goqueue.client.request_reply",
    "Retries": "goqueue.client.retries",
    "Retry": "goqueue.client.retry_policy",
    "RetryLater": "goqueue.client.retry_policy",
    "Avro": "goqueue.client.serializers",
    "Json": "goqueue.client.serializers",
    "Protobuf": "goqueue.client.serializers",
    "Backup": "goqueue.client.backups",
    "Schedule": "goqueue.client.schedules",
    "Sent": "goqueue.client.batch",
    "StartPosition": "goqueue.client.values",
    "StreamConsumer": "goqueue.client.stream_consumer",
    "SyncConnection": "goqueue.client.sync",
    "SyncMessage": "goqueue.client.sync",
    "SyncProducer": "goqueue.client.sync",
    "SyncQueueConsumer": "goqueue.client.sync",
    "SyncReceipt": "goqueue.client.sync",
    "SyncReplay": "goqueue.client.sync",
    "SyncStreamConsumer": "goqueue.client.sync",
    "SyncTransaction": "goqueue.client.sync",
    "Tenant": "goqueue.client.security",
    "Topic": "goqueue.client.admin_replies",
    "Transaction": "goqueue.client.transaction",
    "Worker": "goqueue.client.worker",
    "timeout": "goqueue.client.call_timeout",
}


def __getattr__(name: str) -> object:
    module = MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'goqueue' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(module), name)
    # The next time it is found without coming here.
    setattr(sys.modules["goqueue"], name, found)
    return found


def __dir__() -> list[str]:
    return sorted({*vars(sys.modules["goqueue"]), *MODULES})
