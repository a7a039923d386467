"""Names that the server knows, offered to the shell's completion.

Completion never fails: after an error, or a second without an answer, nothing is offered.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from goqueue.cli.client import ask_once, chosen_settings
from goqueue.client import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.connection import Connection

__all__ = ["known_groups", "known_topics", "known_traces", "known_transactions"]

T = TypeVar("T")

_PATIENCE_S = 1.0
_OFFERED_MAX = 500


def known_topics(context: click.Context, incomplete: str) -> list[str]:
    """The topics that begin like this."""
    return _matching(_offered(context, lambda q: q.topics.list()), incomplete)


def known_groups(context: click.Context, incomplete: str) -> list[str]:
    """The groups that begin like this."""
    found = _offered(context, lambda q: q.groups.list())
    return _matching((each.group_id for each in found), incomplete)


def known_transactions(context: click.Context, incomplete: str) -> list[str]:
    """The transactions that have not ended and begin like this."""
    found = _offered(context, lambda q: q.transactions.list())
    return _matching((each.transaction_id for each in found), incomplete)


def known_traces(context: click.Context, incomplete: str) -> list[str]:
    """The newest traces that begin like this."""

    async def newest(q: "Connection") -> tuple[str, ...]:
        return tuple(each.trace_id for each in (await q.traces.list()).traces)

    return _matching(_offered(context, newest), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)][:_OFFERED_MAX]


def _offered(
    context: click.Context, call: "Callable[[Connection], Awaitable[tuple[T, ...]]]"
) -> tuple[T, ...]:
    """What the server lists; nothing if it does not."""
    try:
        return ask_once(chosen_settings(context), call, timeout_s_max=_PATIENCE_S).value
    except (GoQueueError, click.UsageError):
        # The user wants to continue typing.
        return ()
