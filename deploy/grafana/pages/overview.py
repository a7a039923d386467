"""Whether the nodes are well, and what goes through them."""

from deploy.grafana.pages.queries import NODE, quantiles, rate, total
from deploy.grafana.panels import Dashboard, Row, number, percentage, series

__all__ = ["OVERVIEW"]

OVERVIEW = Dashboard(
    name="overview",
    title="GoQueue / Overview",
    meaning="Whether the nodes are well, and what goes through them.",
    rows=(
        Row(
            "Health",
            (
                number("Ready", f"min (goqueue_broker_ready{{{NODE}}})", "bool_yes_no", (1, 1)),
                number(
                    "Up for",
                    f"time() - max (process_start_time_seconds{{{NODE}}})",
                    "s",
                ),
                number(
                    "Alerts", '(count (ALERTS{alertstate="firing"}) or vector(0))', limits=(1, 3)
                ),
                number("Lag", total("goqueue_consumer_lag", NODE)),
                number(
                    "Dead letters", total("goqueue_broker_dead_letters", NODE), limits=(1, 1000)
                ),
                percentage(
                    "Disk free",
                    f"min (goqueue_storage_volume_free_bytes{{{NODE}}} "
                    f"/ goqueue_storage_volume_size_bytes{{{NODE}}})",
                    (0.3, 0.1),
                ),
                number("Topics", f"max (goqueue_broker_topic_count{{{NODE}}})"),
                number("Groups", f"count (goqueue_consumer_group_members{{{NODE}}})"),
                number("Connections", total("goqueue_broker_active_connections", NODE)),
                number("Delayed", total("goqueue_broker_delayed_messages_pending", NODE)),
                number("In flight", total("goqueue_broker_messages_in_flight", NODE)),
                number("Failed logs", total("goqueue_storage_failed_logs", NODE), limits=(1, 1)),
            ),
        ),
        Row(
            "Messages",
            (
                series(
                    "Published",
                    (rate("goqueue_broker_messages_published_total", NODE, "topic"), "{{topic}}"),
                    unit="cps",
                    is_stacked=True,
                ),
                series(
                    "Consumed",
                    (
                        rate("goqueue_broker_messages_consumed_total", NODE, "topic"),
                        "{{topic}}",
                    ),
                    unit="cps",
                    meaning="By groups, and by readers without a group.",
                    is_stacked=True,
                ),
                series(
                    "Refused",
                    (
                        rate("goqueue_broker_messages_failed_total", NODE, "error_type"),
                        "{{error_type}}",
                    ),
                    unit="cps",
                    meaning="Messages that were not taken, by the code of the refusal.",
                ),
                series(
                    "Bytes",
                    (rate("goqueue_broker_bytes_published_total", NODE), "published"),
                    (rate("goqueue_broker_bytes_consumed_total", NODE), "consumed"),
                    unit="Bps",
                ),
                series(
                    "Requests",
                    (rate("goqueue_http_requests_total", NODE, "instance"), "{{instance}}"),
                    unit="reqps",
                ),
                series(
                    "Transactions",
                    (rate("goqueue_broker_transactions_started_total", NODE), "started"),
                    (rate("goqueue_broker_transactions_committed_total", NODE), "committed"),
                    (rate("goqueue_broker_transactions_aborted_total", NODE), "aborted"),
                    unit="cps",
                ),
            ),
        ),
        Row(
            "Latency",
            (
                quantiles(
                    "Publish",
                    "goqueue_broker_publish_latency_seconds",
                    NODE,
                    "From a publish until all of it is durable.",
                ),
                quantiles("Fetch", "goqueue_broker_fetch_latency_seconds", NODE),
                quantiles("Settle", "goqueue_broker_ack_latency_seconds", NODE, by="ack_type"),
                quantiles("Transactions", "goqueue_broker_transaction_latency_seconds", NODE),
                quantiles("Sync", "goqueue_storage_fsync_latency_seconds", NODE),
                quantiles(
                    "Event loop",
                    "goqueue_runtime_event_loop_lag_seconds",
                    NODE,
                    "How late timers are: whatever holds up the loop holds up every request.",
                ),
            ),
        ),
        Row(
            "Process",
            (
                series(
                    "Processor",
                    (rate("process_cpu_seconds_total", NODE, "instance"), "{{instance}}"),
                    unit="percentunit",
                ),
                series(
                    "Memory",
                    (f"process_resident_memory_bytes{{{NODE}}}", "{{instance}}"),
                    unit="bytes",
                ),
                series(
                    "Descriptors",
                    (f"process_open_fds{{{NODE}}}", "{{instance}} open"),
                    (f"process_max_fds{{{NODE}}}", "{{instance}} limit"),
                ),
                series(
                    "Disk queue",
                    (f"goqueue_runtime_disk_queue_length{{{NODE}}}", "{{instance}}"),
                    meaning="What the disk thread has not done yet.",
                ),
                series(
                    "Garbage collections",
                    (
                        rate("python_gc_collections_total", NODE, "generation"),
                        "generation {{generation}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Network",
                    (rate("goqueue_http_received_bytes_total", NODE), "received"),
                    (rate("goqueue_http_sent_bytes_total", NODE), "sent"),
                    unit="Bps",
                ),
            ),
        ),
    ),
)
