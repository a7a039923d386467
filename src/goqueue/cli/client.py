"""One command's session with one server, from its flags to its exit code.

Owns the event loop of a command and its connection. Everything that a server or the network can do
wrong leaves here as the end of the command, wrong flags as a usage error; nothing else is caught.

A person waits: a request that may be repeated is, but for less than a second. The SDK is imported
when a connection is opened, so that `--help` of a command does without it.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click
import uvloop

from goqueue.cli.context import ClientSettings, ClientSettingsInvalid, load_client_settings
from goqueue.cli.errors import as_failure
from goqueue.cli.options import given_server_flags
from goqueue.cli.output import Reply
from goqueue.client import GoQueueError, connect
from goqueue.client.retries import Retries

if TYPE_CHECKING:
    from goqueue.client.connection import Connection

__all__ = ["Session", "ask", "ask_once", "chosen_settings", "first_failure", "run_session"]

T = TypeVar("T")

_HASTY = Retries(attempts_max=3, total_s=1.0)
_ONCE = Retries(attempts_max=1)
_CLIENT_ID = "goqueue-cli"


class Session:
    """The connection of a command: `q`. Keeps the last reply as the server sent it."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        retries: Retries = _HASTY,
        timeout_s_max: float | None = None,
        client_id: str = _CLIENT_ID,
    ) -> None:
        self.settings = settings
        self.body = b""
        timeout_s = settings.timeout_s
        self.q = connect(
            settings.server,
            api_key=settings.api_key or None,
            timeout_s=timeout_s if timeout_s_max is None else min(timeout_s, timeout_s_max),
            retries=retries,
            client_id=client_id,
            on_reply=self._keep,
        )

    async def ask(self, call: "Callable[[Connection], Awaitable[T]]") -> Reply[T]:
        """Make one call; its value, and the reply word for word."""
        value = await call(self.q)
        return Reply(value, self.body)

    def patient_connection(self) -> "Connection":
        """A second connection that retries for as long as the SDK does, for bulk work."""
        settings = self.settings
        key = settings.api_key or None
        return connect(settings.server, api_key=key, timeout_s=settings.timeout_s)

    def _keep(self, body: bytes) -> None:
        self.body = body


def chosen_settings(context: click.Context) -> ClientSettings:
    """By flag, else environment, else context, else default."""
    try:
        return load_client_settings(given_server_flags(context), os.environ)
    except ClientSettingsInvalid as invalid:
        raise click.UsageError(str(invalid)) from invalid


def run_session(
    work: Callable[[Session], Awaitable[T]],
    *,
    retries: Retries = _HASTY,
    timeout_s_max: float | None = None,
    client_id: str = _CLIENT_ID,
) -> T:
    """Run the work of the present command with the server that its flags name."""
    settings = chosen_settings(click.get_current_context())

    async def run() -> T:
        session = Session(
            settings, retries=retries, timeout_s_max=timeout_s_max, client_id=client_id
        )
        async with session.q:
            return await work(session)

    try:
        return uvloop.run(run())
    except GoQueueError as error:
        raise as_failure(error, settings.server) from error
    except BaseExceptionGroup as group:
        first = first_failure(group)
        if isinstance(first, GoQueueError):
            raise as_failure(first, settings.server) from group
        raise first from group


def ask(call: "Callable[[Connection], Awaitable[T]]") -> Reply[T]:
    """Make one call to the server of the present command."""
    return run_session(lambda session: session.ask(call))


def ask_once(
    settings: ClientSettings,
    call: "Callable[[Connection], Awaitable[T]]",
    *,
    timeout_s_max: float,
) -> Reply[T]:
    """Make one call without a retry and without much time; raises a `GoQueueError`."""

    async def run() -> Reply[T]:
        session = Session(settings, retries=_ONCE, timeout_s_max=timeout_s_max)
        async with session.q:
            return await session.ask(call)

    return uvloop.run(run())


def first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Concurrent tasks fail as a group; the user sees one failure."""
    first = group.exceptions[0]
    return first_failure(first) if isinstance(first, BaseExceptionGroup) else first
