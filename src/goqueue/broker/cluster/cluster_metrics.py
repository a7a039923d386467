"""What a member of a cluster counts, as families of samples; a standalone node has none of them.

The names are part of the HTTP contract. What is about partitions follows from the image, so every
node exports the same. Of replication each node exports what it leads, and what it copied.
"""

from collections.abc import Iterator

from goqueue.broker.cluster.image_counts import (
    imbalanced_count,
    isr_sizes,
    under_replicated_count,
)
from goqueue.broker.cluster.member import ClusterMember
from goqueue.broker.cluster.node_status import node_status
from goqueue.broker.metrics.builders import counter, gauge
from goqueue.broker.replication.replicas import Replicas
from goqueue.cluster import MetadataImage, NodeStatus
from goqueue.metrics import Family

__all__ = ["cluster_families"]


def cluster_families(member: ClusterMember) -> Iterator[Family]:
    """Nodes by their status, and whether this one is the controller."""
    metadata = member.metadata
    if metadata is None:
        return
    statuses = {
        name: node_status(member, name, member.ticked_at) for name in sorted(metadata.image.brokers)
    }
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
        [((), int(metadata.is_controller))],
    )
    yield gauge(
        "goqueue_cluster_node_state",
        "1 for the state that a node has, as this node hears it.",
        ("node_id", "state"),
        [((name, status), 1) for name, status in statuses.items()],
    )
    yield from _partition_families(metadata.image)
    yield counter(
        "goqueue_cluster_controller_elections_total",
        "Changes of the controller that this node learned of.",
        (),
        [((), member.elections_total)],
    )
    yield from _replication_families(member.replicas)


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
