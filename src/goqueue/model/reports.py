"""What the core reports to the operator of a node: facts for the log of the process.

The core has no log. It puts these into a `Report` effect, behind the commit of what they tell of;
the shell turns each into one line. The tag is the name of the line's event, the fields are its
fields (see `goqueue.runtime.log_events`).

Cost: one of these for each change of a topic or a group and for each batch of dead letters, none
for a message.
"""

import msgspec

__all__ = [
    "BackupBegan",
    "BackupCompleted",
    "BackupDeleted",
    "BackupGivenUp",
    "ClusterDisturbed",
    "ClusterFormed",
    "ControllerElected",
    "DeadLettersRefused",
    "DeadLettersStalled",
    "FeaturesEnabled",
    "GroupRebalanced",
    "MembersLost",
    "MessagesDeadLettered",
    "NodeFenced",
    "NodeForgotten",
    "NodeRecovered",
    "NodeRegistered",
    "NodeReport",
    "QuorumRecovered",
    "ReplicaLost",
    "RestoreBegan",
    "RestoreCompleted",
    "RestoreGivenUp",
    "ScheduleRefused",
    "TopicAltered",
    "TopicCreated",
    "TopicRemoved",
    "UncleanElection",
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


class DeadLettersRefused(msgspec.Struct, frozen=True, kw_only=True, tag="dead_letters_refused"):
    """A redrive left dead letters where they are; the facts are those of the first."""

    topic: str
    dead_letter_topic: str
    count: int
    partition: int
    offset: int
    code: str
    path: str
    reason: str


class DeadLettersStalled(msgspec.Struct, frozen=True, kw_only=True, tag="dead_letters_stalled"):
    """Messages of one route wait because the topic that they move to does not take them."""

    topic: str
    count: int
    reason: str


class ScheduleRefused(msgspec.Struct, frozen=True, kw_only=True, tag="schedule_refused"):
    """The topic of a schedule refuses its message: ticks are not sent until one of them changes."""

    schedule: str
    topic: str
    code: str
    path: str
    reason: str


class BackupBegan(msgspec.Struct, frozen=True, kw_only=True, tag="backup_started"):
    """A backup was begun."""

    backup: str
    topics: int
    partitions: int


class BackupCompleted(msgspec.Struct, frozen=True, kw_only=True, tag="backup_completed"):
    """A backup is complete and durable."""

    backup: str
    topics: int
    partitions: int
    messages: int
    data_bytes: int
    took_ms: int


class BackupGivenUp(msgspec.Struct, frozen=True, kw_only=True, tag="backup_failed"):
    """A backup could not be completed, and nothing of it is kept."""

    backup: str
    reason: str


class BackupDeleted(msgspec.Struct, frozen=True, kw_only=True, tag="backup_deleted"):
    """A backup was removed on request."""

    backup: str


class RestoreBegan(msgspec.Struct, frozen=True, kw_only=True, tag="restore_started"):
    """A restore was begun: the backup is verified first."""

    backup: str
    topics: int


class RestoreCompleted(msgspec.Struct, frozen=True, kw_only=True, tag="restore_completed"):
    """The topics of a backup can be used."""

    backup: str
    topics: int
    groups: int
    schedules: int
    skipped: int
    tenants: int = 0
    acls: int = 0
    acls_skipped: int = 0
    schemas: int = 0


class RestoreGivenUp(msgspec.Struct, frozen=True, kw_only=True, tag="restore_failed"):
    """A backup could not be restored, and nothing of it was."""

    backup: str
    reason: str


class ClusterFormed(msgspec.Struct, frozen=True, kw_only=True, tag="cluster_formed"):
    """The first record of a cluster is committed, as far as this node knows."""

    cluster_id: str


class ControllerElected(msgspec.Struct, frozen=True, kw_only=True, tag="controller_elected"):
    """Another node leads the metadata log."""

    controller: str
    term: int


class NodeRegistered(msgspec.Struct, frozen=True, kw_only=True, tag="node_registered"):
    """A run of a node belongs to the cluster."""

    node: str
    epoch: int


class NodeFenced(msgspec.Struct, frozen=True, kw_only=True, tag="node_fenced"):
    """The controller takes a silent node for gone."""

    node: str


class QuorumRecovered(msgspec.Struct, frozen=True, kw_only=True, tag="quorum_recovered"):
    """An operator recovered the cluster on a node although its voters are lost."""

    node: str
    previous: str
    lost: str


class FeaturesEnabled(msgspec.Struct, frozen=True, kw_only=True, tag="features_enabled"):
    """All nodes of the cluster understand a higher feature level, which is in force from now on."""

    feature_level: int


class NodeForgotten(msgspec.Struct, frozen=True, kw_only=True, tag="node_forgotten"):
    """An operator removed a node."""

    node: str


class UncleanElection(msgspec.Struct, frozen=True, kw_only=True, tag="unclean_election"):
    """A node leads a partition although it may lack committed records."""

    topic: str
    partition: int
    node: str
    is_by_operator: bool


class ClusterDisturbed(msgspec.Struct, frozen=True, kw_only=True, tag="cluster_disturbed"):
    """This node is not in its cluster as it should be."""

    reason: str


class ReplicaLost(msgspec.Struct, frozen=True, kw_only=True, tag="replica_lost"):
    """A copy of a partition lacks records that this node had confirmed: it ends at `end`."""

    topic: str
    partition: int
    end: int
    noted: int


NodeReport = (
    BackupBegan
    | BackupCompleted
    | BackupGivenUp
    | BackupDeleted
    | RestoreBegan
    | RestoreCompleted
    | RestoreGivenUp
    | NodeRecovered
    | TopicCreated
    | TopicAltered
    | TopicRemoved
    | MembersLost
    | GroupRebalanced
    | MessagesDeadLettered
    | DeadLettersRefused
    | DeadLettersStalled
    | ScheduleRefused
    | ClusterFormed
    | ControllerElected
    | NodeRegistered
    | NodeFenced
    | NodeForgotten
    | FeaturesEnabled
    | QuorumRecovered
    | UncleanElection
    | ClusterDisturbed
    | ReplicaLost
)
