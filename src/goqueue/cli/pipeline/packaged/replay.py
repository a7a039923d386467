"""`goqueue pipeline run replay`: rows of a topic, or of its archive, to another topic."""

from pathlib import Path

import click

from goqueue.cli.names import complete_topics
from goqueue.cli.output import Output, output_option
from goqueue.cli.pipeline.flags import run_options
from goqueue.cli.server_flags import server_options

__all__ = ["replay_command"]

DONE = 0


@click.command("replay", short_help="Send rows of a topic or an archive to a topic.")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Whose rows are sent.",
)
@click.option(
    "--to", required=True, metavar="TOPIC", shell_complete=complete_topics, help="Where they go."
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Read the archive of the topic in this folder.",
)
@click.option("--from", "starting", metavar="PLACE", help="earliest, -N, or JSON with offsets.")
@click.option("--upto", "ending", metavar="PLACE", help="latest, or JSON with offsets.")
@click.option("--since", metavar="TIME", help="From a time on: 2026-11-15T12:00:00Z or -15m.")
@click.option("--until", metavar="TIME", help="Up to a time, which is not included.")
@click.option("--rate", type=float, default=0.0, metavar="N", help="At most so many rows a second.")
@click.option(
    "--chunk",
    "chunk_rows",
    type=int,
    default=200_000,
    show_default=True,
    metavar="N",
    help="Rows that are published by one decision.",
)
@click.option("--keep-time", "keeps_time", is_flag=True, help="Keep the times of the rows.")
@click.option("--keep-partition", "keeps_partition", is_flag=True, help="Keep their partitions.")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
@run_options
@server_options
@output_option
def replay_command(
    checkpoint: str | None, master: str, output: Output, *, dry_run: bool, **more: object
) -> int:
    """Send rows of TOPIC, or of its archive, to another topic: each once, keys in order.

    Every row gets a header `goqueue.replayed.from` that says where it was. A replay that was
    stopped or killed goes on where it was when it is given again.

    \b
    Example:
      goqueue pipeline run replay --topic orders --to orders.test --since -1h --rate 500 --dry-run
      goqueue pipeline run replay --topic orders --archive ./lake --to orders.rebuilt
    """
    from goqueue.cli.pipeline.packaged.plays import run_replay

    more.pop("is_once")
    run_replay(more, checkpoint, master, output, is_dry=dry_run)
    return DONE
