"""`goqueue pipeline run archive`: topics into a folder of Parquet."""

from pathlib import Path

import click

from goqueue.cli.names import complete_topics
from goqueue.cli.output import Output, output_option
from goqueue.cli.pipeline.flags import run_options
from goqueue.cli.server_flags import server_options

__all__ = ["archive_command"]


@click.command("archive", short_help="Keep topics as Parquet, each row once.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="What to archive; may be given several times.",
)
@click.option(
    "--to", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The folder."
)
@click.option(
    "--from",
    "starting",
    default="earliest",
    show_default=True,
    metavar="earliest|latest",
    help="Where a new archive begins.",
)
@click.option(
    "--every",
    "every_s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds between two batches; the longer, the larger the files.",
)
@click.option(
    "--file-size", type=int, default=128, show_default=True, metavar="MIB", help="Size of a file."
)
@click.option(
    "--batch-size",
    type=int,
    default=1024,
    show_default=True,
    metavar="MIB",
    help="What a batch takes of the topics at most.",
)
@click.option(
    "--compression",
    default="snappy",
    show_default=True,
    metavar="NAME",
    help="snappy, zstd, lz4, gzip or none.",
)
@click.option("--allow-loss", is_flag=True, help="Go on if retention was faster.")
@click.option(
    "--compact",
    "is_compacted",
    is_flag=True,
    help="Merge small files, and archive nothing; with --once, merge after it.",
)
@run_options
@server_options
@output_option
def archive_command(
    topics: tuple[str, ...],
    to: Path,
    checkpoint: str | None,
    master: str,
    output: Output,
    *,
    is_once: bool,
    is_compacted: bool,
    **more: object,
) -> int:
    """Keep TOPICs as Parquet in DIR/topic=…/date=…, each row exactly once.

    Goes on until Ctrl-C; with --once, until all that is there now is archived. A run that was
    killed at any point is taken up by the next one. Plain readers (pyarrow, DuckDB, Spark) may
    read the folder at any time.

    \b
    Example:
      goqueue pipeline run archive --topic orders --to ./lake --once
      goqueue pipeline run archive --to ./lake --compact
    """
    from goqueue.cli.pipeline.packaged.plays import Request, run_archive

    request = Request(
        topics=topics,
        to=to,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        master=master,
        is_once=is_once,
        is_compacted=is_compacted,
        more=more,
    )
    return run_archive(request, output)
