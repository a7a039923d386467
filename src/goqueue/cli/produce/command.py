"""The command `goqueue produce`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from goqueue.cli.names import topic_argument
from goqueue.cli.output import output_option
from goqueue.cli.server_flags import server_options

if TYPE_CHECKING:
    from goqueue.cli.produce.flags import Flags

__all__ = ["produce"]

DONE = 0


@click.command("produce", short_help="Publish messages.")
@topic_argument
@click.option("-m", "--message", metavar="TEXT", help="The value of one message.")
@click.option("-k", "--key", metavar="KEY", help="Messages of one key keep their order.")
@click.option("-p", "--partition", type=int, metavar="N", help="The partition.  [default: by key]")
@click.option("-H", "--header", multiple=True, metavar="K=V", help="A header; may be repeated.")
@click.option("-d", "--delay", metavar="TIME", help="Deliver after so long: 30s, 1h30m.")
@click.option("--deliver-at", metavar="TIME", help="Deliver at this time: 2026-01-31T12:00:00Z.")
@click.option("--priority", metavar="P", help="critical, high, normal, low, background, or 0 to 4.")
@click.option("--base64", is_flag=True, help="TEXT, KEY and lines that are values are base64.")
@click.option(
    "--format",
    type=click.Choice(["text", "json"]),
    help="A line is a value, or a message as a JSON object.  [default: text]",
)
@click.option("--raw", is_flag=True, hidden=True)
@click.option(
    "-f", "--file", metavar="FILE", help="A message per line; - is standard input, as is a pipe."
)
@server_options
@output_option
def produce(**given: object) -> int:
    """Publish to TOPIC: one message with -m, or one for each line of a file or a pipe.

    A line is a value, whatever is in it. With --format json it is a message:
    {"key": "a", "value": "b", "headers": {"c": "d"}}; blank lines and those that begin with # are
    skipped, and unknown fields are errors. The other flags hold for every line that does not say
    otherwise.
    """
    from goqueue.cli.asking import Session, run_session
    from goqueue.cli.produce.bulk import Bulk, produce_bulk
    from goqueue.cli.produce.flags import read_flags, read_message, read_pattern
    from goqueue.cli.produce.roads.single import produce_single

    flags = read_flags(given)
    if flags.message is not None:
        draft = read_message(flags)

        async def single(session: Session) -> int:
            await produce_single(session, flags.topic, draft, flags.output)
            return DONE

        return run_session(single)
    pattern = read_pattern(flags)

    with _opened(flags) as file:
        wanted = Bulk(
            topic=flags.topic, descriptor=file.fileno(), pattern=pattern, output=flags.output
        )

        async def bulk(session: Session) -> int:
            return await produce_bulk(session, wanted)

        return run_session(bulk)


def _opened(flags: "Flags") -> BinaryIO:
    if flags.file is None or flags.file == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    try:
        return Path(flags.file).open("rb")
    except OSError as error:
        raise click.UsageError(f"{flags.file}: {error.strerror}") from error
