"""Commands about topics and their messages: made, published, delayed, read."""

from goqueue.broker.messages.delay_log import Replay, decode_delays, delays_snapshot
from goqueue.broker.messages.delaying import DelayedMessages, Firing, ReadingDelays
from goqueue.broker.messages.publishing import REFUSALS, Publisher
from goqueue.broker.messages.reading import StreamReads, SeekingRead
from goqueue.broker.messages.topics import Topics

__all__ = [
    "REFUSALS",
    "DelayedMessages",
    "Firing",
    "Publisher",
    "StreamReads",
    "ReadingDelays",
    "Replay",
    "SeekingRead",
    "Topics",
    "decode_delays",
    "delays_snapshot",
]
