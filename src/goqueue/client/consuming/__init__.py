"""Consuming: as a queue with leases, as a stream with positions, or as a plain replay."""

from goqueue.client.consuming.queues import QueueConsumer
from goqueue.client.consuming.streams import Progress, Reading, Replay, Start, StreamConsumer
from goqueue.client.consuming.subscription import OnPartitions, Subscription
from goqueue.client.message import Message

__all__ = [
    "Message",
    "OnPartitions",
    "Progress",
    "QueueConsumer",
    "Reading",
    "Replay",
    "Start",
    "StreamConsumer",
    "Subscription",
]
