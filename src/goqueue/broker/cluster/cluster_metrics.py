"""What a member of a cluster counts, as families of samples; a standalone node has none of them.

The names are part of the HTTP contract. What is about partitions follows from the image, so every
node exports the same. Of replication each node exports what it leads, and what it copied.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec

from goqueue.broker.cluster.image_counts import (
    imbalanced_count,
    isr_sizes,
    under_replicated_count,
)
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.cluster.node_status import node_status
from goqueue.broker.metrics.builders import counter, gauge, histogram
from goqueue.broker.replication.replicas import Replicas
from goqueue.cluster import MetadataImage, NodeStatus
from goqueue.metrics import Family
from goqueue.model import SECOND

__all__ = ["cluster_families"]

_TOPIC = ("topic",)


def cluster_families(member: ClusterMember) -> Iterator[Family]:
    """All families; without samples until the node has read its metadata."""
    image = MetadataImage() if member.metadata is None else member.metadata.image
    parts = (
        _node_families(member, image),
        _presence_families(member, image),
        _partition_families(image),
        _replication_families(member.replicas),
        _follower_families(member.replicas),
    )
    for family in chain.from_iterable(parts):
        yield family if member.metadata else msgspec.structs.replace(family, samples=())


def _node_families(member: ClusterMember, image: MetadataImage) -> Iterator[Family]:
    """Nodes by their status, and the controller."""
    statuses = {name: node_status(member, name, member.ticked_at) for name in sorted(image.brokers)}
    alive = (NodeStatus.ALIVE, NodeStatus.LEAVING)
    healthy = sum(status in alive for status in statuses.values())
    yield gauge("goqueue_cluster_nodes_total", "Nodes of the cluster.", (), [((), len(statuses))])
    yield gauge(
        "goqueue_cluster_nodes_healthy", "Nodes that are alive or leaving.", (), [((), healthy)]
    )
    yield gauge(
        "goqueue_cluster_is_controller",
        "1 while this node is the controller of its cluster, else 0.",
        (),
        [((), int(member.metadata is not None and member.metadata.is_controller))],
    )
    yield gauge(
        "goqueue_cluster_node_state",
        "1 for the state that a node has, as this node hears it, 0 for the others.",
        ("node_id", "state"),
        [
            ((name, state), int(state is status))
            for name, status in statuses.items()
            for state in NodeStatus
        ],
    )
    yield counter(
        "goqueue_cluster_controller_elections_total",
        "Changes of the controller that this node learned of.",
        (),
        [((), member.reports.elections_total)],
    )
    since = member.reports.controller_since
    yield gauge(
        "goqueue_cluster_controller_age_seconds",
        "Time since this node learned of the controller; absent while it knows none.",
        (),
        [] if since is None else [((), _seconds(max(0, member.ticked_at - since)))],
    )


def _presence_families(member: ClusterMember, image: MetadataImage) -> Iterator[Family]:
    """What this node hears of the others."""
    found = [(name, member.heartbeats.of(name)) for name in sorted(image.brokers)]
    others = [(name, heard) for name, heard in found if heard is not None]
    yield counter(
        "goqueue_cluster_heartbeats_received_total",
        "Heartbeats of another node that this one received.",
        ("node_id",),
        [((name,), heard.received) for name, heard in others],
    )
    yield counter(
        "goqueue_cluster_heartbeats_missed_total",
        "Half seconds in which nothing had come from another node for a whole second.",
        ("node_id",),
        [((name,), heard.missed) for name, heard in others],
    )
    yield counter(
        "goqueue_cluster_failure_detections_total",
        "How often this node found another one lost: silent for three seconds, or gone without a "
        "controlled shutdown.",
        ("node_id",),
        [((name,), heard.failures) for name, heard in others],
    )
    yield histogram(
        "goqueue_cluster_inter_broker_latency_seconds",
        "Time until another node answers what this one, as the controller, says of the metadata: a "
        "round trip, and a sync if something changed.",
        ("target_node_id",),
        [((name,), heard.answers) for name, heard in others if heard.answers.count],
    )
    yield gauge(
        "goqueue_cluster_clock_offset_seconds",
        "How far the clock of another node is ahead of that of this one.",
        ("node_id",),
        [
            ((name,), _seconds(heard.clock_offset_ns))
            for name, heard in others
            if heard.clock_offset_ns is not None
        ],
    )


def _seconds(duration: int) -> float:
    return duration / SECOND


def _partition_families(image: MetadataImage) -> Iterator[Family]:
    table = image.table
    count = table.partition_count
    yield gauge("goqueue_cluster_partition_count", "Partitions of all topics.", (), [((), count)])
    yield gauge(
        "goqueue_cluster_under_replicated_partitions",
        "Partitions with fewer live replicas in sync than replicas.",
        (),
        [((), under_replicated_count(image))],
    )
    yield gauge(
        "goqueue_cluster_offline_partitions",
        "Partitions without a leader.",
        (),
        [((), len(table.led_by(None)))],
    )
    yield gauge(
        "goqueue_cluster_preferred_leader_imbalance",
        "Share of the partitions that another replica than the first one leads, 0 to 1.",
        (),
        [((), imbalanced_count(image) / count if count else 0.0)],
    )
    names = sorted(image.brokers)
    led = {name: len(table.led_by(name)) for name in names}
    yield gauge(
        "goqueue_cluster_leaders_per_node",
        "Partitions that a node leads.",
        ("node_id",),
        [((name,), led[name]) for name in names],
    )
    yield gauge(
        "goqueue_cluster_followers_per_node",
        "Partitions that a node keeps a copy of and does not lead.",
        ("node_id",),
        [((name,), len(table.hosted_by(name)) - led[name]) for name in names],
    )
    yield gauge(
        "goqueue_cluster_isr_size",
        "The smallest number of live replicas in sync that a partition of a topic has.",
        ("topic",),
        [((name,), size) for name, size in isr_sizes(image).items()],
    )


def _replication_families(replicas: Replicas) -> Iterator[Family]:
    counts = replicas.counts
    by_topic = (
        (
            "isr_shrinks",
            "Removals from the ISR of a partition that this node led.",
            counts.isr_shrinks,
        ),
        (
            "isr_expands",
            "Additions to the ISR of a partition that this node led.",
            counts.isr_expands,
        ),
        ("bytes_replicated", "Bytes that this node copied from leaders.", counts.bytes_copied),
    )
    for name, meaning, counted in by_topic:
        yield counter(
            f"goqueue_cluster_{name}_total",
            meaning,
            ("topic",),
            [((topic,), count) for topic, count in sorted(counted.items())],
        )
    yield counter(
        "goqueue_cluster_leader_elections_total",
        "Elections of this node as the leader of a partition: preferred, failover or unclean.",
        ("topic", "election_type"),
        [((topic, kind.value), count) for (topic, kind), count in sorted(counts.elections.items())],
    )
    yield counter(
        "goqueue_cluster_unclean_leader_elections_total",
        "Elections of this node that an operator forced, which may have lost records.",
        (),
        [((), counts.unclean_elections)],
    )
    yield gauge(
        "goqueue_cluster_replication_lag",
        "Records that a follower lacks at most of a partition that this node leads.",
        ("topic", "node_id"),
        [(labels, lag) for labels, lag in sorted(replicas.lags().items())],
    )
    yield gauge(
        "goqueue_cluster_high_watermark",
        "Offset up to which all partitions of a topic that this node leads are committed, summed.",
        _TOPIC,
        [((topic,), offset) for topic, offset in sorted(replicas.high_watermarks().items())],
    )


def _follower_families(replicas: Replicas) -> Iterator[Family]:
    counts = replicas.counts
    yield counter(
        "goqueue_cluster_fetch_requests_total",
        "Messages in which a follower asked this node for records, or confirmed some.",
        ("node_id",),
        [((name,), count) for name, count in sorted(counts.fetch_requests.items())],
    )
    yield histogram(
        "goqueue_cluster_fetch_latency_seconds",
        "Time from when this node sends a batch to a follower until the follower has it synced.",
        ("node_id",),
        [((name,), times) for name, times in sorted(counts.fetch_times.items())],
    )
    yield histogram(
        "goqueue_cluster_leader_election_latency_seconds",
        "Time from when this node learns that a partition is without a leader, or its own to lead, "
        "until it leads.",
        _TOPIC,
        [((topic,), times) for topic, times in sorted(counts.election_times.items())],
    )
