"""A journey drawn as a tree: who hangs below whom, what is said once, what a terminal can bear."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.trace import elapsed, place, timeline
from goqueue.client.traces import Trace, TraceEvent, TraceFacts
from goqueue.model import SECOND

START = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def event(
    kind: str, span: str, parent: str | None = None, *, after_ms: float = 0, **facts: object
) -> TraceEvent:
    known: dict[str, object] = {"topic": "orders", "partition": 0, "offset": 7, **facts}
    return TraceEvent(
        timestamp=START + dt.timedelta(milliseconds=after_ms),
        event_type=kind,
        span_id=span,
        parent_span_id=parent,
        details=TraceFacts(**known),  # type: ignore[arg-type]  # by name
    )


def trace(*events: TraceEvent, status: str = "completed", topic: str = "orders") -> Trace:
    return Trace(
        trace_id="ab" * 16,
        topic=topic,
        partition=0,
        offset=7,
        status=status,
        start_time=START,
        duration_ms=1500.25,
        event_count=len(events),
        events=events,
    )


def drawn(*events: TraceEvent, width: int = 100) -> list[str]:
    """The lines below the head, without the times."""
    lines = timeline(trace(*events), width)
    return [line.partition(" ms  ")[2] for line in lines[lines.index("") + 1 :]]


def test_the_head_says_what_became_of_the_message_and_how_long_it_took() -> None:
    head = timeline(trace(event("publish.received", "a")), 80)[:5]
    assert head == [
        f"trace    {'ab' * 16}",
        "message  orders 0:7",
        "start    2026-01-02T03:04:05.000Z",
        "status   completed in 1.500 s, 1 events",
        "",
    ]
    assert "error after 1.500 s" in timeline(trace(status="error"), 80)[3]
    assert "pending; last seen after 1.500 s" in timeline(trace(status="pending"), 80)[3]


def test_what_followed_hangs_below_and_says_only_what_is_new() -> None:
    delivered: dict[str, Any] = {
        "consumer_group": "billing",
        "delivery_count": 1,
        "consumer_id": "c-1",
    }
    again: dict[str, Any] = {**delivered, "delivery_count": 2}
    assert drawn(
        event("publish.received", "a"),
        event("publish.persisted", "a"),
        event("consume.fetched", "b", "a", **delivered),
        event("consume.nacked", "c", "b", error="no money", **delivered),
        event("consume.fetched", "d", "a", **again),
        event("consume.acked", "e", "d", **again),
        event("dlq.routed", "f", "a", topic="orders.dlq", offset=0, dlq_topic="orders.dlq"),
    ) == [
        "publish.received      orders 0:7",
        "publish.persisted",
        "├─ consume.fetched    billing, attempt 1, c-1",
        "│  └─ consume.nacked  no money",
        "├─ consume.fetched    billing, attempt 2, c-1",
        "│  └─ consume.acked",
        "└─ dlq.routed         orders.dlq 0:0",
    ]


def test_what_came_from_a_span_that_is_not_kept_hangs_at_the_root() -> None:
    lines = drawn(
        event("publish.received", "a", "caller"),
        event("delay.fired", "b", "caller", offset=8),
        event("consume.fetched", "c", "lost", offset=8, consumer_group="g", delivery_count=3),
        event("consume.acked", "d", "c", offset=8, consumer_group="g", delivery_count=3),
    )
    assert lines == [
        "publish.received  orders 0:7",
        "delay.fired       orders 0:8",
        "consume.fetched   orders 0:8, g, attempt 3",
        "└─ consume.acked",
    ]


def test_times_count_from_the_first_event_and_stand_right() -> None:
    lines = timeline(
        trace(
            event("publish.received", "a"),
            event("publish.persisted", "a", after_ms=1.25),
            event("consume.fetched", "b", "a", after_ms=61_500, consumer_group="g"),
        ),
        80,
    )[5:]
    assert [line.strip().split("  ")[0] for line in lines] == [
        "0 ms",
        "1.2 ms",
        "1m1s",
    ]


@pytest.mark.parametrize(
    ("span_ns", "text"),
    [
        (0, "0 ms"),
        (1_000, "0.0 ms"),
        (999_900_000, "999.9 ms"),
        (SECOND, "1.000 s"),
        (59_999_000_000, "59.999 s"),
        (3_661 * SECOND + 5, "1h1m1s"),
    ],
)
def test_a_time_has_as_many_digits_as_anybody_follows(span_ns: int, text: str) -> None:
    assert elapsed(span_ns) == text


def test_a_delay_says_when_it_is_due_once() -> None:
    due = dt.datetime(2026, 1, 2, 4, 0, tzinfo=dt.UTC)
    lines = drawn(
        event("publish.received", "a", deliver_at=due),
        event("delay.scheduled", "a", deliver_at=due),
    )
    assert lines[1] == "delay.scheduled   due 2026-01-02T04:00:00.000Z"
    assert "due" not in lines[0]


def test_a_rebalance_has_a_topic_and_a_group_but_no_place() -> None:
    lines = drawn(
        event("rebalance.start", "a", partition=-1, offset=-1, consumer_group="g"),
        event("rebalance.complete", "a", partition=-1, offset=-1, consumer_group="g"),
    )
    assert lines == ["rebalance.start     orders, g", "rebalance.complete"]
    assert place("orders", -1, -1) == "orders"


def test_long_reasons_are_folded_within_eighty_columns_and_the_tree_goes_on_beside_them() -> None:
    words = "the bank says that there is not enough money on the account, and never was"
    lines = timeline(
        trace(
            event("publish.received", "a"),
            event("consume.fetched", "b", "a", consumer_group="billing", delivery_count=1),
            event(
                "consume.nacked", "c", "b", error=words, consumer_group="billing", delivery_count=1
            ),
            event("consume.fetched", "d", "a", consumer_group="billing", delivery_count=2),
        ),
        80,
    )
    assert max(map(len, lines)) <= 80
    folded = lines[lines.index("") + 4]
    assert folded.lstrip().startswith("│")
    text = " ".join(line.split("  ")[-1].strip("│ ") for line in lines[5:])
    assert words in text


@given(st.text(max_size=200), st.integers(1, 200))
def test_no_text_of_a_server_reaches_the_terminal_as_a_control(text: str, width: int) -> None:
    lines = timeline(
        trace(
            event(text, "a", topic=text, consumer_group=text, consumer_id=text, error=text),
            status=text,
            topic=text,
        ),
        width,
    )
    assert all(line.isprintable() for line in lines)


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12)).map(
            lambda ids: (f"{ids[0]}", f"{ids[1]}")
        )
    )
)
def test_every_event_is_shown_once_whatever_hangs_where(edges: list[tuple[str, str]]) -> None:
    events = [event("e", span, parent) for span, parent in edges]
    lines = timeline(trace(*events), 80)
    assert len(lines) == 5 + len(events)


def test_a_tree_without_end_is_shown_all_the_same() -> None:
    chain = [event("e", f"{number}", f"{number - 1}") for number in range(3_000)]
    assert len(timeline(trace(*chain), 80)) == 5 + 3_000
