"""The commands of `goqueue trace`: arguments in, a request, its answer out."""

import click

from goqueue.cli.names import complete_groups, complete_topics, topic_argument
from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["trace"]

DONE = 0

_LIMIT = click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="N",
    help="At most so many; the server gives no more than 1000.",
)


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.asking import known_traces

    return known_traces(context, incomplete)


@click.group("trace")
@server_options
@output_option
def trace(output: Output) -> None:
    """Find out where a message went, and what happened to it on the way.

    A server keeps the newest events in memory, since its start.
    """


@trace.command("message", short_help="Show the journey of the message at a place.")
@topic_argument
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@server_options
@output_option
def message_command(topic: str, partition: int, offset: int, output: Output) -> int:
    """Show the whole journey of the message that stands, or stood, at this place of TOPIC."""
    from goqueue.cli.asking import Session, run_session, show
    from goqueue.cli.trace.finding import find_message
    from goqueue.cli.trace.tables import draw_trace
    from goqueue.client.admin import Trace

    async def scene(session: Session) -> bytes:
        return await find_message(session, topic, partition, offset)

    show(run_session(scene), output, Trace, draw_trace)
    return DONE


@trace.command("list", short_help="List the newest journeys.")
@_LIMIT
@server_options
@output_option
def list_command(limit: int, output: Output) -> int:
    """List the journeys of messages, the newest first."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.trace.tables import draw_page
    from goqueue.client.admin import TraceList
    from goqueue.client.transport import get

    show(ask(get("traces", limit=limit)), output, TraceList, draw_page)
    return DONE


@trace.command("get", short_help="Show one journey.")
@click.argument("trace_id", metavar="ID", shell_complete=_complete)
@server_options
@output_option
def get_command(trace_id: str, output: Output) -> int:
    """Show everything that is kept of the trace ID, as a tree."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.trace.tables import draw_trace
    from goqueue.client.admin import Trace
    from goqueue.client.transport import get

    show(ask(get("traces", trace_id)), output, Trace, draw_trace)
    return DONE


@trace.command("search", short_help="List journeys with an event that is like this.")
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="In this topic.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="In this partition.")
@click.option("--offset", type=click.IntRange(0), metavar="N", help="At this offset.")
@click.option("--key", metavar="KEY", help="Of a message published with this key.")
@click.option("--group", metavar="GROUP", shell_complete=complete_groups, help="In this group.")
@click.option("--consumer", metavar="ID", help="With this member of a group.")
@click.option("--start", metavar="TIME", help="Not before a time, or so long ago as 15m.")
@click.option("--end", metavar="TIME", help="Not after a time, or so long ago as 15m.")
@click.option(
    "--status",
    type=click.Choice(["completed", "error", "pending"]),
    help="That stand like this.",
)
@_LIMIT
@server_options
@output_option
def search_command(output: Output, **given: str | int | None) -> int:
    """List the journeys with an event that fits all that is given, the newest first."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.trace.searching import search_request
    from goqueue.cli.trace.tables import draw_page
    from goqueue.client.admin import TraceList

    show(ask(search_request(given)), output, TraceList, draw_page)
    return DONE


@trace.command("stats", short_help="Count journeys.")
@server_options
@output_option
def stats_command(output: Output) -> int:
    """Count the journeys that are kept, and say how many are followed at all."""
    from goqueue.cli.asking import ask, show
    from goqueue.cli.trace.tables import draw_stats
    from goqueue.client.admin import TraceStats
    from goqueue.client.transport import get

    show(ask(get("traces", "stats")), output, TraceStats, draw_stats)
    return DONE
