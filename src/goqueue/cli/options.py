"""Options shared by commands: output format, server, names, pages, confirmation.

Options of the output and the server may stand before or after the sub-command. Values are kept as
typed; the environment and the contexts are read only when a command connects. A destructive command
asks first; without a terminal nobody can answer, so it is refused unless forced.

Imports nothing but click, because every `--help` imports this module.
"""

import enum
import sys
from collections.abc import Callable
from typing import TypeVar

import click

from goqueue.client.entry import DEFAULT_SERVER

__all__ = [
    "Output",
    "complete_groups",
    "complete_topics",
    "confirm",
    "force_option",
    "given_server_flags",
    "group_argument",
    "limit_option",
    "output_option",
    "server_options",
    "skip_option",
    "topic_argument",
]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


class Output(enum.StrEnum):
    """Output formats."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def _choose(context: click.Context, _: click.Parameter, given: str | None) -> Output:
    """What was given here, else to the program as a whole, else a table."""
    if given is not None:
        context.meta[_KEY] = Output(given)
    chosen: Output = context.meta.get(_KEY, Output.TABLE)
    return chosen


# Click shares `meta` between a command and the groups around it.
_KEY = "goqueue.output"


def output_option(decorated: Decorated) -> Decorated:
    """Give a command `-o/--output`; it arrives as `output`."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice([output.value for output in Output]),
        callback=_choose,
        is_eager=True,
        help="Output format.  [default: table]",
    )
    return option(decorated)


def topic_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument TOPIC; it arrives as `topic`."""
    return click.argument("topic", shell_complete=complete_topics)(decorated)


def group_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument GROUP; it arrives as `group`."""
    return click.argument("group", shell_complete=complete_groups)(decorated)


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.completion import known_topics

    return known_topics(context, incomplete)


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.completion import known_groups

    return known_groups(context, incomplete)


# Click shares `meta` between a command and the groups around it.
_SERVER_FLAGS = "goqueue.server"


def server_options(decorated: Decorated) -> Decorated:
    """Give a command the flags that choose a server; none of them is an argument."""
    flags = (
        ("-s", "--server", "URL", f"Server URL.  [default: {DEFAULT_SERVER}]"),
        ("-c", "--context", "NAME", "Saved server and key to use; see goqueue context."),
        ("", "--api-key", "KEY", "API key."),
        ("", "--timeout", "S", "Seconds to wait for a response.  [default: 30]"),
    )
    for short, long, metavar, words in reversed(flags):
        name = long.removeprefix("--")
        option = click.option(
            *filter(None, (short, long)),
            f"given_{name.replace('-', '_')}",
            metavar=metavar,
            expose_value=False,
            callback=_keeping(name),
            help=words,
        )
        decorated = option(decorated)
    return decorated


def given_server_flags(context: click.Context) -> dict[str, str]:
    """The flags that were given, by their long names; the one closest to the command wins."""
    kept: dict[str, str] = context.meta.get(_SERVER_FLAGS, {})
    return dict(kept)


def _keeping(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, given: str | None) -> None:
        if given is not None:
            context.meta.setdefault(_SERVER_FLAGS, {})[name] = given

    return keep


def limit_option(counted: str) -> Callable[[Decorated], Decorated]:
    """Give a command `-n/--limit`, of what is counted; it arrives as `limit`."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1),
        default=100,
        show_default=True,
        metavar="N",
        help=f"Maximum number of {counted}.",
    )


def skip_option(counted: str) -> Callable[[Decorated], Decorated]:
    """Give a command `--skip`, of what is counted; it arrives as `skip`."""
    return click.option(
        "--skip",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help=f"Number of {counted} to skip.",
    )


def force_option(decorated: Decorated) -> Decorated:
    """Give a command `-f/--force`; it arrives as `is_forced`."""
    option = click.option(
        "-f", "--force", "is_forced", is_flag=True, help="Do not ask for confirmation."
    )
    return option(decorated)


def confirm(question: str, *, is_forced: bool) -> None:
    """Continue only after `yes`, or when forced."""
    if is_forced:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to confirm on: add --force")
    if click.prompt(f"{question} Type yes", default="no", show_default=False, err=True) != "yes":
        raise click.UsageError("not confirmed; nothing was done")
