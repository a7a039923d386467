"""What the journals of a node hold, beside the changes of groups. Past tense, no clock.

The shapes are stored: fields are only ever added, at the end, with a default. Positions name
topics and groups by numbers that are never used twice, so nothing that was written for a deleted
topic or group can be taken for its namesake's.
"""

import msgspec

from goqueue.delivery import PositionStated, Range
from goqueue.groups import GroupDeleted, GroupStated
from goqueue.model.requests import TopicConfig

__all__ = [
    "Change",
    "Delivered",
    "GivenBack",
    "MoveBegun",
    "MoveCancelled",
    "MoveChange",
    "MoveEnded",
    "Numbered",
    "PositionChange",
    "PositionMoved",
    "Settled",
    "Started",
    "TopicChange",
    "TopicDeleted",
    "TopicStated",
]


class TopicStated(msgspec.Struct, frozen=True, kw_only=True, tag="topic"):
    """A topic in full, after a change of any kind."""

    name: str
    number: int
    partitions: int
    config: TopicConfig
    created_at: int
    holds_letters: bool = False
    # Whether a delayed message was ever published: then its logs are looked through at a start.
    has_delays: bool = False
    # Whether a message of another priority than normal was ever published.
    has_lanes: bool = False


class TopicDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="topic_deleted"):
    """A topic is gone, and everybody's place in it."""

    name: str
    number: int


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """A life of the node began: no receipt of an earlier one names a lease of this.

    Numbers of topics below `topics_upto` were used, also those that nothing else mentions.
    """

    epoch: int
    topics_upto: int = 1


TopicChange = TopicStated | TopicDeleted | Started


class Numbered(msgspec.Struct, frozen=True, kw_only=True, tag="numbered"):
    """Numbers of groups and moves below these were used, also those that nothing else mentions."""

    groups_upto: int
    moves_upto: int


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag="delivered"):
    """Messages were handed out for the `attempt`-th time."""

    group: int
    topic: int
    partition: int
    attempt: int
    offsets: list[Range]


class GivenBack(msgspec.Struct, frozen=True, kw_only=True, tag="given_back"):
    """A message was given back, with a reason: its dead letter will tell it."""

    group: int
    topic: int
    partition: int
    offset: int
    reason: str


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="settled", omit_defaults=True):
    """Messages are done with: these, and all below the floor."""

    group: int
    topic: int
    partition: int
    floor: int
    offsets: list[Range] = []


class PositionMoved(msgspec.Struct, frozen=True, kw_only=True, tag="position"):
    """A position was put somewhere, or is stated in full."""

    group: int
    topic: int
    partition: int
    position: PositionStated


class MoveBegun(msgspec.Struct, frozen=True, kw_only=True, tag="move_begun", omit_defaults=True):
    """A message leaves this place for another log: it is not delivered here any more.

    `target_from` is an offset of the target log before which the copy cannot be.
    """

    number: int
    group: int
    topic: int
    partition: int
    offset: int
    target: str
    target_partition: int
    target_from: int
    at: int
    attempts: int = 0
    cause: str = ""
    reason: str = ""
    # Said again in a statement of everything: the position says by itself what is dying.
    is_restated: bool = False


class MoveEnded(msgspec.Struct, frozen=True, kw_only=True, tag="move_ended"):
    """The copy is committed in its new place: here it is settled."""

    number: int
    floor: int


class MoveCancelled(msgspec.Struct, frozen=True, kw_only=True, tag="move_cancelled"):
    """There is no new place any more: the message stays where it was."""

    number: int


MoveChange = MoveBegun | MoveEnded | MoveCancelled
PositionChange = Delivered | GivenBack | Settled | PositionMoved
Change = (
    Numbered
    | GroupStated
    | GroupDeleted
    | Delivered
    | GivenBack
    | Settled
    | PositionMoved
    | MoveBegun
    | MoveEnded
    | MoveCancelled
)
