"""`goqueue pipeline run redrive`: dead letters looked at, and put back by selection."""

import click

from goqueue.cli.names import complete_topics
from goqueue.cli.output import Output, output_option
from goqueue.cli.pipeline.flags import run_options
from goqueue.cli.server_flags import server_options

__all__ = ["redrive_command"]

DONE = 0


@click.command("redrive", short_help="Group dead letters by reason; put some back.")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="The topic that the letters came from.",
)
@click.option("--reason", metavar="TEXT", help="Only those with this cause or reason.")
@click.option(
    "--origin",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Of another topic that shares the letters.",
)
@click.option("--group", metavar="GROUP", help="Only those that died in this group.")
@click.option(
    "--where",
    metavar="SQL",
    help="Only those for which this holds: origin, origin_partition, origin_offset, "
    "consumer_group, cause, reason, deliveries, hops, died, key, value, timestamp.",
)
@click.option(
    "--max",
    "letters_max",
    type=int,
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="At most so many, the oldest first.",
)
@click.option(
    "--to",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Not back to their origin but here.",
)
@click.option("--samples", type=int, default=1, show_default=True, metavar="N", help="Of a group.")
@click.option(
    "--send/--dry-run",
    "is_sent",
    default=False,
    help="Put the selected letters back.  [default: only show them]",
)
@run_options
@server_options
@output_option
def redrive_command(
    checkpoint: str | None, master: str, output: Output, *, is_once: bool, **more: object
) -> int:
    """Report on the dead letters of TOPIC by origin, group and reason; put some back with --send.

    A letter is put back once, whoever does it: letters that were redriven before, by this command
    or by the broker, are counted and not sent again.

    \b
    Example:
      goqueue pipeline run redrive --topic orders
      goqueue pipeline run redrive --topic orders --reason timeout --max 100 --send
      goqueue pipeline run redrive --topic orders --where "deliveries < 5" --send
    """
    from goqueue.cli.pipeline.packaged.plays import run_redrive

    del checkpoint, is_once  # Of no use here: what was redriven is kept by the broker.
    run_redrive(more, master, output)
    return DONE
