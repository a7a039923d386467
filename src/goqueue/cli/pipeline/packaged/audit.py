"""`goqueue pipeline run audit`: loss, duplicates and order of a whole topic."""

import click

from goqueue.cli.names import complete_topics
from goqueue.cli.output import Output, output_option
from goqueue.cli.pipeline.flags import run_options
from goqueue.cli.server_flags import server_options

__all__ = ["audit_command"]


@click.command("audit", short_help="Look for loss, duplicates and broken order.")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="What to look at.",
)
@click.option("--sequence", metavar="SQL", help="How rows are numbered, without gaps.")
@click.option("--producer", metavar="SQL", help="Who numbers them.  [default: the key]")
@click.option("--first", type=int, metavar="N", help="The number that all begin with.")
@click.option(
    "--expected", multiple=True, metavar="PRODUCER=N", help="How many numbers a producer used."
)
@click.option("--id", "identity", metavar="SQL", help="What tells rows apart.")
@click.option(
    "--against",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Look whether this topic is an exact copy, by --id.",
)
@click.option("--target-id", "target_identity", metavar="SQL", help="The --id of the copy.")
@click.option("--from", "starting", default="earliest", metavar="PLACE", help="As for a read.")
@click.option("--upto", "ending", default="latest", metavar="PLACE", help="As for a read.")
@run_options
@server_options
@output_option
def audit_command(
    checkpoint: str | None, master: str, output: Output, *, is_once: bool, **more: object
) -> int:
    """Look for loss, duplicates and broken order in TOPIC; exit code 1 if there is any.

    Expressions are SQL over topic, partition, offset, timestamp, key, value and headers.

    \b
    Example:
      goqueue pipeline run audit --topic orders --producer "cast(headers['producer'] AS STRING)" \\
          --sequence "get_json_object(cast(value AS STRING), '$.n')"
      goqueue pipeline run audit --topic orders --against orders.copy
    """
    from goqueue.cli.pipeline.packaged.plays import run_audit

    del checkpoint, is_once  # Of no use here: a topic is looked at as a whole.
    return run_audit(more, master, output)
