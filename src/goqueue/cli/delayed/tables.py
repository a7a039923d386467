"""Delayed messages drawn for a person."""

import datetime as dt

import msgspec

from goqueue.cli.asking import draw
from goqueue.cli.render import console, printable, table
from goqueue.client.admin import DelayedMessage, DelayStats
from goqueue.model import MILLISECOND, SECOND, format_duration, parse_duration

__all__ = ["Cancelled", "Page", "draw_cancelled", "draw_message", "draw_page", "draw_stats"]


class Page(msgspec.Struct, frozen=True):
    """The answer that lists those that wait."""

    topic: str
    messages: tuple[DelayedMessage, ...]
    total: int
    skip: int


class Cancelled(msgspec.Struct, frozen=True):
    """The answer to a cancellation."""

    topic: str
    partition: int
    offset: int


def draw_page(page: Page) -> None:
    rows = [
        (
            f"{each.partition}:{each.offset}",
            _time(each.deliver_at),
            _span(each.time_remaining),
            each.priority,
        )
        for each in page.messages
    ]
    nothing = f"nothing of {printable(page.topic)} waits"
    empty = f"{nothing} beyond these {page.total}" if page.total else nothing
    draw(("MESSAGE", "DUE", "IN", "PRIORITY"), rows, empty=empty)
    following = page.skip + len(rows)
    if rows and following < page.total:
        print(f"{page.total - following} more: --skip {following}")


def draw_message(message: DelayedMessage) -> None:
    facts = [
        ("topic", message.topic),
        ("message", f"{message.partition}:{message.offset}"),
        ("state", message.state),
        ("due", _time(message.deliver_at)),
        ("in", _span(message.time_remaining)),
        ("priority", message.priority),
    ]
    if message.delivered_offset is not None:
        facts.append(("delivered as", f"{message.partition}:{message.delivered_offset}"))
    console().print(table(("FIELD", "VALUE"), facts))


def draw_cancelled(cancelled: Cancelled) -> None:
    print(printable(f"cancelled {cancelled.topic} {cancelled.partition}:{cancelled.offset}"))


def draw_stats(stats: DelayStats) -> None:
    facts = [
        ("waiting", str(stats.pending_count)),
        ("delivered", str(stats.delivered_count)),
        ("cancelled", str(stats.cancelled_count)),
        ("average delay", _span(stats.avg_delay)),
    ]
    if stats.next_due_at is not None:
        facts.append(("next due", _time(stats.next_due_at)))
    console().print(table(("FIELD", "VALUE"), facts))
    rows = sorted(stats.by_topic.items())
    if rows:
        console().print(table(("TOPIC", "WAITING"), rows))


def _span(text: str) -> str:
    """A duration without what nobody can follow: below a second by milliseconds."""
    span_ns = parse_duration(text)
    unit = SECOND if span_ns >= SECOND else MILLISECOND
    return format_duration(span_ns - span_ns % unit)


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
