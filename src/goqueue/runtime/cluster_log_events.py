"""The rows of the table of log events that tell of the cluster: its nodes, and their copies."""

from goqueue.runtime.log_event import Level, LogEvent

__all__ = ["CLUSTER_ROWS"]

CLUSTER_ROWS = (
    LogEvent(
        name="etcd_connected",
        level=Level.INFO,
        message="etcd, which keeps the metadata of the cluster, answers",
        fields={"endpoint": "host and port", "version": "version of etcd"},
        per="endpoint",
    ),
    LogEvent(
        name="etcd_unreachable",
        level=Level.WARNING,
        message="etcd, which keeps the metadata of the cluster, does not answer",
        fields={"endpoint": "host and port", "reason": "what went wrong"},
        advice="Traffic continues; topics, keys and leaders cannot change. Attempts continue.",
        per="endpoint",
    ),
    LogEvent(
        name="etcd_version_unsound",
        level=Level.WARNING,
        message="this version of etcd may lose what it has confirmed",
        fields={"endpoint": "host and port", "version": "version of etcd"},
        advice="Use 3.4.22 or later of 3.4, or 3.5.6 or later.",
        per="endpoint",
    ),
    LogEvent(
        name="cluster_secret_reloaded",
        level=Level.INFO,
        message="links prove themselves by the secrets that were read now",
        fields={"file": "path of the file", "accepted": "how many secrets are accepted: 1 or 2"},
        burst=0,
    ),
    LogEvent(
        name="cluster_secret_reload_failed",
        level=Level.ERROR,
        message="the secret of the cluster was not replaced: the one in use stays",
        fields={"file": "path of the file", "reason": "what is wrong with it"},
        advice="Correct the file and send SIGHUP again. See "
        "[Rotate the secret of a cluster](../guides/cluster-secret.md).",
        burst=0,
    ),
    LogEvent(
        name="cluster_formed",
        level=Level.INFO,
        message="a cluster was formed",
        fields={"cluster_id": "id of the cluster"},
        burst=0,
    ),
    LogEvent(
        name="controller_elected",
        level=Level.INFO,
        message="a node was elected as the controller",
        fields={"controller": "id of the node", "term": "number of the election"},
    ),
    LogEvent(
        name="node_registered",
        level=Level.INFO,
        message="a node was registered in the cluster",
        fields={"node": "id of the node", "epoch": "metadata version of the registration"},
        per="node",
    ),
    LogEvent(
        name="node_fenced",
        level=Level.WARNING,
        message="a node of the cluster is silent",
        fields={"node": "id of the node"},
        advice="Is its process gone, stopped or cut off? It registers again by itself.",
        per="node",
    ),
    LogEvent(
        name="node_forgotten",
        level=Level.WARNING,
        message="an operator removed a node from the cluster",
        fields={"node": "id of the node"},
        burst=0,
    ),
    LogEvent(
        name="quorum_recovered",
        level=Level.ERROR,
        message="an operator recovered the cluster without the voters that were lost",
        fields={
            "node": "id of the node that is its first voter now",
            "previous": "id of the cluster before",
            "lost": "the voters that count no more",
        },
        advice="Nodes of the cluster before are refused: let them follow, or empty them.",
        burst=0,
    ),
    LogEvent(
        name="features_enabled",
        level=Level.INFO,
        message="all nodes of the cluster understand a higher feature level, which is in force",
        fields={"feature_level": "its number; versions that do not know it can no longer join"},
        burst=0,
    ),
    LogEvent(
        name="unclean_election",
        level=Level.ERROR,
        message="a node leads a partition although it may lack committed messages",
        fields={
            "topic": "topic of the partition",
            "partition": "number of the partition",
            "node": "id of the node that leads",
            "is_by_operator": "false if the flush policy is interval and nobody had all for sure",
        },
        advice="Compare what consumers have with what producers sent.",
        per="topic",
    ),
    LogEvent(
        name="cluster_disturbed",
        level=Level.WARNING,
        message="this node is not in its cluster as it should be",
        fields={"reason": "what it waits for, or who refused it"},
    ),
    LogEvent(
        name="replica_lost",
        level=Level.ERROR,
        message="a copy of a partition lacks records that this node had confirmed",
        fields={
            "topic": "topic of the copy",
            "partition": "partition of the copy",
            "end": "where the copy ends",
            "noted": "an offset that it had reached",
        },
        advice=(
            "Who removed files of this node, or restored older ones? The copy leaves the ISR and "
            "is filled again from its leader. If no other copy was in sync, the partition stays "
            "without a leader until you choose one."
        ),
    ),
)
