"""Which build runs here, and which one answers; a server that does not is no failure."""

import click
import msgspec
import uvloop

import goqueue
from goqueue.cli.asking import Session, chosen_settings
from goqueue.cli.context import ClientSettings
from goqueue.client import GoQueueError
from goqueue.client.transport import Retries, get
from goqueue.records import COMPILED

__all__ = ["ServerVersion", "own_version", "server_version"]

# Whoever asks for a version does not want to wait for a server that is away.
_PATIENCE_S = 3.0


class ServerVersion(msgspec.Struct, frozen=True):
    """What to say about the server; `body` is what it said itself, None if it did not."""

    text: str
    body: object = None


def own_version() -> dict[str, str]:
    records = "compiled" if COMPILED else "interpreted"
    return {"version": goqueue.__version__, "records": records}


def server_version() -> ServerVersion:
    settings = chosen_settings(click.get_current_context())
    timeout_s = min(settings.timeout_s, _PATIENCE_S)
    try:
        answer = uvloop.run(_ask(msgspec.structs.replace(settings, timeout_s=timeout_s)))
        body = msgspec.json.decode(answer, type=dict[str, object])
    except (GoQueueError, msgspec.MsgspecError) as error:
        return ServerVersion(f"not reached at {settings.server}: {_words(error)}")
    return ServerVersion(f"{body.get('version', 'unknown')} at {settings.server}", body)


async def _ask(settings: ClientSettings) -> bytes:
    session = Session(settings, retries=Retries(attempts_max=1))
    try:
        return await session.ask(get("version"))
    finally:
        session.close()


def _words(error: Exception) -> str:
    return error.sentence if isinstance(error, GoQueueError) else str(error)
