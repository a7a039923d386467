"""`goqueue pipeline run archive | replay | redrive | traces | audit`: their options.

Each command converts its options into those of the pipeline, where they are checked before Spark
starts; `packaged_runs` runs it.
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


@click.command("archive", short_help="Archive topics as Parquet, exactly once.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Topic to archive; may be repeated.",
)
@click.option(
    "--to", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Target folder."
)
@click.option(
    "--from",
    "starting",
    default="earliest",
    show_default=True,
    metavar="earliest|latest",
    help="Start of a new archive.",
)
@click.option(
    "--every",
    "every_s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds between batches; longer intervals give larger files.",
)
@click.option(
    "--file-size",
    type=int,
    default=128,
    show_default=True,
    metavar="MIB",
    help="Target size of a file.",
)
@click.option(
    "--batch-size",
    type=int,
    default=1024,
    show_default=True,
    metavar="MIB",
    help="Maximum size of a batch.",
)
@click.option(
    "--compression",
    default="snappy",
    show_default=True,
    metavar="NAME",
    help="snappy, zstd, lz4, gzip or none.",
)
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Continue if retention removed messages before they were archived.",
)
@click.option(
    "--compact",
    "is_compacted",
    is_flag=True,
    help="Only merge small files; with --once, archive first.",
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
    """Archive TOPICs as Parquet in DIR/topic=…/date=…, each row exactly once.

    Runs until Ctrl-C; with --once, until all data available now is archived. The next run resumes
    one that was killed at any point. Other readers (pyarrow, DuckDB, Spark) may read the folder at
    any time.

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


@click.command("replay", short_help="Republish a topic or an archive to a topic.")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Topic to read.",
)
@click.option(
    "--to", required=True, metavar="TOPIC", shell_complete=complete_topics, help="Topic to write."
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Read the archive in this folder instead of the topic.",
)
@click.option(
    "--from", "starting", metavar="PLACE", help="Start: earliest, -N, or offsets as JSON."
)
@click.option("--upto", "ending", metavar="PLACE", help="End: latest, or offsets as JSON.")
@click.option("--since", metavar="TIME", help="Start at a time: 2026-11-15T12:00:00Z or -15m.")
@click.option("--until", metavar="TIME", help="End before a time.")
@click.option(
    "--rate", type=float, default=0.0, metavar="N", help="Maximum number of rows per second."
)
@click.option(
    "--chunk",
    "chunk_rows",
    type=int,
    default=200_000,
    show_default=True,
    metavar="N",
    help="Rows per transaction.",
)
@click.option("--keep-time", "keeps_time", is_flag=True, help="Keep the timestamps of the rows.")
@click.option("--keep-partition", "keeps_partition", is_flag=True, help="Keep their partitions.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@run_options
@server_options
@output_option
def replay_command(
    checkpoint: str | None, master: str, output: Output, *, dry_run: bool, **more: object
) -> None:
    """Republish TOPIC, or its archive, to another topic: each row once, keys in order.

    Every row gets a header `goqueue.replayed.from` with its original position. A replay that was
    stopped or killed resumes when the same command runs again.

    \b
    Example:
      goqueue pipeline run replay --topic orders --to orders.test --since -1h --rate 500 --dry-run
      goqueue pipeline run replay --topic orders --archive ./lake --to orders.rebuilt
    """
    from goqueue.cli.pipeline.packaged_runs import run_replay

    more.pop("is_once")
    run_replay(more, checkpoint, master, output, is_dry=dry_run)


@click.command("redrive", short_help="Group dead letters by reason; redrive some.")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Topic that the dead letters came from.",
)
@click.option("--reason", metavar="TEXT", help="Only dead letters with this cause or reason.")
@click.option(
    "--origin",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Another origin that shares the dead-letter topic.",
)
@click.option("--group", metavar="GROUP", help="Only dead letters of this consumer group.")
@click.option(
    "--where",
    metavar="SQL",
    help="SQL condition on origin, origin_partition, origin_offset, "
    "consumer_group, cause, reason, deliveries, hops, died, key, value, timestamp.",
)
@click.option(
    "--max",
    "letters_max",
    type=int,
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Maximum number of messages, oldest first.",
)
@click.option(
    "--to",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Target topic (default: the original topic).",
)
@click.option(
    "--samples",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Examples to show for each reason.",
)
@click.option(
    "--send/--dry-run",
    "is_sent",
    default=False,
    help="Redrive the selected dead letters.  [default: only show them]",
)
@run_options
@server_options
@output_option
def redrive_command(
    checkpoint: str | None, master: str, output: Output, *, is_once: bool, **more: object
) -> None:
    """Report the dead letters of TOPIC by origin, group and reason; redrive some with --send.

    A dead letter is redriven once: those that were redriven before, by this command or by the
    broker, are counted and not sent again.

    \b
    Example:
      goqueue pipeline run redrive --topic orders
      goqueue pipeline run redrive --topic orders --reason timeout --max 100 --send
      goqueue pipeline run redrive --topic orders --where "deliveries < 5" --send
    """
    from goqueue.cli.pipeline.packaged_runs import run_redrive

    del checkpoint, is_once  # Of no use here: what was redriven is kept by the broker.
    run_redrive(more, master, output)


@click.command("traces", short_help="Report latencies by topic and hop from span files.")
@click.option(
    "--spans",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Span file, folder or pattern; may be repeated.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only this topic; may be repeated.",
)
@click.option(
    "--slowest",
    type=int,
    default=10,
    show_default=True,
    metavar="N",
    help="Number of slow traces to show.",
)
@run_options
@server_options
@output_option
def traces_command(
    checkpoint: str | None, master: str, output: Output, *, is_once: bool, **more: object
) -> None:
    """Read span files; show how long each hop takes, the slowest traces, and unfinished ones.

    Hops of a message on its way to one group: publish (received to persisted), wait (persisted to
    fetched), work (fetched to acknowledged), total.

    \b
    Example:
      goqueue pipeline run traces --spans ./data/traces --topic orders
    """
    from goqueue.cli.pipeline.packaged_runs import run_traces

    del checkpoint, is_once  # Of no use here: files are read once.
    run_traces(more, master, output)


@click.command("audit", short_help="Find lost, duplicated and reordered messages.")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Topic to check.",
)
@click.option("--sequence", metavar="SQL", help="Sequence number of a row, without gaps.")
@click.option("--producer", metavar="SQL", help="Producer of a row.  [default: the key]")
@click.option("--first", type=int, metavar="N", help="First sequence number of every producer.")
@click.option(
    "--expected", multiple=True, metavar="PRODUCER=N", help="Number of rows that a producer sent."
)
@click.option("--id", "identity", metavar="SQL", help="Identity of a row.")
@click.option(
    "--against",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Check that this topic is an exact copy, by --id.",
)
@click.option("--target-id", "target_identity", metavar="SQL", help="The --id of the copy.")
@click.option(
    "--from",
    "starting",
    default="earliest",
    metavar="PLACE",
    help="Start of the range, as in Spark options.",
)
@click.option(
    "--upto",
    "ending",
    default="latest",
    metavar="PLACE",
    help="End of the range, as in Spark options.",
)
@run_options
@server_options
@output_option
def audit_command(
    checkpoint: str | None, master: str, output: Output, *, is_once: bool, **more: object
) -> int:
    """Find lost, duplicated and reordered messages in TOPIC; exit code 1 if there are any.

    Expressions are SQL over topic, partition, offset, timestamp, key, value and headers.

    \b
    Example:
      goqueue pipeline run audit --topic orders --producer "cast(headers['producer'] AS STRING)" \\
          --sequence "get_json_object(cast(value AS STRING), '$.n')"
      goqueue pipeline run audit --topic orders --against orders.copy
    """
    from goqueue.cli.pipeline.packaged_runs import run_audit

    del checkpoint, is_once  # Of no use here: a topic is audited as a whole.
    return run_audit(more, master, output)
