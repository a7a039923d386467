"""Names that the server knows, for the shell to offer. Never in the way: no answer is no offer."""

from typing import TypeVar

import click
import msgspec
import uvloop

from goqueue.cli.client import Session, chosen_settings
from goqueue.client import GoQueueError
from goqueue.client.http import get
from goqueue.client.retries import Retries

__all__ = ["known_names", "known_traces", "known_transactions"]

T = TypeVar("T")

_PATIENCE_S = 1.0
_OFFERED_MAX = 500
_ONCE = Retries(attempts_max=1)


class _Trace(msgspec.Struct, frozen=True):
    trace_id: str


class _Transaction(msgspec.Struct, frozen=True):
    transaction_id: str


def known_names(context: click.Context, noun: str, incomplete: str) -> list[str]:
    """The topics or groups that begin like this."""
    return _matching(_offered(context, noun, list[str]), incomplete)


def known_transactions(context: click.Context, incomplete: str) -> list[str]:
    """The transactions that have not ended and begin like this."""
    found = _offered(context, "transactions", list[_Transaction])
    return _matching([each.transaction_id for each in found], incomplete)


def known_traces(context: click.Context, incomplete: str) -> list[str]:
    """The newest traces that begin like this."""
    found = _offered(context, "traces", list[_Trace])
    return _matching([each.trace_id for each in found], incomplete)


def _matching(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)][:_OFFERED_MAX]


def _offered(context: click.Context, noun: str, shape: type[list[T]]) -> list[T]:
    """What the server lists under a noun; nothing if it does not."""
    try:
        answer = uvloop.run(_fetch(context, noun))
        return msgspec.json.decode(answer[noun], type=shape)
    except (GoQueueError, click.UsageError, msgspec.MsgspecError, KeyError):
        # Whoever presses a key wants to type on.
        return []


async def _fetch(context: click.Context, noun: str) -> dict[str, msgspec.Raw]:
    settings = msgspec.structs.replace(chosen_settings(context), timeout_s=_PATIENCE_S)
    session = Session(settings, retries=_ONCE)
    try:
        return await session.read(get(noun), dict[str, msgspec.Raw])
    finally:
        session.close()
