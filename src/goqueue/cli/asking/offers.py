"""Names that the server knows, for the shell to offer. Never in the way: no answer is no offer."""

import click
import msgspec
import uvloop

from goqueue.cli.asking.session import Session, chosen_settings
from goqueue.client import GoQueueError
from goqueue.client.transport import Retries, get

__all__ = ["known_names"]

_PATIENCE_S = 1.0
_OFFERED_MAX = 500
_ONCE = Retries(attempts_max=1)


def known_names(context: click.Context, noun: str, incomplete: str) -> list[str]:
    """The topics or groups that begin like this."""
    try:
        answer = uvloop.run(_fetch(context, noun))
        names = msgspec.json.decode(answer[noun], type=list[str])
    except (GoQueueError, click.UsageError, msgspec.MsgspecError, KeyError):
        # Whoever presses a key wants to type on.
        return []
    return [name for name in names if name.startswith(incomplete)][:_OFFERED_MAX]


async def _fetch(context: click.Context, noun: str) -> dict[str, msgspec.Raw]:
    settings = msgspec.structs.replace(chosen_settings(context), timeout_s=_PATIENCE_S)
    session = Session(settings, retries=_ONCE)
    try:
        return await session.read(get(noun), dict[str, msgspec.Raw])
    finally:
        session.close()
