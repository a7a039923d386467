"""`goqueue pipeline run archive | replay | redrive | traces | audit`: options and checks.

`goqueue pipeline run archive`: topics into a folder of Parquet.

`goqueue pipeline run replay`: rows of a topic, or of its archive, to another topic.

`goqueue pipeline run redrive`: dead letters looked at, and put back by selection.

`goqueue pipeline run traces`: span files as latencies.

`goqueue pipeline run audit`: loss, duplicates and order of a whole topic.
"""

from pathlib import Path

import click

from goqueue.cli.options import Output, complete_topics, output_option, server_options
from goqueue.cli.pipeline.run_options import run_options

__all__ = [
    "archive_command",
    "audit_command",
    "redrive_command",
    "replay_command",
    "traces_command",
]


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
    from goqueue.cli.pipeline.packaged_runs import Request, run_archive

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
) -> None:
    """Send rows of TOPIC, or of its archive, to another topic: each once, keys in order.

    Every row gets a header `goqueue.replayed.from` that says where it was. A replay that was
    stopped or killed goes on where it was when it is given again.

    \b
    Example:
      goqueue pipeline run replay --topic orders --to orders.test --since -1h --rate 500 --dry-run
      goqueue pipeline run replay --topic orders --archive ./lake --to orders.rebuilt
    """
    from goqueue.cli.pipeline.packaged_runs import run_replay

    more.pop("is_once")
    run_replay(more, checkpoint, master, output, is_dry=dry_run)


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
) -> None:
    """Report on the dead letters of TOPIC by origin, group and reason; put some back with --send.

    A letter is put back once, whoever does it: letters that were redriven before, by this command
    or by the broker, are counted and not sent again.

    \b
    Example:
      goqueue pipeline run redrive --topic orders
      goqueue pipeline run redrive --topic orders --reason timeout --max 100 --send
      goqueue pipeline run redrive --topic orders --where "deliveries < 5" --send
    """
    from goqueue.cli.pipeline.packaged_runs import run_redrive

    del checkpoint, is_once  # Of no use here: what was redriven is kept by the broker.
    run_redrive(more, master, output)


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
) -> None:
    """Read span files; show how long each hop takes, the slowest journeys, and unfinished ones.

    A journey is the way of one message to one group: publish (received to persisted), wait
    (persisted to fetched), work (fetched to acknowledged), total.

    \b
    Example:
      goqueue pipeline run traces --spans ./data/traces --topic orders
    """
    from goqueue.cli.pipeline.packaged_runs import run_traces

    del checkpoint, is_once  # Of no use here: files are read once.
    run_traces(more, master, output)


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
    from goqueue.cli.pipeline.packaged_runs import run_audit

    del checkpoint, is_once  # Of no use here: a topic is looked at as a whole.
    return run_audit(more, master, output)
