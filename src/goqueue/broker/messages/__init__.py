"""Commands about topics and their messages: made, published, delayed, read."""

from goqueue.broker.messages.delay_log import Replay, decode_delays, delays_snapshot
from goqueue.broker.messages.delaying import Delaying, Firing, Recalling
from goqueue.broker.messages.publishing import REFUSALS, Publishing
from goqueue.broker.messages.reading import Reading, SeekingRead
from goqueue.broker.messages.topics import Topics

__all__ = [
    "REFUSALS",
    "Delaying",
    "Firing",
    "Publishing",
    "Reading",
    "Recalling",
    "Replay",
    "SeekingRead",
    "Topics",
    "decode_delays",
    "delays_snapshot",
]
