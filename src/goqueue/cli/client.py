"""One command's talk with one server, from its flags to its end.

Owns the event loop of a command. Everything that a server or the way to it can do wrong leaves
here as the end of the command, wrong flags as a usage error; nothing else is caught.

A person waits: a request that may be repeated is, but for less than a second.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
import msgspec
import uvloop

from goqueue.cli.context import ClientSettings, ClientSettingsInvalid, load_client_settings
from goqueue.cli.errors import as_failure
from goqueue.cli.options import given_server_flags
from goqueue.client import GoQueueError
from goqueue.client.http import Request, Settings, Transport
from goqueue.client.retries import Retries

__all__ = ["Session", "ask", "chosen_settings", "run_session"]

T = TypeVar("T")

_HASTY = Retries(attempts_max=3, total_s=1.0)
_CLIENT_ID = "goqueue-cli"


class Session:
    """A server to ask: bodies as they came, or as values."""

    def __init__(self, settings: ClientSettings, *, retries: Retries = _HASTY) -> None:
        self.settings = settings
        self._transport = Transport(
            Settings(
                server=settings.server,
                api_key=settings.api_key or None,
                timeout_s=settings.timeout_s,
                retries=retries,
                client_id=_CLIENT_ID,
            )
        )

    async def ask(self, request: Request) -> bytes:
        """The body of the answer, unchanged."""
        return (await self._transport.ask(request)).body

    async def read(self, request: Request, shape: type[T]) -> T:
        """The body of the answer as a value."""
        return await self._transport.read(request, msgspec.json.Decoder(shape))

    def close(self) -> None:
        self._transport.close()


def chosen_settings(context: click.Context) -> ClientSettings:
    """By flag, else environment, else context, else default."""
    try:
        return load_client_settings(given_server_flags(context), os.environ)
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def run_session(scene: Callable[[Session], Awaitable[T]]) -> T:
    """Play a scene with the server that the present command was told of."""
    settings = chosen_settings(click.get_current_context())
    try:
        return uvloop.run(_play(scene, settings))
    except GoQueueError as error:
        raise as_failure(error, settings.server) from error
    except BaseExceptionGroup as group:
        first = _first(group)
        if isinstance(first, GoQueueError):
            raise as_failure(first, settings.server) from group
        raise first from group


def ask(request: Request) -> bytes:
    """Ask one thing; the body of the answer, unchanged."""
    return run_session(lambda session: session.ask(request))


async def _play(scene: Callable[[Session], Awaitable[T]], settings: ClientSettings) -> T:
    session = Session(settings)
    try:
        return await scene(session)
    finally:
        session.close()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Tasks that run side by side fail as a group; a person is told of one failure."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
