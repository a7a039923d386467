"""Arguments that name a topic or a group; the shell completes them with what the server knows.

Imports nothing but click, because every `--help` of a command imports it.
"""

from collections.abc import Callable
from typing import TypeVar

import click

__all__ = ["complete_groups", "complete_topics", "group_argument", "topic_argument"]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def topic_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument TOPIC; it arrives as `topic`."""
    return click.argument("topic", shell_complete=complete_topics)(decorated)


def group_argument(decorated: Decorated) -> Decorated:
    """Give a command the argument GROUP; it arrives as `group`."""
    return click.argument("group", shell_complete=complete_groups)(decorated)


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.asking import known_names

    return known_names(context, "topics", incomplete)


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from goqueue.cli.asking import known_names

    return known_names(context, "groups", incomplete)
