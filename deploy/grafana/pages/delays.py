"""Messages that wait for their time, and the priorities of the others."""

from deploy.grafana.pages.queries import TOPIC, rate, total
from deploy.grafana.panels import Dashboard, Row, series

__all__ = ["DELAYS"]

_NEXT_DUE = f"goqueue_broker_delayed_messages_next_due{{{TOPIC}}}"

DELAYS = Dashboard(
    name="delays",
    title="GoQueue / Delays and lanes",
    meaning="Messages that wait for their time, and the priorities of the others.",
    has_topics=True,
    rows=(
        Row(
            "Delays",
            (
                series(
                    "Pending",
                    (total("goqueue_broker_delayed_messages_pending", TOPIC, "topic"), "{{topic}}"),
                    width=12,
                ),
                series(
                    "Next due in",
                    (
                        f"min by (topic) ({_NEXT_DUE}) - time()",
                        "{{topic}}",
                    ),
                    unit="s",
                    meaning="What stays below zero is overdue.",
                    width=12,
                ),
                series(
                    "Scheduled and delivered",
                    (rate("goqueue_broker_delayed_messages_scheduled_total", TOPIC), "scheduled"),
                    (rate("goqueue_broker_delayed_messages_fired_total", TOPIC), "delivered"),
                    (rate("goqueue_broker_delayed_messages_cancelled_total", TOPIC), "cancelled"),
                    unit="cps",
                    width=12,
                ),
                series(
                    "Delivered",
                    (
                        rate("goqueue_broker_delayed_messages_fired_total", TOPIC, "topic"),
                        "{{topic}}",
                    ),
                    unit="cps",
                    width=12,
                ),
            ),
        ),
        Row(
            "Lanes",
            (
                series(
                    "Published by priority",
                    (
                        rate("goqueue_broker_priority_messages_published_total", TOPIC, "priority"),
                        "{{priority}}",
                    ),
                    unit="cps",
                    is_stacked=True,
                    width=12,
                ),
                series(
                    "Share of each priority",
                    (
                        rate("goqueue_broker_priority_messages_published_total", TOPIC, "priority")
                        + " / ignoring (priority) group_left "
                        + rate("goqueue_broker_priority_messages_published_total", TOPIC),
                        "{{priority}}",
                    ),
                    unit="percentunit",
                    width=12,
                ),
                series(
                    "Urgent messages by topic",
                    (
                        rate(
                            "goqueue_broker_priority_messages_published_total",
                            f'{TOPIC}, priority=~"critical|high"',
                            "topic",
                            "priority",
                        ),
                        "{{topic}}, {{priority}}",
                    ),
                    unit="cps",
                    meaning="If everything is urgent, nothing is.",
                    width=24,
                ),
            ),
        ),
    ),
)
