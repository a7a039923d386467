"""Messages that nobody could work on: where they lie, and how they came there."""

from deploy.grafana.pages.queries import NODE, PAIR, TOPIC, rate, total
from deploy.grafana.panels import Dashboard, Row, series

__all__ = ["LETTERS"]

_DEATHS = f'{TOPIC}, cause=~"rejected|max_deliveries"'

LETTERS = Dashboard(
    name="dead-letters",
    title="GoQueue / Dead letters",
    meaning="Messages that nobody could work on: where they lie, and how they came there.",
    has_topics=True,
    has_groups=True,
    rows=(
        Row(
            "Letters",
            (
                series(
                    "Kept",
                    (total("goqueue_broker_dead_letters", NODE, "topic"), "{{topic}}"),
                    meaning="Not redriven yet, by the dead-letter topic.",
                    width=12,
                ),
                series(
                    "Dying",
                    (
                        rate("goqueue_broker_messages_moved_total", _DEATHS, "topic", "cause"),
                        "{{topic}}, {{cause}}",
                    ),
                    unit="cps",
                    width=12,
                ),
                series(
                    "Died so far, by cause",
                    (total("goqueue_broker_messages_moved_total", _DEATHS, "cause"), "{{cause}}"),
                    meaning="Since the node started.",
                    width=12,
                ),
                series(
                    "Redriven",
                    (
                        rate(
                            "goqueue_broker_messages_moved_total",
                            f'{NODE}, cause="redrive"',
                            "topic",
                        ),
                        "{{topic}}",
                    ),
                    unit="cps",
                    width=12,
                ),
            ),
        ),
        Row(
            "What leads there",
            (
                series(
                    "Nacks",
                    (
                        rate("goqueue_broker_messages_nacked_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Rejections",
                    (
                        rate("goqueue_broker_messages_rejected_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Leases that ran out",
                    (
                        rate("goqueue_broker_messages_expired_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Redelivered",
                    (
                        rate("goqueue_broker_messages_redelivered_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="cps",
                ),
                series(
                    "Share of deliveries that are not the first",
                    (
                        rate("goqueue_broker_messages_redelivered_total", PAIR, "consumer_group")
                        + " / "
                        + rate("goqueue_broker_messages_consumed_total", PAIR, "consumer_group"),
                        "{{consumer_group}}",
                    ),
                    unit="percentunit",
                    width=16,
                ),
            ),
        ),
    ),
)
