"""Consuming: as a queue with leases, as a stream with positions, or as a plain replay."""

from goqueue.client.consuming.queues import QueueConsumer
from goqueue.client.consuming.streams import Progress, OffsetSource, Replay, Start, StreamConsumer
from goqueue.client.consuming.subscription import OnPartitions, Subscription
from goqueue.client.message import Message

__all__ = [
    "Message",
    "OnPartitions",
    "Progress",
    "QueueConsumer",
    "OffsetSource",
    "Replay",
    "Start",
    "StreamConsumer",
    "Subscription",
]
