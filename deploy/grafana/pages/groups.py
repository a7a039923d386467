"""Who is behind, who works, and whether groups settle."""

from deploy.grafana.pages.queries import GROUP, PAIR, WINDOW, quantiles, rate, total
from deploy.grafana.panels import Dashboard, Row, series

__all__ = ["GROUPS"]

GROUPS = Dashboard(
    name="groups",
    title="GoQueue / Groups and lag",
    meaning="Who is behind, who works, and whether groups settle.",
    has_topics=True,
    has_groups=True,
    rows=(
        Row(
            "Lag",
            (
                series(
                    "Lag by group",
                    (total("goqueue_consumer_lag", PAIR, "consumer_group"), "{{consumer_group}}"),
                    width=12,
                ),
                series(
                    "Change of the lag",
                    (
                        f"sum by (consumer_group) (deriv(goqueue_consumer_lag{{{PAIR}}}{WINDOW}))",
                        "{{consumer_group}}",
                    ),
                    unit="none",
                    meaning="Messages per second; below zero the group catches up.",
                    width=12,
                ),
                series(
                    "Farthest behind",
                    (
                        "topk(10, "
                        + total("goqueue_consumer_lag", PAIR, "topic", "consumer_group")
                        + ")",
                        "{{consumer_group}} in {{topic}}",
                    ),
                    width=12,
                ),
                series(
                    "Committed offset",
                    (
                        rate("goqueue_consumer_committed_offset", PAIR, "topic", "consumer_group"),
                        "{{consumer_group}} in {{topic}}",
                    ),
                    unit="cps",
                    meaning="How fast positions move; a reset is seen as a jump.",
                    width=12,
                ),
            ),
        ),
        Row(
            "Work",
            (
                series(
                    "Consumed",
                    (
                        rate("goqueue_broker_messages_consumed_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Settled",
                    (rate("goqueue_broker_messages_acked_total", PAIR), "acked"),
                    (rate("goqueue_broker_messages_nacked_total", PAIR), "nacked"),
                    (rate("goqueue_broker_messages_rejected_total", PAIR), "rejected"),
                    (rate("goqueue_broker_messages_expired_total", PAIR), "lease ran out"),
                    unit="cps",
                ),
                series(
                    "In flight",
                    (
                        total("goqueue_broker_messages_in_flight", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                ),
                series(
                    "Polls",
                    (
                        rate("goqueue_consumer_polls_total", GROUP, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    (
                        rate("goqueue_consumer_polls_empty_total", GROUP, "consumer_group"),
                        "{{consumer_group}}, empty",
                    ),
                    unit="cps",
                ),
                series(
                    "Messages per poll",
                    (
                        rate("goqueue_consumer_poll_batch_size_sum", GROUP, "consumer_group")
                        + " / "
                        + rate("goqueue_consumer_poll_batch_size_count", GROUP, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                ),
                quantiles("Poll", "goqueue_consumer_poll_latency_seconds", GROUP),
            ),
        ),
        Row(
            "Membership",
            (
                series(
                    "Members",
                    (
                        total("goqueue_consumer_group_members", GROUP, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                ),
                series(
                    "Partitions",
                    (
                        total("goqueue_consumer_assigned_partitions", GROUP, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                ),
                series(
                    "Groups by state",
                    (total("goqueue_consumer_group_state", GROUP, "state"), "{{state}}"),
                    is_stacked=True,
                ),
                series(
                    "Rebalances",
                    (
                        rate("goqueue_consumer_rebalances_total", GROUP, "trigger"),
                        "{{trigger}}",
                    ),
                    unit="cps",
                ),
                quantiles("Rebalance", "goqueue_consumer_rebalance_latency_seconds", GROUP),
                series(
                    "Sessions",
                    (rate("goqueue_consumer_group_joins_total", GROUP), "joins"),
                    (rate("goqueue_consumer_heartbeats_sent_total", GROUP), "heartbeats"),
                    (rate("goqueue_consumer_session_timeouts_total", GROUP), "timed out"),
                    unit="cps",
                ),
                series(
                    "Commits",
                    (
                        rate("goqueue_consumer_offset_commits_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="cps",
                ),
                quantiles("Commit", "goqueue_consumer_offset_commit_latency_seconds", GROUP),
            ),
        ),
    ),
)
