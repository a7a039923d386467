"""Whom to speak to: `-s`, `-c`, `--api-key`, `--timeout`, before or after the sub-command.

Values are left as they were typed; the environment and the contexts are looked at when a command
speaks to a server, and not before. Imports nothing but click, because every `--help` imports it.
"""

from collections.abc import Callable
from typing import TypeVar

import click

__all__ = ["given_server_flags", "server_options"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])

# Click shares `meta` between a command and the groups around it.
_KEY = "goqueue.server"


def server_options(decorated: Decorated) -> Decorated:
    """Give a command the flags that choose a server; none of them is an argument."""
    flags = (
        ("-s", "--server", "URL", "Server to speak to.  [default: http://127.0.0.1:8080]"),
        ("-c", "--context", "NAME", "Server and key that are kept under this name."),
        ("", "--api-key", "KEY", "Key to show the server."),
        ("", "--timeout", "S", "Seconds to wait for an answer.  [default: 30]"),
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
    kept: dict[str, str] = context.meta.get(_KEY, {})
    return dict(kept)


def _keeping(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, given: str | None) -> None:
        if given is not None:
            context.meta.setdefault(_KEY, {})[name] = given

    return keep
