"""`goqueue top`: options, and one run of it.

One run of `goqueue top`: from the flags to a picture, live or once.
"""

import os
import shutil
import sys

import click
import msgspec
import uvloop

from goqueue.cli.client import chosen_settings
from goqueue.cli.context import ClientSettings
from goqueue.cli.errors import as_failure
from goqueue.cli.options import Output, output_option, server_options
from goqueue.cli.top.live import Live
from goqueue.cli.top.once import look_twice, print_picture, write_picture
from goqueue.cli.top.source import Source, open_connection
from goqueue.cli.top.state import Choice, View
from goqueue.cli.top.terminal import Palette, Screen
from goqueue.client import GoQueueError

__all__ = ["Wish", "play", "top"]

# Columns of a picture when no terminal says how many there are.
_WIDTH_USUAL = 100


class Wish(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    interval_s: float
    view: str
    wanted: str
    output: Output
    is_once: bool = False


def play(wish: Wish) -> None:
    """Show the node until the person has seen enough."""
    settings = chosen_settings(click.get_current_context())
    if not wish.is_once and not _is_screen():
        raise click.UsageError(
            "the live view needs a terminal; --once prints all views without one"
        )
    try:
        uvloop.run(_play(wish, settings))
    except GoQueueError as error:
        raise as_failure(error, settings.server) from error


async def _play(wish: Wish, settings: ClientSettings) -> None:
    async with open_connection(settings) as connection:
        source = Source(connection)
        if not wish.is_once:
            choice = Choice(view=View(wish.view), wanted=wish.wanted)
            screen = Screen(sys.stdin.fileno(), sys.stdout.fileno(), _palette())
            live = Live(source, screen, choice, interval_s=wish.interval_s, server=settings.server)
            await live.run(sys.stdin.fileno())
            return
        board = await look_twice(source, wish.interval_s)
        if wish.output is Output.TABLE:
            width = shutil.get_terminal_size((_WIDTH_USUAL, 0)).columns
            print_picture(board, settings.server, width, _palette())
        else:
            write_picture(board, settings.server, wish.output)


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


def _check_interval(_: click.Context, __: click.Parameter, given: float) -> float:
    """Click's own range takes what is no number for one inside it."""
    if not _INTERVAL_S_MIN <= given <= _INTERVAL_S_MAX:
        raise click.BadParameter(f"{given:g} is not from {_INTERVAL_S_MIN:g} to 3600 seconds")
    return given


@click.command("top", short_help="Watch a node: rates, lag, delays, dead letters.")
@click.option(
    "--interval",
    "interval_s",
    type=float,
    callback=_check_interval,
    default=2.0,
    metavar="S",
    help="Seconds between two refreshes.  [default: 2]",
)
@click.option(
    "--view",
    type=click.Choice(["topics", "groups", "waiting", "letters", "node"]),
    default="topics",
    help="View to show first.  [default: topics]",
)
@click.option(
    "--filter", "wanted", default="", metavar="TEXT", help="Show only names that contain this text."
)
@click.option("--once", is_flag=True, help="Print all views once and exit; needs no terminal.")
@server_options
@output_option
def top(interval_s: float, view: str, wanted: str, output: Output, *, once: bool) -> None:
    """Watch a node live: topics with their rates, groups with their lag, lanes, delays, dead
    letters, open transactions, and readiness.

    \b
    Keys:  1 topics  2 groups  3 lanes and delays  4 dead letters  5 node
           tab next view   s sort   r reverse   / filter   arrows scroll
           p pause   ? help   q quit

    --once prints all views after one interval; -o json and -o yaml do so for programs.
    """

    is_document = output is not Output.TABLE
    play(Wish(interval_s, view, wanted, output, is_once=once or is_document))
