"""The commands of `goqueue delayed`: arguments in, one request, its answer out."""

import click

from goqueue.cli.confirmation import confirm, force_option
from goqueue.cli.names import topic_argument
from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["delayed"]

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
    from goqueue.cli.asking import ask, show
    from goqueue.cli.delayed.tables import Page, draw_page
    from goqueue.client.transport import get

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
    from goqueue.cli.asking import ask, show
    from goqueue.cli.delayed.tables import draw_message
    from goqueue.client.admin import DelayedMessage
    from goqueue.client.transport import get

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
    from goqueue.cli.asking import ask, show
    from goqueue.cli.delayed.tables import Cancelled, draw_cancelled
    from goqueue.client.transport import Request, target

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
    from goqueue.cli.asking import ask, show
    from goqueue.cli.delayed.tables import draw_stats
    from goqueue.client.admin import DelayStats
    from goqueue.client.transport import get

    show(ask(get("delay", "stats")), output, DelayStats, draw_stats)
    return DONE
