"""The commands of `goqueue log`: arguments in, exit codes out; the work is done elsewhere.

What does the work is imported by the command that needs it, so that `--help` is quick.
"""

import itertools
import sys
from typing import TYPE_CHECKING

import click

from goqueue.cli.exit_codes import ExitCode
from goqueue.cli.options import (
    Output,
    Whole,
    output_option,
)

if TYPE_CHECKING:
    from goqueue.cli.log.directory import Place, Tree
    from goqueue.cli.log.verify import Problem

__all__ = ["log"]


_directory = click.argument("directory", metavar="DIR")


@click.group("log")
def log() -> None:
    """Inspect the log files of a data directory.

    DIR is a data directory, or the directory of one partition in it, or a copy of one. All but
    rebuild-index only read, and can be used while a broker runs. Exit code 1 means damage.
    """


@log.command("verify", short_help="Check all records, indexes and segment chains.")
@_directory
@output_option
def verify_command(directory: str, output: Output) -> int:
    """Check every record, every index and every segment chain in DIR.

    A torn tail, which the next start truncates, is shown, and is a problem only if valid records
    follow it. Notes on unusual but harmless files are shown in the table only.
    """
    from goqueue.cli.log.directory import weigh
    from goqueue.cli.log.stats import print_verification
    from goqueue.cli.log.verify import Verification, verify
    from goqueue.cli.output import printable, progress, write_document
    from goqueue.runtime import OsFileSystem

    tree = _look_at(directory)
    files = OsFileSystem(tree.root, is_read_only=True)
    with progress("verifying", weigh(files, tree.places)) as advance:
        verification = verify(files, tree.places, advance)
    if output.is_table:
        foreign = tuple(f"{printable(path)}: not ours" for path in tree.foreign)
        notes = foreign + verification.notes
        print_verification(Verification(verdict=verification.verdict, notes=notes))
    else:
        write_document(verification.verdict, output)
    return ExitCode.FAILED if verification.verdict.problems else ExitCode.DONE


@log.command("dump", short_help="Show messages in offset order.")
@_directory
@click.option("--topic", help="Only the logs of this topic.")
@click.option("--partition", type=Whole(min=0), help="Only this partition.")
@click.option("--from", "first_offset", type=Whole(min=0), default=0, help="Start at this offset.")
@click.option("--limit", type=Whole(min=1), help="Maximum number of messages.")
@click.option("--raw", "is_raw", is_flag=True, help="Show compressed values as they are stored.")
@click.option(
    "--quarantined",
    "has_quarantined",
    is_flag=True,
    help="Also show valid records of quarantined segments.",
)
@output_option
def dump_command(
    directory: str,
    *,
    topic: str | None,
    partition: int | None,
    first_offset: int,
    limit: int | None,
    is_raw: bool,
    has_quarantined: bool,
    output: Output,
) -> int:
    """Show the messages in DIR, log by log, in offset order.

    JSON is the message of the API plus `flags`, the flags of the record as a number: 1 compressed,
    2 headers, 4 tombstone, 8 control, 16 commit, 32 delayed. Damage is reported on standard error;
    valid records before and after it are shown.
    """
    from goqueue.cli.log.dump import Selection, read_messages
    from goqueue.cli.log.stats import MessageTable
    from goqueue.cli.output import ListWriter
    from goqueue.runtime import OsFileSystem

    tree = _look_at(directory)
    places = _choose(tree, topic, partition)
    files = OsFileSystem(tree.root, is_read_only=True)
    selection = Selection(first_offset=first_offset, is_raw=is_raw, has_quarantined=has_quarantined)
    damage: list[Problem] = []
    messages = itertools.chain.from_iterable(
        read_messages(files, place, selection, damage.append) for place in places
    )
    writer = MessageTable() if output.is_table else ListWriter(output)
    for message in itertools.islice(messages, limit):
        writer.add(message)
    writer.close()
    return _report(damage)


@log.command("stats", short_help="Show sizes and offsets of each log, quickly.")
@_directory
@output_option
def stats_command(directory: str, output: Output) -> None:
    """Show sizes and offsets of each log in DIR, without reading all of it.

    Counts offsets, not records: after compaction there are fewer records. A missing index is not a
    problem; it is rebuilt when it is needed.
    """
    from goqueue.cli.log.stats import measure, print_statistics
    from goqueue.cli.output import write_document
    from goqueue.runtime import OsFileSystem

    tree = _look_at(directory)
    statistics = measure(OsFileSystem(tree.root, is_read_only=True), tree.places)
    if output.is_table:
        print_statistics(statistics)
    else:
        write_document(statistics, output)


@log.command("rebuild-index", short_help="Rebuild every index; the broker must be stopped.")
@_directory
@output_option
def rebuild_index_command(directory: str, output: Output) -> int:
    """Rebuild every index in DIR from the records.

    Needs the lock of the data directory: stop the broker first. Damaged segments keep their
    present index.
    """
    from goqueue.cli.log.directory import weigh
    from goqueue.cli.log.reindex import rebuild_indexes
    from goqueue.cli.log.stats import print_reindexed
    from goqueue.cli.output import progress, write_document
    from goqueue.runtime import DataDirectory, DataDirectoryUnusable, OsFileSystem

    tree = _look_at(directory)
    files = OsFileSystem(tree.root)
    try:
        # A copy outside of any data directory has no lock, and no broker can have it open.
        lock = DataDirectory(tree.root) if tree.is_owned else None
    except DataDirectoryUnusable as unusable:
        raise click.ClickException(str(unusable)) from unusable
    try:
        with progress("indexing", weigh(files, tree.places)) as advance:
            reindexed = rebuild_indexes(files, tree.places, advance)
    finally:
        if lock is not None:
            lock.close()
    if output.is_table:
        print_reindexed(reindexed)
    else:
        write_document(reindexed, output)
    return ExitCode.FAILED if reindexed.problems else ExitCode.DONE


def _look_at(directory: str) -> "Tree":
    from goqueue.cli.log.directory import DirectoryUnsuitable, look_at

    try:
        return look_at(directory)
    except DirectoryUnsuitable as unsuitable:
        raise click.UsageError(str(unsuitable), click.get_current_context()) from unsuitable


def _choose(tree: "Tree", topic: str | None, partition: int | None) -> "list[Place]":
    """The logs asked for; asking for one that is not there is a mistake, not an empty answer."""
    places = [
        place
        for place in tree.places
        if topic in (None, place.log.topic) and partition in (None, place.log.partition)
    ]
    if not places and (topic is not None or partition is not None):
        shown = ", ".join(str(place.log) for place in tree.places[:10]) or "none"
        raise click.UsageError(f"no such log; the logs here are: {shown}")
    return places


def _report(damage: "list[Problem]") -> int:
    """Tell on standard error what a dump could not show; the exit code."""
    from goqueue.cli.log.verify import Kind

    for problem in damage:
        place = f"{problem.topic}-{problem.partition}, segment {problem.segment}"
        print(
            f"goqueue: {problem.kind} in {place}, byte {problem.position}: {problem.reason}",
            file=sys.stderr,
        )
    is_damaged = any(problem.kind is not Kind.TORN for problem in damage)
    return ExitCode.FAILED if is_damaged else ExitCode.DONE
