"""The command `goqueue consume`."""

import click

from goqueue.cli.names import complete_groups, topic_argument
from goqueue.cli.output import output_option
from goqueue.cli.server_flags import server_options

__all__ = ["consume"]

DONE = 0
FAILED = 1


@click.command("consume", short_help="Read messages of a topic.")
@topic_argument
@click.option(
    "-p", "--partition", type=click.IntRange(0), metavar="N", help="Only this one.  [default: all]"
)
@click.option("--offset", type=click.IntRange(0), metavar="N", help="Begin at this offset.")
@click.option("--from-beginning", is_flag=True, help="Begin at the oldest.  [default]")
@click.option("--from-latest", is_flag=True, help="Begin after the newest.")
@click.option("--from-time", metavar="TIME", help="Begin at a time, or so long ago as 15m.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    help="At most so many; 0 is all.  [default: 10, with --follow all]",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until Ctrl-C.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether to see open and aborted transactions.",
)
@click.option("--values", is_flag=True, help="Print the values alone, as they are.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Lease and acknowledge as its member.",
)
@click.option(
    "--mode",
    type=click.Choice(["partitioned", "shared", "key_ordered"]),
    help="How the group shares the messages.",
)
@click.option("--no-ack", is_flag=True, help="Give leased messages back; each was a delivery.")
@server_options
@output_option
def consume(**given: object) -> int:
    """Print messages of TOPIC: what is there, or with --follow also what comes.

    Without --group anyone may read, any number of times. With --group a message is leased,
    printed and acknowledged, and the group does not get it again.

    A line shows partition:offset, time, key and value. With -o json the answer of the API is
    printed, or with --follow one message per line.
    """
    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.consume.groups import consume_group
    from goqueue.cli.consume.streams import consume_stream
    from goqueue.cli.consume.wish import read_wish

    wish = read_wish(given)

    async def scene(session: Session) -> int:
        if wish.group is None:
            await consume_stream(session, wish)
            return 0
        return await consume_group(session, wish)

    return FAILED if run_session(scene) else DONE
