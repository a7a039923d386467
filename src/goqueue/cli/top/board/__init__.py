"""What is known of the node that is watched: samples in, rates and histories out. Pure."""

from goqueue.cli.top.board.board import Board, LaneSum, LetterTrack, Outage
from goqueue.cli.top.board.groups import GROUPS_MAX, Groups, GroupTrack
from goqueue.cli.top.board.meter import HISTORY_MAX, History, Meter
from goqueue.cli.top.board.sample import Sample, Wants
from goqueue.cli.top.board.topics import TOPICS_MAX, Topics, TopicTrack

__all__ = [
    "GROUPS_MAX",
    "HISTORY_MAX",
    "TOPICS_MAX",
    "Board",
    "GroupTrack",
    "Groups",
    "History",
    "LaneSum",
    "LetterTrack",
    "Meter",
    "Outage",
    "Sample",
    "TopicTrack",
    "Topics",
    "Wants",
]
