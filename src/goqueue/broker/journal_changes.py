"""The changes in the two journals. Past tense, no clock.

Those of groups, transactions, schedules, schemas, keys, ACLs and tenants are defined by their
packages.

The shapes are stored: fields are only ever added, at the end, with a default. Positions name topics
and groups by numbers that are never used twice, so nothing that was written for a deleted topic or
group can be taken for its namesake's.

Every change is small enough for a record of its own (see `CHANGE_BYTES_MAX` in `journal.py`): what
grows with users' data is stated in pieces. Offsets are stated in few ranges where they stand
together, else step by step.
"""

from collections.abc import Iterator, Sequence

import msgspec

from goqueue.cluster import TopicDeleted, TopicStated
from goqueue.delivery import Position, PositionStated
from goqueue.groups import GroupDeleted, GroupStated, PartitionsRevoked
from goqueue.model import Folded, Range
from goqueue.schedules import ScheduleDeleted, ScheduleStated, ScheduleTicked
from goqueue.schemas import SchemaChange
from goqueue.security import AuditRecorded, SecurityChange
from goqueue.transactions import (
    Begun,
    Decided,
    Ended,
    KeyKept,
    ParticipantsAdded,
    Prepared,
    ProducerStated,
    ProgressAdded,
    TenantForgotten,
)

__all__ = [
    "CHANGES",
    "Change",
    "Delivered",
    "DeliveryReleased",
    "GivenBack",
    "MoveBegun",
    "Numbered",
    "PositionAdded",
    "PositionChange",
    "PositionCut",
    "PositionMoved",
    "ReceiptKeyStated",
    "RestoreCommitted",
    "RestoreEnded",
    "RestoreStated",
    "Settled",
    "Started",
    "TopicChange",
    "TopicDeleted",
    "TopicStated",
    "state_position",
]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """A life of the node began: no receipt of an earlier one names a lease of this.

    Numbers of topics below `topics_upto` were used, also those that nothing else mentions.
    """

    epoch: int
    topics_upto: int = 1
    # The last restore that was committed.
    restored: int = 0


class RestoreCommitted(msgspec.Struct, frozen=True, kw_only=True, tag="restore_committed"):
    """Everything that a restore brings is there: its topics, given by their numbers, exist.

    A restore is named by the number of its first topic.
    """

    restore: int
    topics: list[Range]


TopicChange = (
    TopicStated | TopicDeleted | Started | RestoreCommitted | SchemaChange | SecurityChange
)


class Numbered(msgspec.Struct, frozen=True, kw_only=True, tag="numbered"):
    """Numbers of groups, moves, producers and schedules below these were used, whoever had them."""

    groups_upto: int
    moves_upto: int
    producers_upto: int = 1
    schedules_upto: int = 1


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag="delivered", omit_defaults=True):
    """Messages were handed out for the `attempt`-th time."""

    group: int
    topic: int
    partition: int
    attempt: int
    offsets: list[Range] = []
    # Instead of ranges, where these would be short: the first offset, and each step to the next.
    steps: list[int] = []

    def unfold(self) -> Sequence[int]:
        """The offsets of the messages, in order."""
        return Folded(self.offsets, self.steps).unfold()


class DeliveryReleased(
    msgspec.Struct, frozen=True, kw_only=True, tag="delivery_released", omit_defaults=True
):
    """The `attempt`-th deliveries of messages did not happen: their leases were given back."""

    group: int
    topic: int
    partition: int
    attempt: int
    offsets: list[Range] = []
    # As in `Delivered`.
    steps: list[int] = []

    def unfold(self) -> Sequence[int]:
        """The offsets of the messages, in order."""
        return Folded(self.offsets, self.steps).unfold()


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
    # As in `Delivered`.
    steps: list[int] = []
    # Whether they became dead letters.
    is_buried: bool = False
    # What a commit says about the floor.
    metadata: str = ""

    def unfold(self) -> Sequence[int]:
        """The offsets of the messages that are named, in order."""
        return Folded(self.offsets, self.steps).unfold()


class PositionMoved(msgspec.Struct, frozen=True, kw_only=True, tag="position"):
    """A position was put somewhere, or is stated in full."""

    group: int
    topic: int
    partition: int
    position: PositionStated


class PositionAdded(msgspec.Struct, frozen=True, kw_only=True, tag="position_added"):
    """A piece of a position that is too large for one change: true, and not all of it."""

    group: int
    topic: int
    partition: int
    position: PositionStated


class PositionCut(msgspec.Struct, frozen=True, kw_only=True, tag="position_cut"):
    """A log lost its end: what was known of offsets from `end` on means other messages now."""

    group: int
    topic: int
    partition: int
    end: int


class RestoreStated(msgspec.Struct, frozen=True, kw_only=True, tag="restore"):
    """A restore brings these groups and schedules, and more: if it is not committed, they go."""

    restore: int
    groups: list[int] = []
    schedules: list[int] = []


class RestoreEnded(msgspec.Struct, frozen=True, kw_only=True, tag="restore_ended"):
    """A restore was committed, or nothing of it is left."""

    restore: int


def state_position(
    position: Position, group: int, topic: int, partition: int
) -> Iterator[PositionMoved | PositionAdded]:
    """A position as changes of bounded size; it may change between two of them."""
    if position.is_small:
        yield PositionMoved(group=group, topic=topic, partition=partition, position=position.stated)
        return
    for piece in position.state():
        yield PositionAdded(group=group, topic=topic, partition=partition, position=piece)


class ReceiptKeyStated(msgspec.Struct, frozen=True, kw_only=True, tag="receipt_key"):
    """The key, in hexadecimal, with which every coordinator of a cluster seals its receipts."""

    key: str


class MoveBegun(msgspec.Struct, frozen=True, kw_only=True, tag="move_begun"):
    """Copies of messages are about to be appended to a partition that others may lead.

    If it is not decided when another coordinator begins, it is aborted.
    """

    move: int
    topic: int
    partition: int


PositionChange = (
    Delivered | DeliveryReleased | GivenBack | Settled | PositionMoved | PositionAdded | PositionCut
)
Change = (
    Numbered
    | GroupStated
    | GroupDeleted
    | PartitionsRevoked
    | Delivered
    | DeliveryReleased
    | GivenBack
    | Settled
    | PositionMoved
    | PositionAdded
    | PositionCut
    | ProducerStated
    | Begun
    | ParticipantsAdded
    | ProgressAdded
    | Prepared
    | Decided
    | Ended
    | KeyKept
    | TenantForgotten
    | ScheduleStated
    | ScheduleTicked
    | ScheduleDeleted
    | RestoreStated
    | RestoreEnded
    | AuditRecorded
    | MoveBegun
    | ReceiptKeyStated
)

# The changes of one record of a journal of groups.
CHANGES = msgspec.json.Decoder(list[Change])
