"""Consuming: as a queue with leases, as a stream with positions, or as a plain replay."""

from goqueue.client.consuming.queues import QueueConsumer
from goqueue.client.consuming.streams import Replay, Start, StreamConsumer
from goqueue.client.consuming.subscription import OnPartitions, Subscription
from goqueue.client.message import Message

__all__ = [
    "Message",
    "OnPartitions",
    "QueueConsumer",
    "Replay",
    "Start",
    "StreamConsumer",
    "Subscription",
]
