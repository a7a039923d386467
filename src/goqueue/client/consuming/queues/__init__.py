"""Messages leased one by one, and settled by their consumer."""

from goqueue.client.consuming.queues.consumer import QueueConsumer
from goqueue.client.consuming.queues.lease import Grant, HeldLease
from goqueue.client.consuming.queues.polling import read_messages
from goqueue.client.consuming.queues.prefetch import PrefetchWindow
from goqueue.client.consuming.queues.renewal import LeaseRenewer
from goqueue.client.consuming.queues.settling import Settlements

__all__ = [
    "Grant",
    "HeldLease",
    "LeaseRenewer",
    "PrefetchWindow",
    "QueueConsumer",
    "Settlements",
    "read_messages",
]
