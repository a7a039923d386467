"""What the core reports to the operator of a node: facts for the log of the process.

The core has no log. It puts these into a `Report` effect, behind the commit of what they tell of;
the shell turns each into one line. The tag is the name of the line's event, the fields are its
fields (see `goqueue.runtime.log_events`).

Cost: one of these for each change of a topic or a group and for each batch of dead letters, none
for a message.
"""

import msgspec

__all__ = [
    "GroupRebalanced",
    "MembersLost",
    "MessagesDeadLettered",
    "NodeRecovered",
    "NodeReport",
    "TopicAltered",
    "TopicCreated",
    "TopicRemoved",
]


class NodeRecovered(msgspec.Struct, frozen=True, kw_only=True, tag="node_recovered"):
    """The node knows again what it knew, and accepts commands."""

    topics: int
    partitions: int
    groups: int
    data_bytes: int


class TopicCreated(msgspec.Struct, frozen=True, kw_only=True, tag="topic_created"):
    """A topic can be used."""

    topic: str
    partitions: int


class TopicAltered(msgspec.Struct, frozen=True, kw_only=True, tag="topic_changed"):
    """Settings of a topic have other values: `name: old -> new` each."""

    topic: str
    changes: tuple[str, ...]


class TopicRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="topic_deleted"):
    """A topic is gone with its messages."""

    topic: str


class MembersLost(msgspec.Struct, frozen=True, kw_only=True, tag="members_lost"):
    """Members of a group sent nothing for longer than their session timeout."""

    group: str
    members: tuple[str, ...]
    remaining: int


class GroupRebalanced(msgspec.Struct, frozen=True, kw_only=True, tag="group_rebalanced"):
    """The partitions of a group have other owners."""

    group: str
    generation: int
    trigger: str
    members: int


class MessagesDeadLettered(msgspec.Struct, frozen=True, kw_only=True, tag="messages_dead_lettered"):
    """Messages of one partition were moved to the dead letters; the facts are those of the first.

    `reason` is the consumer's text.
    """

    topic: str
    partition: int
    group: str
    count: int
    offset: int
    cause: str
    reason: str
    deliveries: int
    dead_letter_topic: str


NodeReport = (
    NodeRecovered
    | TopicCreated
    | TopicAltered
    | TopicRemoved
    | MembersLost
    | GroupRebalanced
    | MessagesDeadLettered
)
