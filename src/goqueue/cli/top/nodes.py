"""What `goqueue top` knows of a cluster: what the cluster says of each node, and each of itself.

Pure. Counts are of one process each, so those of all nodes are added; a sum compares with the last
one only if the same nodes answered. What a topic holds is what the node says that has most of it:
copies are the same messages.

Invariant: a node that does not answer costs its own figures only.
"""

import msgspec

from goqueue.cli.top.tracks import MachineFacts, Topics, TopicTrack
from goqueue.client.admin_replies import NodeStats, Readiness, TopicStats
from goqueue.client.cluster import ClusterHealth, ClusterNode

__all__ = ["ClusterSample", "NodeAnswer", "NodeLook", "NodeTrack", "Nodes", "joined_stats"]


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    round_trip_s: float
    readiness: Readiness
    stats: NodeStats
    machine: MachineFacts | None = None


class NodeLook(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the cluster has it; `failure` is why it said nothing itself."""

    node: ClusterNode
    answer: NodeAnswer | None = None
    failure: str = ""


class ClusterSample(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as it was found."""

    health: ClusterHealth
    nodes: tuple[NodeLook, ...]

    @property
    def basis(self) -> int:
        """A number that is the same while the same nodes answer."""
        return hash(tuple(each.node.id for each in self.nodes if each.answer is not None))


def joined_stats(own: NodeStats, nodes: tuple[NodeLook, ...]) -> NodeStats:
    """The topics of all nodes that answered."""
    topics: dict[str, TopicStats] = {}
    answers = [each.answer.stats for each in nodes if each.answer is not None]
    for stats in answers:
        for name, found in stats.topic_stats.items():
            known = topics.get(name)
            topics[name] = found if known is None else _joined(known, found)
    if not answers:
        return own
    return msgspec.structs.replace(
        own,
        topics=len(topics),
        total_size_bytes=sum(each.total_size_bytes for each in answers),
        topic_stats=topics,
    )


def _joined(first: TopicStats, second: TopicStats) -> TopicStats:
    return TopicStats(
        partitions=max(first.partitions, second.partitions),
        total_messages=max(first.total_messages, second.total_messages),
        total_size_bytes=first.total_size_bytes + second.total_size_bytes,
        published_total=(first.published_total or 0) + (second.published_total or 0),
        consumed_total=(first.consumed_total or 0) + (second.consumed_total or 0),
    )


class NodeTrack:
    """One node of a cluster, with the rates of what it counts."""

    __slots__ = ("look", "machine", "topics")

    def __init__(self, look: NodeLook) -> None:
        self.look = look
        self.topics = Topics()
        self.machine: MachineFacts | None = None

    @property
    def name(self) -> str:
        return self.look.node.id

    @property
    def shown_topics(self) -> list[TopicTrack]:
        """What this node leads or coordinates: the others it only keeps."""
        return [each for each in self.topics if each.published or each.consumed]

    def note(self, look: NodeLook, at_s: float) -> None:
        self.look = look
        if look.answer is not None:
            self.topics.note(look.answer.stats.topic_stats, at_s)
            self.machine = look.answer.machine or self.machine


class Nodes:
    """The nodes of the cluster; none of a node that stands alone."""

    def __init__(self) -> None:
        self.sample: ClusterSample | None = None
        self.tracks: dict[str, NodeTrack] = {}

    def note(self, sample: ClusterSample | None, at_s: float) -> None:
        """Look at all of them; what does not belong to the cluster any more is forgotten."""
        self.sample = sample
        tracks: dict[str, NodeTrack] = {}
        for look in () if sample is None else sample.nodes:
            track = self.tracks.get(look.node.id) or NodeTrack(look)
            track.note(look, at_s)
            tracks[track.name] = track
        self.tracks = tracks
