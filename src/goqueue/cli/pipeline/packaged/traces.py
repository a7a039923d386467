"""`goqueue pipeline run traces`: span files as latencies."""

import click

from goqueue.cli.names import complete_topics
from goqueue.cli.output import Output, output_option
from goqueue.cli.pipeline.flags import run_options
from goqueue.cli.server_flags import server_options

__all__ = ["traces_command"]

DONE = 0


@click.command("traces", short_help="Latencies by topic and hop, from span files.")
@click.option(
    "--spans",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="A file or folder of spans, or a pattern; may be given several times.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only this topic; may be given several times.",
)
@click.option(
    "--slowest", type=int, default=10, show_default=True, metavar="N", help="Journeys to show."
)
@run_options
@server_options
@output_option
def traces_command(
    checkpoint: str | None, master: str, output: Output, *, is_once: bool, **more: object
) -> int:
    """Read span files; show how long each hop takes, the slowest journeys, and unfinished ones.

    A journey is the way of one message to one group: publish (received to persisted), wait
    (persisted to fetched), work (fetched to acknowledged), total.

    \b
    Example:
      goqueue pipeline run traces --spans ./data/traces --topic orders
    """
    from goqueue.cli.pipeline.packaged.plays import run_traces

    del checkpoint, is_once  # Of no use here: files are read once.
    run_traces(more, master, output)
    return DONE
