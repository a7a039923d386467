"""Commands about topics and their messages: made, published, delayed, read."""

from goqueue.broker.messages.delay_log import decode_delays, delays_snapshot, replay_delays
from goqueue.broker.messages.delaying import Delaying, Firing
from goqueue.broker.messages.publishing import Publishing
from goqueue.broker.messages.reading import Reading, SeekingRead
from goqueue.broker.messages.topics import Topics

__all__ = [
    "Delaying",
    "Firing",
    "Publishing",
    "Reading",
    "SeekingRead",
    "Topics",
    "decode_delays",
    "delays_snapshot",
    "replay_delays",
]
