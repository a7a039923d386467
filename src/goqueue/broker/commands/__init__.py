"""Which part of the node takes which commands."""

from goqueue.broker.commands.counting import Counting, Scouting
from goqueue.broker.commands.delay_log import decode_delays, delays_snapshot, replay_delays
from goqueue.broker.commands.delaying import Delaying, Firing
from goqueue.broker.commands.delivering import Delivering, Surveying
from goqueue.broker.commands.membership import Membership
from goqueue.broker.commands.moving import Carrying, Moving, Verifying
from goqueue.broker.commands.positions import Positions, Probing, SeekingReset
from goqueue.broker.commands.publishing import Publishing
from goqueue.broker.commands.reading import Reading, SeekingRead
from goqueue.broker.commands.redriving import Redriving, Sifting
from goqueue.broker.commands.settling import Settling
from goqueue.broker.commands.topics import Topics

__all__ = [
    "Carrying",
    "Counting",
    "Delaying",
    "Delivering",
    "Firing",
    "Membership",
    "Moving",
    "Positions",
    "Probing",
    "Publishing",
    "Reading",
    "Redriving",
    "Scouting",
    "SeekingRead",
    "SeekingReset",
    "Settling",
    "Sifting",
    "Surveying",
    "Topics",
    "Verifying",
    "decode_delays",
    "delays_snapshot",
    "replay_delays",
]
