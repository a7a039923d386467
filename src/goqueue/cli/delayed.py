"""`goqueue delayed`: list, show and cancel delayed messages."""

import click

from goqueue.cli.client import ask
from goqueue.cli.options import (
    Output,
    Place,
    confirm,
    force_option,
    limit_option,
    output_option,
    place_argument,
    server_options,
    skip_option,
    topic_argument,
)
from goqueue.cli.output import console, draw, printable, show, table
from goqueue.cli.quantities import shown_duration, shown_time
from goqueue.client.admin_replies import DelayedMessage, DelayedPage, DelayStats

__all__ = [
    "delayed",
    "draw_message",
    "draw_page",
    "draw_stats",
]


def draw_page(page: DelayedPage) -> None:
    rows = [
        (
            f"{each.partition}:{each.offset}",
            shown_time(each.deliver_at),
            shown_duration(each.time_remaining),
            each.priority,
        )
        for each in page.messages
    ]
    nothing = f"no delayed messages in {printable(page.topic)}"
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
        ("due", shown_time(message.deliver_at)),
        ("in", shown_duration(message.time_remaining)),
        ("priority", message.priority),
    ]
    if message.delivered_offset is not None:
        facts.append(("delivered as", f"{message.partition}:{message.delivered_offset}"))
    console().print(table(("FIELD", "VALUE"), facts))


def draw_stats(stats: DelayStats) -> None:
    facts = [
        ("waiting", str(stats.pending_count)),
        ("delivered", str(stats.delivered_count)),
        ("cancelled", str(stats.cancelled_count)),
        ("average delay", shown_duration(stats.avg_delay)),
    ]
    if stats.next_due_at is not None:
        facts.append(("next due", shown_time(stats.next_due_at)))
    console().print(table(("FIELD", "VALUE"), facts))
    rows = sorted(stats.by_topic.items())
    if rows:
        console().print(table(("TOPIC", "WAITING"), rows))


@click.group("delayed")
@server_options
@output_option
def delayed(output: Output) -> None:
    """Inspect delayed messages that are not due yet, and cancel them."""


@delayed.command("list", short_help="List pending messages by the time they are due.")
@topic_argument
@limit_option("messages, up to 1000")
@skip_option("messages")
@server_options
@output_option
def list_command(topic: str, limit: int, skip: int, output: Output) -> None:
    """List the pending delayed messages of TOPIC by the time they are due."""
    page = ask(lambda q: q.delayed.page(topic, limit=limit, skip=skip))
    show(page, output, draw_page, items="messages")


@delayed.command("get", short_help="Show one delayed message.")
@topic_argument
@place_argument
@server_options
@output_option
def get_command(topic: str, place: Place, output: Output) -> None:
    """Show the delayed message of TOPIC that was published at PARTITION:OFFSET."""
    found = ask(lambda q: q.delayed.get(topic, place.offset, partition=place.partition))
    show(found, output, draw_message)


@delayed.command("cancel", short_help="Cancel a pending message.")
@topic_argument
@place_argument
@force_option
@server_options
@output_option
def cancel_command(topic: str, place: Place, output: Output, *, is_forced: bool) -> None:
    """Cancel the delayed message of TOPIC at PARTITION:OFFSET: it is never delivered."""
    confirm(f"Cancel the message {place} of {topic!a}?", is_forced=is_forced)
    cancelled = ask(lambda q: q.delayed.cancel(topic, place.partition, place.offset))
    words = printable(f"cancelled {topic} {place}")
    show(cancelled, output, lambda _: print(words))


@delayed.command("stats", short_help="Count delayed messages.")
@server_options
@output_option
def stats_command(output: Output) -> None:
    """Count pending, delivered and cancelled delayed messages on the server."""
    show(ask(lambda q: q.delayed.stats()), output, draw_stats)
