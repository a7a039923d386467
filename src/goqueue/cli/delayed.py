"""`goqueue delayed`: list, show and cancel delayed messages.

Delayed messages drawn for a person.
"""

import datetime as dt

import click
import msgspec

from goqueue.cli.options import (
    Output,
    confirm,
    force_option,
    output_option,
    server_options,
    topic_argument,
)
from goqueue.cli.output import console, draw, printable, table
from goqueue.client.admin_replies import DelayedMessage, DelayStats
from goqueue.model import MILLISECOND, SECOND, format_duration, parse_duration

__all__ = [
    "Cancelled",
    "Page",
    "delayed",
    "draw_cancelled",
    "draw_message",
    "draw_page",
    "draw_stats",
]


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


DONE = 0

_OFFSET = click.argument("offset", type=click.IntRange(0))


@click.group("delayed")
@server_options
@output_option
def delayed(output: Output) -> None:
    """Look at messages that wait for their time, and cancel them."""


@delayed.command("list", short_help="List messages that wait, by the time they are due.")
@topic_argument
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="At most so many; the server gives no more than 1000.",
)
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Pass over so many.")
@server_options
@output_option
def list_command(topic: str, limit: int, skip: int, output: Output) -> int:
    """List the messages of TOPIC that wait, by the time they are due."""
    from goqueue.cli.client import ask
    from goqueue.cli.output import show
    from goqueue.client.http import get

    request = get("topics", topic, "delayed", limit=limit, skip=skip)
    show(ask(request), output, Page, draw_page)
    return DONE


@delayed.command("get", short_help="Show what became of one delayed message.")
@topic_argument
@_OFFSET
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="Where to look.  [default: the first that has it]",
)
@server_options
@output_option
def get_command(topic: str, offset: int, partition: int | None, output: Output) -> int:
    """Show the delayed message of TOPIC that was published at OFFSET."""
    from goqueue.cli.client import ask
    from goqueue.cli.output import show
    from goqueue.client.admin_replies import DelayedMessage
    from goqueue.client.http import get

    request = get("topics", topic, "delayed", offset, partition=partition)
    show(ask(request), output, DelayedMessage, draw_message)
    return DONE


@delayed.command("cancel", short_help="Cancel a message that waits.")
@topic_argument
@click.argument("partition", type=click.IntRange(0))
@_OFFSET
@force_option
@server_options
@output_option
def cancel_command(
    topic: str, partition: int, offset: int, output: Output, *, is_forced: bool
) -> int:
    """Cancel the message of TOPIC that was published at PARTITION and OFFSET, for good."""
    from goqueue.cli.client import ask
    from goqueue.cli.output import show
    from goqueue.client.http import Request, target

    confirm(f"Cancel the message {partition}:{offset} of {topic!a}?", is_forced=is_forced)
    place = target("topics", topic, "delayed", partition, offset)
    request = Request(method="DELETE", target=place, is_repeatable=True)
    show(ask(request), output, Cancelled, draw_cancelled)
    return DONE


@delayed.command("stats", short_help="Count delayed messages.")
@server_options
@output_option
def stats_command(output: Output) -> int:
    """Count the delayed messages of the server: those that wait, were delivered, were cancelled."""
    from goqueue.cli.client import ask
    from goqueue.cli.output import show
    from goqueue.client.admin_replies import DelayStats
    from goqueue.client.http import get

    show(ask(get("delay", "stats")), output, DelayStats, draw_stats)
    return DONE
