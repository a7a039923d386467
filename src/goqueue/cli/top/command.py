"""The command `goqueue top`."""

import click

from goqueue.cli.output import Output, output_option
from goqueue.cli.server_flags import server_options

__all__ = ["top"]

DONE = 0

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
    help="Seconds between two looks.  [default: 2]",
)
@click.option(
    "--view",
    type=click.Choice(["topics", "groups", "waiting", "letters", "node"]),
    default="topics",
    help="What to show first.  [default: topics]",
)
@click.option("--filter", "wanted", default="", metavar="TEXT", help="Only names with this text.")
@click.option("--once", is_flag=True, help="Print one picture and end; needs no terminal.")
@server_options
@output_option
def top(interval_s: float, view: str, wanted: str, output: Output, *, once: bool) -> int:
    """Watch a node as it works: topics with their rates, groups with their lag, lanes, delays,
    dead letters, open transactions, and whether the node is well.

    \b
    Keys:  1 topics  2 groups  3 lanes and delays  4 dead letters  5 node
           tab next view   s sort   r turn round   / filter   arrows scroll
           p pause   ? help   q quit

    --once prints all of it after one interval; -o json and -o yaml do so for programs.
    """
    from goqueue.cli.top.scene import Wish, play

    is_document = output is not Output.TABLE
    play(Wish(interval_s, view, wanted, output, is_once=once or is_document))
    return DONE
