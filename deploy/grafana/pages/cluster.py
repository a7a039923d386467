"""Whether the nodes of a cluster agree, whether all copies are complete, and what that costs."""

from deploy.grafana.pages.queries import NODE, TOPIC, quantiles, rate, total
from deploy.grafana.panels import Dashboard, Row, number, series

__all__ = ["CLUSTER"]

_ELECTION = "goqueue_cluster_leader_election_latency_seconds"


def _most(metric: str, *by: str) -> str:
    """What every node says alike: one that is cut off may say less."""
    summed = f"max by ({', '.join(by)})" if by else "max"
    return f"{summed} (goqueue_cluster_{metric}{{{NODE}}})"


CLUSTER = Dashboard(
    name="cluster",
    title="GoQueue / Cluster",
    meaning="Whether the nodes agree, whether all copies are complete, and what that costs.",
    has_topics=True,
    rows=(
        Row(
            "Health",
            (
                number("Nodes", _most("nodes_total")),
                number("Healthy", f"min (goqueue_cluster_nodes_healthy{{{NODE}}})"),
                number(
                    "Controllers",
                    total("goqueue_cluster_is_controller", NODE),
                    limits=(2, 2),
                ),
                number("Partitions", _most("partition_count")),
                number("Offline", _most("offline_partitions"), limits=(1, 1)),
                number("Under-replicated", _most("under_replicated_partitions"), limits=(1, 1000)),
            ),
        ),
        Row(
            "Nodes",
            (
                series(
                    "Controller",
                    (
                        f"max by (instance) (goqueue_cluster_is_controller{{{NODE}}})",
                        "{{instance}}",
                    ),
                    meaning="1 for the node that decides.",
                ),
                series(
                    "Not alive",
                    (
                        total(
                            "goqueue_cluster_node_state",
                            f'{NODE}, state!="alive"',
                            "node_id",
                            "state",
                        ),
                        "{{node_id}} {{state}}",
                    ),
                    meaning="How many nodes say so; one that is cut off says it of all others.",
                ),
                series(
                    "Lost nodes",
                    (
                        rate("goqueue_cluster_failure_detections_total", NODE, "node_id"),
                        "{{node_id}}",
                    ),
                    (rate("goqueue_cluster_heartbeats_missed_total", NODE), "missed heartbeats"),
                    unit="cps",
                ),
                series("Leads", (_most("leaders_per_node", "node_id"), "{{node_id}}")),
                series("Follows", (_most("followers_per_node", "node_id"), "{{node_id}}")),
                series(
                    "Age of the controller",
                    (_most("controller_age_seconds"), "age"),
                    unit="s",
                    meaning="It falls to zero when another one takes over.",
                ),
            ),
        ),
        Row(
            "Copies",
            (
                series(
                    "Smallest ISR",
                    (
                        f"min by (topic) (goqueue_cluster_isr_size{{{TOPIC}}})",
                        "{{topic}}",
                    ),
                ),
                series(
                    "Changes of ISRs",
                    (rate("goqueue_cluster_isr_shrinks_total", TOPIC), "shrinks"),
                    (rate("goqueue_cluster_isr_expands_total", TOPIC), "expands"),
                    unit="cps",
                    meaning="Copies that fell out of sync, and that caught up.",
                ),
                series(
                    "Lag of copies",
                    (
                        f"max by (node_id) (goqueue_cluster_replication_lag{{{TOPIC}}})",
                        "{{node_id}}",
                    ),
                    meaning="Records that the worst copy of a node lacks.",
                ),
                series(
                    "Offline and under-replicated",
                    (_most("offline_partitions"), "offline"),
                    (_most("under_replicated_partitions"), "under-replicated"),
                ),
                quantiles(
                    "Confirmation by followers",
                    "goqueue_cluster_fetch_latency_seconds",
                    NODE,
                    meaning="From sending a batch until the follower has it synced.",
                    by="node_id",
                ),
                series(
                    "Copied",
                    (
                        rate("goqueue_cluster_bytes_replicated_total", TOPIC, "instance"),
                        "{{instance}}",
                    ),
                    unit="Bps",
                ),
            ),
        ),
        Row(
            "Failovers",
            (
                series(
                    "Elections of leaders",
                    (
                        rate("goqueue_cluster_leader_elections_total", TOPIC, "election_type"),
                        "{{election_type}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Time of an election",
                    (
                        total(f"{_ELECTION}_sum", TOPIC, "instance")
                        + " / "
                        + total(f"{_ELECTION}_count", TOPIC, "instance"),
                        "{{instance}}",
                    ),
                    unit="s",
                    meaning="Average since the start of a node: from knowing that a partition is "
                    "vacant until leading it.",
                ),
                series(
                    "Elections of controllers, unclean elections, so far",
                    (
                        _most("controller_elections_total"),
                        "controllers",
                    ),
                    (
                        total("goqueue_cluster_unclean_leader_elections_total", NODE),
                        "unclean",
                    ),
                ),
                series(
                    "Refused for lack of leaders or copies",
                    (
                        rate(
                            "goqueue_broker_messages_failed_total",
                            f'{TOPIC}, error_type=~"leader_unavailable|not_enough_replicas'
                            '|replication_failed"',
                            "error_type",
                        )
                        + " or vector(0)",
                        "{{error_type}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Not led by the preferred leader",
                    (_most("preferred_leader_imbalance"), "share"),
                    unit="percentunit",
                ),
                series(
                    "Committed",
                    (f"sum by (topic) (goqueue_cluster_high_watermark{{{TOPIC}}})", "{{topic}}"),
                    meaning="Offset up to which the partitions of a topic are committed, summed.",
                ),
            ),
        ),
        Row(
            "Links",
            (
                series(
                    "Traffic",
                    (
                        rate(
                            "goqueue_cluster_inter_broker_network_in_bytes_total", NODE, "instance"
                        ),
                        "to {{instance}}",
                    ),
                    (
                        rate(
                            "goqueue_cluster_inter_broker_network_out_bytes_total", NODE, "instance"
                        ),
                        "from {{instance}}",
                    ),
                    unit="Bps",
                ),
                quantiles(
                    "Answers to the controller",
                    "goqueue_cluster_inter_broker_latency_seconds",
                    NODE,
                    by="target_node_id",
                ),
                series(
                    "Clocks",
                    (
                        f"max by (node_id) (abs(goqueue_cluster_clock_offset_seconds{{{NODE}}}))",
                        "{{node_id}}",
                    ),
                    unit="s",
                    meaning="How far the clock of a node is from that of any other.",
                ),
                series(
                    "Links",
                    (total("goqueue_peer_links", NODE, "instance"), "{{instance}}"),
                    meaning="Three to each other node.",
                ),
                series(
                    "Queued",
                    (total("goqueue_peer_queued_bytes", NODE, "instance"), "{{instance}}"),
                    unit="bytes",
                ),
                series(
                    "Messages between nodes",
                    (rate("goqueue_peer_messages_sent_total", NODE), "sent"),
                    (rate("goqueue_cluster_fetch_requests_total", NODE), "confirmations"),
                    (rate("goqueue_cluster_heartbeats_received_total", NODE), "heartbeats"),
                    (rate("goqueue_peer_refused_total", NODE), "refused connections"),
                    unit="cps",
                ),
            ),
        ),
    ),
)
