"""`goqueue top`: its options, and one run of it, live or once."""

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from goqueue.cli.client import Session, open_connection, run_session
from goqueue.cli.client_settings import ClientSettings
from goqueue.cli.cluster_nodes import settings_of
from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.top.live import Live
from goqueue.cli.top.once import look_twice, print_picture, write_picture
from goqueue.cli.top.source import Source
from goqueue.cli.top.state import Choice, View
from goqueue.cli.top.terminal import Palette, Screen
from goqueue.client import GoQueueError
from goqueue.client.retries import Retries
from goqueue.model import SECOND, parse_duration

if TYPE_CHECKING:
    from goqueue.client.connection import Connection

__all__ = ["TopOptions", "top", "watch"]

# Columns of a picture when no terminal says how many there are.
_WIDTH_USUAL = 100


# The next refresh comes soon: a second attempt is for a connection that was closed while idle.
_RETRIES = Retries(attempts_max=2, total_s=1.0)
# A picture that is late is worth little, so it waits less than other commands.
_TIMEOUT_S_MAX = 5.0


class TopOptions(msgspec.Struct, frozen=True):
    """What to show, and how."""

    interval_s: float
    view: str | None
    wanted: str
    output: Output
    is_once: bool = False


def watch(options: TopOptions) -> None:
    """Show the node until the person has seen enough."""
    if not options.is_once and not _is_screen():
        raise click.UsageError("the live view needs a terminal; --once prints all views instead")
    run_session(
        lambda session: _watch(options, session),
        retries=_RETRIES,
        timeout_s_max=_TIMEOUT_S_MAX,
        client_id="goqueue-top",
    )


async def _watch(options: TopOptions, session: Session) -> None:
    async with await _entered(session) as q, Source(q, session.settings) as source:
        await _show(options, source, session.settings.server)


async def _entered(session: Session) -> "Connection":
    """A connection to all nodes of the cluster: the one that was named may be lost."""
    try:
        state = await session.q.cluster.state()
    except GoQueueError:
        return _connection_of(session, session.settings)
    reached = [settings_of(session.settings, node) for node in state.nodes if node.client_address]
    servers = dict.fromkeys([session.settings.server, *(each.server for each in reached)])
    joined = msgspec.structs.replace(session.settings, server=",".join(servers))
    return _connection_of(session, joined if len(state.nodes) > 1 else session.settings)


def _connection_of(session: Session, settings: ClientSettings) -> "Connection":
    timeout_s = min(session.settings.timeout_s, _TIMEOUT_S_MAX)
    return open_connection(settings, timeout_s=timeout_s, retries=_RETRIES, client_id="goqueue-top")


async def _show(options: TopOptions, source: Source, server: str) -> None:
    if not options.is_once:
        choice = Choice(view=_view(options) or View.TOPICS, wanted=options.wanted)
        screen = Screen(sys.stdin.fileno(), sys.stdout.fileno(), _palette())
        live = Live(source, screen, choice, interval_s=options.interval_s, server=server)
        await live.run(sys.stdin.fileno())
        return
    board = await look_twice(source, options.interval_s)
    if options.output.is_table:
        width = shutil.get_terminal_size((_WIDTH_USUAL, 0)).columns
        print_picture(board, server, width, _palette(), only=_view(options), wanted=options.wanted)
    else:
        write_picture(board, server, options.output)


def _view(options: TopOptions) -> View | None:
    return None if options.view is None else View(options.view)


def _is_screen() -> bool:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb"


def _palette() -> Palette:
    """Colours only on a terminal, and not where they are unwanted."""
    has_escapes = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Palette(
        has_escapes=has_escapes,
        has_colours=has_escapes and not os.environ.get("NO_COLOR"),
        encoding=sys.stdout.encoding or "utf-8",
    )


_INTERVAL_S_MIN = 0.2
_INTERVAL_S_MAX = 3600.0
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def _check_interval(_: click.Context, __: click.Parameter, given: str) -> float:
    """A duration, or a number of seconds."""
    try:
        seconds = float(given) if _SECONDS.fullmatch(given) else parse_duration(given) / SECOND
    except ValueError as error:
        raise click.BadParameter(f"{given!a}: {error}") from error
    if not _INTERVAL_S_MIN <= seconds <= _INTERVAL_S_MAX:
        raise click.BadParameter(f"{given} is not from 200ms to 1h")
    return seconds


@click.command("top", short_help="Watch a node or a cluster: rates, lag, dead letters.")
@click.option(
    "--interval",
    "interval_s",
    callback=_check_interval,
    default="2s",
    metavar="TIME",
    help="Time between two refreshes: 500ms, 10s; a number is seconds.  [default: 2s]",
)
@click.option(
    "--view",
    type=click.Choice(["topics", "groups", "waiting", "letters", "node", "cluster"]),
    help="View to show first, or with --once the only one.  [default: topics, with --once all]",
)
@click.option(
    "--filter", "wanted", default="", metavar="TEXT", help="Show only names that contain this text."
)
@click.option("--once", is_flag=True, help="Print once and exit; needs no terminal.")
@server_options
@output_option
def top(interval_s: float, view: str | None, wanted: str, output: Output, *, once: bool) -> None:
    """Watch a node live: topics with their rates, groups with their lag, lanes, delays, dead
    letters, open transactions, and readiness. Of a cluster rates are those of all nodes.

    \b
    Keys:  1 topics  2 groups  3 priorities and delays  4 dead letters  5 node  6 cluster
           tab next view   s sort   r reverse   / filter   arrows move
           enter open a topic, group or node   escape back   p pause   ? help   q quit

    --once prints all views after one interval, or the one of --view; -o json and -o yaml do so for
    programs.
    """

    is_document = not output.is_table
    watch(TopOptions(interval_s, view, wanted, output, is_once=once or is_document))
