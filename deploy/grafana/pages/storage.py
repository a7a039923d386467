"""The disk: how full, how fast, and whether it fails."""

from deploy.grafana.pages.queries import NODE, TOPIC, quantiles, rate, total
from deploy.grafana.panels import Dashboard, Row, number, percentage, series

__all__ = ["STORAGE"]

STORAGE = Dashboard(
    name="storage",
    title="GoQueue / Storage",
    meaning="The disk: how full, how fast, and whether it fails.",
    has_topics=True,
    rows=(
        Row(
            "Disk",
            (
                percentage(
                    "Free",
                    f"min (goqueue_storage_volume_free_bytes{{{NODE}}} "
                    f"/ goqueue_storage_volume_size_bytes{{{NODE}}})",
                    (0.3, 0.1),
                ),
                number("Kept", total("goqueue_storage_log_size_bytes", TOPIC), "bytes"),
                number("Segments", total("goqueue_storage_segments_total", TOPIC)),
                number("Failed logs", total("goqueue_storage_failed_logs", NODE), limits=(1, 1)),
                number(
                    "Failed syncs",
                    total("goqueue_storage_fsync_errors_total", TOPIC),
                    limits=(1, 1),
                ),
                number("Rebuilt indexes", total("goqueue_storage_index_rebuilds_total", TOPIC)),
                series(
                    "Free space",
                    (f"goqueue_storage_volume_free_bytes{{{NODE}}}", "{{instance}}"),
                    unit="bytes",
                ),
                series(
                    "Size by topic",
                    (total("goqueue_storage_log_size_bytes", TOPIC, "topic"), "{{topic}}"),
                    unit="bytes",
                    is_stacked=True,
                ),
                series(
                    "Records written",
                    (
                        rate("goqueue_storage_log_end_offset", TOPIC, "topic"),
                        "{{topic}}",
                    ),
                    unit="cps",
                    meaning="Offsets per second: messages, delayed messages and markers.",
                ),
            ),
        ),
        Row(
            "Writing and reading",
            (
                series(
                    "Bytes",
                    (rate("goqueue_storage_bytes_written_total", TOPIC), "written"),
                    (rate("goqueue_storage_bytes_read_total", TOPIC), "read"),
                    unit="Bps",
                ),
                series(
                    "Syncs",
                    (rate("goqueue_storage_fsync_total", TOPIC, "topic"), "{{topic}}"),
                    unit="cps",
                ),
                quantiles("Sync", "goqueue_storage_fsync_latency_seconds", TOPIC),
                series(
                    "Messages per sync",
                    (
                        rate("goqueue_broker_messages_published_total", TOPIC)
                        + " / "
                        + rate("goqueue_storage_fsync_total", TOPIC),
                        "messages",
                    ),
                    meaning="The group grows with the slowness of the disk.",
                ),
                series(
                    "Index lookups",
                    (
                        rate("goqueue_storage_index_lookups_total", TOPIC, "index_type"),
                        "{{index_type}}",
                    ),
                    unit="cps",
                ),
                quantiles("Index lookup", "goqueue_storage_index_lookup_latency_seconds", TOPIC),
            ),
        ),
        Row(
            "Segments, compaction, snapshots",
            (
                series(
                    "Segments",
                    (total("goqueue_storage_segments_total", TOPIC, "topic"), "{{topic}}"),
                ),
                series(
                    "Segments begun and removed",
                    (rate("goqueue_storage_segments_created_total", TOPIC), "begun"),
                    (rate("goqueue_storage_segments_deleted_total", TOPIC), "removed"),
                    unit="cps",
                ),
                series(
                    "Dirty share",
                    (
                        f"max by (topic) (goqueue_storage_compaction_dirty_ratio{{{TOPIC}}})",
                        "{{topic}}",
                    ),
                    unit="percentunit",
                    meaning="Of compacted topics: how much of them compaction has not seen.",
                ),
                series(
                    "Compactions",
                    (rate("goqueue_storage_compaction_runs_total", TOPIC), "runs"),
                    unit="cps",
                ),
                series(
                    "Reclaimed",
                    (
                        rate("goqueue_storage_compaction_bytes_reclaimed_total", TOPIC),
                        "by compaction",
                    ),
                    unit="Bps",
                ),
                series(
                    "Snapshots",
                    (
                        f"sum by (snapshot_type) (goqueue_storage_snapshot_size_bytes{{{NODE}}})",
                        "{{snapshot_type}}",
                    ),
                    unit="bytes",
                    meaning="Size of the last one of each type.",
                ),
            ),
        ),
    ),
)
